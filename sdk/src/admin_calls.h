// What the operations of Admin share.
#pragma once

#include "client_core.h"

#include "tenon/proto/bodies.h"
#include "tenon/sdk/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::sdk::detail {

// Both block and must not be called on an I/O thread.
Result<proto::ClusterInfo> cluster_info(ClientCore& client);
/// Addresses of the masters of a cluster; kNotFound if there is none.
Result<std::vector<std::string>> masters_of(ClientCore& client, std::string_view cluster);

}  // namespace tenon::sdk::detail
