// Functions of the program that see every request, and the field of stream clients (spec: client §1.1,
// §4.15).
#pragma once

#include "tenon/base/clock.h"
#include "tenon/net/rpc_client.h"
#include "tenon/sdk/hooks.h"

#include <memory>
#include <vector>

namespace tenon::sdk::detail {

/// Stands before the signature, which covers what is added here.
/// @param stream  every request gets the field of a stream client (ReqT), before the hooks see it
std::unique_ptr<net::RpcClient> hook_requests(std::unique_ptr<net::RpcClient> inner,
                                              std::vector<RpcHook> hooks,
                                              bool stream,
                                              const Clock& clock);

}  // namespace tenon::sdk::detail
