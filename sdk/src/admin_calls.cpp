#include "admin_calls.h"

#include "errors.h"

namespace tenon::sdk::detail {

Result<proto::ClusterInfo> cluster_info(ClientCore& client) {
  auto answer =
      client.routes().ask_name_server_ok(make_request(proto::RequestCode::kGetBrokerClusterInfo));
  if (!answer) {
    return std::move(answer).error();
  }
  auto info = proto::decode_cluster_info(answer->body);
  if (info.has_error()) {
    return from_base(info.error(), Errc::kBadAnswer);
  }
  return std::move(info).value();
}

Result<std::vector<std::string>> masters_of(ClientCore& client, std::string_view cluster) {
  auto info = cluster_info(client);
  if (!info) {
    return std::move(info).error();
  }
  std::vector<std::string> out;
  const auto names = info->clusters.find(std::string(cluster));
  if (names != info->clusters.end()) {
    for (const std::string& name : names->second) {
      const auto broker = info->brokers.find(name);
      if (broker != info->brokers.end()) {
        const auto master = broker->second.addrs.find(0);
        if (master != broker->second.addrs.end()) {
          out.push_back(master->second);
        }
      }
    }
  }
  if (out.empty()) {
    return make_error(Errc::kNotFound, "no cluster called " + std::string(cluster));
  }
  return out;
}

}  // namespace tenon::sdk::detail
