// Signs every request that passes (spec: client §3.5).
#pragma once

#include "tenon/net/rpc_client.h"
#include "tenon/sdk/credentials.h"

#include <memory>

namespace tenon::sdk::detail {

/// Every request, whatever its code, is signed anew for each attempt. It is encoded twice: before
/// the connection is asked for its send queue, so that nobody waits for the computation, and there
/// with the number of the call, which is not signed. Thread: any.
std::unique_ptr<net::RpcClient> sign_requests(std::unique_ptr<net::RpcClient> inner,
                                              CredentialsSource source);

}  // namespace tenon::sdk::detail
