// Adds fields to every request that passes (spec: client §1.1).
#pragma once

#include "tenon/net/rpc_client.h"

#include <memory>

namespace tenon::sdk::detail {

/// Every request gets the field of a stream client (ReqT). Before the signature, which covers it.
/// Thread: any.
std::unique_ptr<net::RpcClient> mark_as_stream(std::unique_ptr<net::RpcClient> inner);

}  // namespace tenon::sdk::detail
