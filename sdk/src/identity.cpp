#include "identity.h"

#include "tenon/proto/message.h"

#include <chrono>
#include <ctime>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

namespace tenon::sdk {
namespace {

constexpr char kHex[] = "0123456789ABCDEF";

void put_hex(char* out, std::uint64_t value, int digits) noexcept {
  for (int i = digits - 1; i >= 0; --i) {
    out[i] = kHex[value & 0xf];
    value >>= 4;
  }
}

std::int64_t month_start_ms(std::int64_t now_ms, int months_later) {
  const auto seconds = static_cast<std::time_t>(now_ms / 1000);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::tm first{};
  first.tm_year = local.tm_year;
  first.tm_mon = local.tm_mon + months_later;
  first.tm_mday = 1;
  first.tm_isdst = -1;
  return static_cast<std::int64_t>(std::mktime(&first)) * 1000;
}

}  // namespace

std::string local_ip() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return "127.0.0.1";
  }
  std::string last;
  std::string first_public;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET ||
        (i->ifa_flags & IFF_LOOPBACK) != 0 || (i->ifa_flags & IFF_UP) == 0) {
      continue;
    }
    char text[INET_ADDRSTRLEN] = {};
    const auto* in = reinterpret_cast<const sockaddr_in*>(i->ifa_addr);
    inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
    const std::string_view ip(text);
    last = ip;
    if (first_public.empty() && !ip.starts_with("127.0") && !ip.starts_with("192.168")) {
      first_public = ip;
    }
  }
  freeifaddrs(list);
  if (!first_public.empty()) {
    return first_public;
  }
  return last.empty() ? "127.0.0.1" : last;
}

std::string make_client_id(std::string_view ip,
                           std::string_view instance,
                           std::string_view unit,
                           bool stream) {
  static std::atomic<std::uint64_t> last_nanos{0};
  std::string id(ip);
  id += '@';
  if (instance.empty()) {
    // Trap: the client id is the member identity in rebalance; two equal ones split a group wrongly
    // (client §1.2).
    const auto now =
        static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    std::uint64_t before = last_nanos.load(std::memory_order_relaxed);
    std::uint64_t mine = 0;
    do {
      mine = now > before ? now : before + 1;
    } while (!last_nanos.compare_exchange_weak(before, mine, std::memory_order_relaxed));
    id += std::to_string(getpid()) + "#" + std::to_string(mine);
  } else {
    id += instance;
  }
  if (!unit.empty()) {
    id += '@';
    id += unit;
  }
  if (stream) {
    id += "@STREAM";
  }
  return id;
}

MessageIds::MessageIds(std::string_view ipv4, std::uint16_t pid, std::uint32_t loader) {
  const std::string with_port = std::string(ipv4) + ":0";
  std::uint32_t ip = 0x7f000001;
  if (const auto parsed = proto::parse_host_addr(with_port);
      parsed.has_value() && !parsed.value().v6) {
    const auto& bytes = parsed.value().ip;
    ip = std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | bytes[3];
  }
  put_hex(prefix_.data(), ip, 8);
  put_hex(prefix_.data() + 8, pid, 4);
  put_hex(prefix_.data() + 12, loader, 8);
}

void MessageIds::anchor(std::int64_t now_ms) noexcept {
  const std::scoped_lock lock(mutex_);
  if (now_ms >= month_start_.load(std::memory_order_relaxed) &&
      now_ms < month_end_.load(std::memory_order_relaxed)) {
    return;
  }
  month_end_.store(0, std::memory_order_release);
  month_start_.store(month_start_ms(now_ms, 0), std::memory_order_release);
  month_end_.store(month_start_ms(now_ms, 1), std::memory_order_release);
}

std::uint32_t MessageIds::month_ms(std::int64_t now_ms) noexcept {
  if (now_ms >= month_end_.load(std::memory_order_acquire) ||
      now_ms < month_start_.load(std::memory_order_acquire)) {
    anchor(now_ms);
  }
  return static_cast<std::uint32_t>(now_ms - month_start_.load(std::memory_order_acquire));
}

void MessageIds::next(std::int64_t now_ms, char* out) noexcept {
  for (std::size_t i = 0; i < prefix_.size(); ++i) {
    out[i] = prefix_[i];
  }
  put_hex(out + 20, month_ms(now_ms), 8);
  put_hex(out + 28, counter_.fetch_add(1, std::memory_order_relaxed) & 0xffff, 4);
}

}  // namespace tenon::sdk
