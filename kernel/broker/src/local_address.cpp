#include "local_address.h"

#include "tenon/proto/message.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

namespace tenon::broker {

std::string first_local_ipv4() {
  std::string found = "127.0.0.1";
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return found;
  }
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET ||
        (i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0) {
      continue;
    }
    char text[INET_ADDRSTRLEN] = {};
    const auto* address = reinterpret_cast<const sockaddr_in*>(i->ifa_addr);
    if (::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text) != nullptr) {
      found = text;
      break;
    }
  }
  ::freeifaddrs(list);
  return found;
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') {
    return "DEFAULT_BROKER";
  }
  std::string out(name);
  for (char& c : out) {
    const bool legal = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_';
    if (!legal) {
      c = '-';
    }
  }
  out.resize(std::min(out.size(), proto::kTopicMaxBytes));
  return out;
}

Result<Advertised> advertise(const BrokerConfig& config, std::uint16_t port) {
  Advertised a;
  a.ip = config.broker_ip1;
  if (a.ip.empty()) {
    const bool any =
        config.listen_host == "0.0.0.0" || config.listen_host == "::" || config.listen_host.empty();
    a.ip = any ? first_local_ipv4() : config.listen_host;
  }
  const bool v6 = a.ip.find(':') != std::string::npos;
  a.address = v6 ? "[" + a.ip + "]:" + std::to_string(port) : a.ip + ":" + std::to_string(port);
  TENON_TRY(a.store_host, proto::parse_host_addr(a.address));
  return a;
}

}  // namespace tenon::broker
