// Sends to a broker, open loop: so many a second whatever the answers, over many connections. First
// it finds out what the broker can take (closed loop), then it offers a multiple of that. Latencies
// count from the moment a message was due, so what waits in this program counts as well. Fails if the
// 99th percentile of all answers is 300 ms or more, an answer is neither 0 nor 2 with a remark of
// Java's, a connection was dropped or the broker's memory grew by more than what its bounds allow.
//
//   overload_bench PORT [--connections 64] [--size 1024] [--seconds 20] [--factor 2]
//                  [--capacity MSG_PER_S] [--pid BROKER]
#include "tenon/proto/command.h"
#include "tenon/proto/frame.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using namespace tenon;

constexpr std::size_t kFirstOpaque = 1'000'000'000;  // ten digits, all of the same width
constexpr std::uint64_t kPaceUs = 5'000;             // between two portions of the open loop
constexpr std::size_t kWindow = 64;                  // in flight of a connection in the closed loop

std::uint64_t now_us() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

struct Options {
  std::uint16_t port = 0;
  std::size_t connections = 64;
  std::size_t size = 1024;
  double seconds = 20;
  double factor = 2;
  double capacity = 0;
  long pid = 0;
};

/// A frame whose opaque is overwritten in place.
struct Template {
  std::string bytes{};
  std::size_t opaque_at = 0;
};

Template send_frame(std::size_t size, int queue) {
  Template t;
  proto::FrameWriter::Head head;
  head.code = proto::RequestCode::kSendMessageV2;
  head.opaque = static_cast<std::int32_t>(kFirstOpaque);
  proto::FrameWriter w(t.bytes, head);
  w.field("a", "bench");
  w.field("b", "OverloadBench");
  w.field("c", "TBW102");
  w.field("d", 8);
  w.field("e", queue);
  w.field("f", 0);
  w.field("g", std::int64_t{1'700'000'000'000});
  w.field("h", 0);
  w.field("i",
          "UNIQ_KEY\x01"
          "7F000001270730946E0996A2E432000D\x02WAIT\x01true");
  w.field("j", 0);
  w.field("k", "false");
  w.field("m", "false");
  const std::string body(size, 'x');
  w.finish({reinterpret_cast<const std::byte*>(body.data()), body.size()});
  t.opaque_at = t.bytes.find("1000000000");
  return t;
}

std::string heartbeat_frame() {
  std::string out;
  proto::FrameWriter::Head head;
  head.code = proto::RequestCode::kHeartBeat;
  head.opaque = static_cast<std::int32_t>(kFirstOpaque);
  proto::FrameWriter w(out, head);
  const std::string body =
      R"({"clientID":"overload@bench","consumerDataSet":[],"producerDataSet":[{"groupName":"bench"}]})";
  w.finish({reinterpret_cast<const std::byte*>(body.data()), body.size()});
  return out;
}

long number_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  return at == std::string_view::npos ? -1
                                      : std::strtol(text.data() + at + key.size(), nullptr, 10);
}

struct Tally {
  std::vector<std::uint32_t> stored_us{};
  std::vector<std::uint32_t> busy_us{};
  std::vector<std::uint32_t> heartbeat_us{};
  std::vector<std::uint32_t> turn_us{};  ///< of the open loop: what this program itself adds
  std::uint64_t other = 0;
  std::uint64_t dropped_connections = 0;
  std::string busy_text{};
};

/// Frames are made when they can be written: what waits costs eight bytes here, not a kilobyte.
struct Connection {
  static constexpr std::size_t kBlock = 64;

  int fd = -1;
  bool writable = true;
  std::string block{};  ///< kBlock frames
  std::size_t frame_bytes = 0;
  std::size_t opaque_at = 0;
  std::string rest{};  ///< of a frame that was written in part
  std::string in{};
  std::vector<std::uint64_t> due_us{};  ///< by opaque
  std::size_t written = 0;
  std::size_t answered = 0;

  std::size_t in_flight() const { return due_us.size() - answered; }

  void use(const Template& frame) {
    frame_bytes = frame.bytes.size();
    opaque_at = frame.opaque_at;
    for (std::size_t i = 0; i < kBlock; ++i) {
      block += frame.bytes;
    }
  }
  void add(std::uint64_t due) { due_us.push_back(due); }

  void write_some() {
    if (writable && !rest.empty()) {
      const ssize_t n = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
      rest.erase(0, n > 0 ? static_cast<std::size_t>(n) : 0);
      writable = rest.empty();
    }
    while (writable && written < due_us.size()) {
      const std::size_t count = std::min(kBlock, due_us.size() - written);
      for (std::size_t i = 0; i < count; ++i) {
        char* at = block.data() + i * frame_bytes + opaque_at + 10;
        for (std::size_t opaque = kFirstOpaque + written + i; opaque > 0; opaque /= 10) {
          *--at = static_cast<char>('0' + opaque % 10);
        }
      }
      const std::size_t bytes = count * frame_bytes;
      const ssize_t n = ::send(fd, block.data(), bytes, MSG_NOSIGNAL);
      const std::size_t taken = n > 0 ? static_cast<std::size_t>(n) : 0;
      writable = taken == bytes;
      written += taken / frame_bytes;
      if (const std::size_t part = taken % frame_bytes; part > 0) {
        const std::size_t begin = taken - part;
        rest.assign(block, begin + part, frame_bytes - part);
        ++written;
      }
    }
  }
  /// False: closed by the broker.
  bool read_some(Tally& tally) {
    static char bytes[256 * 1024];
    for (;;) {
      const ssize_t n = ::recv(fd, bytes, sizeof bytes, 0);
      if (n == 0 || (n < 0 && errno != EAGAIN)) {
        return false;
      }
      if (n < 0) {
        return true;
      }
      in.append(bytes, static_cast<std::size_t>(n));
      take(tally);
      if (static_cast<std::size_t>(n) < sizeof bytes) {
        return true;
      }
    }
  }
  void take(Tally& tally) {
    const std::uint64_t now = now_us();
    std::size_t at = 0;
    while (in.size() - at >= 4) {
      std::uint32_t length = 0;
      std::memcpy(&length, in.data() + at, 4);
      length = ntohl(length);
      if (in.size() - at < 4u + length) {
        break;
      }
      const std::string_view answer(in.data() + at + 8, length - 4);
      const auto index =
          static_cast<std::size_t>(number_after(answer, "\"opaque\":")) - kFirstOpaque;
      const long code = number_after(answer, "\"code\":");
      const auto took = static_cast<std::uint32_t>(now - due_us.at(index));
      if (code == 0) {
        tally.stored_us.push_back(took);
      } else if (code == 2) {
        if (tally.busy_us.empty()) {
          tally.busy_text = answer;
        }
        tally.busy_us.push_back(took);
      } else {
        ++tally.other;
      }
      ++answered;
      at += 4u + length;
    }
    in.erase(0, at);
  }
};

int connect_to(std::uint16_t port, bool blocking) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&a), sizeof a) != 0) {
    std::perror("connect");
    std::exit(1);
  }
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (!blocking) {
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  return fd;
}

/// One heartbeat at a time, about ten a second.
class Pulse {
 public:
  explicit Pulse(std::uint16_t port)
      : fd_(connect_to(port, true)),
        frame_(heartbeat_frame()) {}
  ~Pulse() { ::close(fd_); }
  void turn(Tally& tally) {
    const std::uint64_t now = now_us();
    pollfd p{fd_, POLLIN, 0};
    if (waiting_ && ::poll(&p, 1, 0) > 0) {
      char bytes[4096];
      if (::recv(fd_, bytes, sizeof bytes, 0) > 0) {
        tally.heartbeat_us.push_back(static_cast<std::uint32_t>(now - sent_us_));
      }
      waiting_ = false;
    }
    if (!waiting_ && now - sent_us_ > 100'000) {
      (void)!::send(fd_, frame_.data(), frame_.size(), MSG_NOSIGNAL);
      sent_us_ = now;
      waiting_ = true;
    }
  }

 private:
  int fd_;
  std::string frame_;
  bool waiting_ = false;
  std::uint64_t sent_us_ = 0;
};

class Load {
 public:
  explicit Load(const Options& o)
      : epoll_(::epoll_create1(0)),
        connections_(o.connections) {
    for (std::size_t i = 0; i < o.connections; ++i) {
      Connection& c = connections_[i];
      c.use(send_frame(o.size, static_cast<int>(i % 8)));
      c.fd = connect_to(o.port, false);
      epoll_event e{};
      e.events = EPOLLIN | EPOLLOUT | EPOLLET;
      e.data.u64 = i;
      ::epoll_ctl(epoll_, EPOLL_CTL_ADD, c.fd, &e);
    }
  }
  ~Load() {
    for (Connection& c : connections_) {
      ::close(c.fd);
    }
    ::close(epoll_);
  }

  /// Keeps kWindow messages in flight on each connection. @return stored a second
  double closed_loop(double seconds, Tally& tally) {
    const std::uint64_t begin = now_us();
    const std::uint64_t end = begin + static_cast<std::uint64_t>(seconds * 1e6);
    while (now_us() < end) {
      for (Connection& c : connections_) {
        while (c.fd >= 0 && c.in_flight() < kWindow) {
          c.add(now_us());
        }
        c.write_some();
      }
      wait(1, tally);
    }
    const double rate =
        static_cast<double>(tally.stored_us.size()) / (static_cast<double>(now_us() - begin) / 1e6);
    drain(tally, 5);
    return rate;
  }
  void open_loop(double rate, double seconds, Pulse& pulse, Tally& tally) {
    const std::uint64_t begin = now_us();
    std::uint64_t sent = 0;
    std::size_t next = 0;
    std::uint64_t next_us = 0;
    std::uint64_t turn = begin;
    for (;;) {
      const std::uint64_t now = now_us();
      tally.turn_us.push_back(static_cast<std::uint32_t>(now - std::exchange(turn, now)));
      const double elapsed = static_cast<double>(now - begin) / 1e6;
      if (elapsed >= seconds) {
        break;
      }
      if (now >= next_us) {
        next_us = now + kPaceUs;
        const auto due = static_cast<std::uint64_t>(elapsed * rate);
        for (; sent < due; ++sent) {
          connections_[next].add(now);
          next = (next + 1) % connections_.size();
        }
        for (Connection& c : connections_) {
          c.write_some();
        }
        pulse.turn(tally);
      }
      wait(1, tally);
    }
    offered = sent;
    drain(tally, 10);
  }
  std::size_t unanswered() const {
    std::size_t n = 0;
    for (const Connection& c : connections_) {
      n += c.in_flight();
    }
    return n;
  }

  std::uint64_t offered = 0;

 private:
  void wait(int ms, Tally& tally) {
    epoll_event events[64];
    const int n = ::epoll_wait(epoll_, events, 64, ms);
    for (int i = 0; i < n; ++i) {
      Connection& c = connections_[events[i].data.u64];
      if ((events[i].events & EPOLLOUT) != 0) {
        c.writable = true;
        c.write_some();
      }
      if ((events[i].events & EPOLLIN) != 0 && !c.read_some(tally)) {
        ++tally.dropped_connections;
        ::epoll_ctl(epoll_, EPOLL_CTL_DEL, c.fd, nullptr);
      }
    }
  }
  void drain(Tally& tally, double seconds) {
    const std::uint64_t end = now_us() + static_cast<std::uint64_t>(seconds * 1e6);
    while (unanswered() > 0 && now_us() < end) {
      for (Connection& c : connections_) {
        c.write_some();
      }
      wait(10, tally);
    }
  }

  int epoll_;
  std::vector<Connection> connections_;
};

double percentile_ms(std::vector<std::uint32_t>& v, double p) {
  if (v.empty()) {
    return 0;
  }
  const auto k = static_cast<std::size_t>(p * static_cast<double>(v.size() - 1));
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(k), v.end());
  return v[k] / 1e3;
}

double long_turns_pct(const std::vector<std::uint32_t>& turns) {
  double all = 0;
  double slow = 0;
  for (const std::uint32_t us : turns) {
    all += us;
    slow += us > 20'000 ? us : 0;
  }
  return all > 0 ? 100 * slow / all : 0;
}

long memory_kib(long pid, const char* what) {
  if (pid == 0) {
    return 0;
  }
  const std::string path = "/proc/" + std::to_string(pid) + "/status";
  std::FILE* f = std::fopen(path.c_str(), "r");
  char line[256];
  long kib = 0;
  while (f != nullptr && std::fgets(line, sizeof line, f) != nullptr) {
    if (std::strncmp(line, what, std::strlen(what)) == 0) {
      kib = std::strtol(line + std::strlen(what) + 1, nullptr, 10);
    }
  }
  if (f != nullptr) {
    std::fclose(f);
  }
  return kib;
}

/// @return the exit code; says what is wrong
int verdict(double p99_ms, const Tally& t, long grown_kib) {
  constexpr double kAnswerMs = 300;
  constexpr long kGrownKib = 512 * 1024;  // 256 MiB of waiting sends, and what is unread and unsent
  int failed = 0;
  const auto expect = [&failed](bool good, const char* what) {
    if (!good) {
      std::printf("FAIL: %s\n", what);
      failed = 1;
    }
  };
  expect(p99_ms < kAnswerMs, "p99 of the answers is not below 300 ms");
  expect(t.other == 0, "answers that are neither 0 nor 2");
  expect(t.dropped_connections == 0, "connections were dropped");
  expect(grown_kib <= kGrownKib, "the broker's memory grew by more than 512 MiB");
  expect(
      t.busy_text.empty() ||
          t.busy_text.find("_CLEAN_QUEUE]broker busy, start flow control") != std::string::npos ||
          t.busy_text.find("]system busy, start flow control for a while") != std::string::npos,
      "a busy answer has another remark than Java's");
  return failed;
}

Options parse(int argc, char** argv) {
  Options o;
  o.port = static_cast<std::uint16_t>(std::atoi(argc > 1 ? argv[1] : "10911"));
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string_view key = argv[i];
    const double value = std::atof(argv[i + 1]);
    if (key == "--connections") {
      o.connections = static_cast<std::size_t>(value);
    } else if (key == "--size") {
      o.size = static_cast<std::size_t>(value);
    } else if (key == "--seconds") {
      o.seconds = value;
    } else if (key == "--factor") {
      o.factor = value;
    } else if (key == "--capacity") {
      o.capacity = value;
    } else if (key == "--pid") {
      o.pid = static_cast<long>(value);
    } else {
      std::fprintf(stderr, "unknown option %s\n", argv[i]);
      std::exit(2);
    }
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv);
  double capacity = o.capacity;
  if (capacity == 0) {
    Load load(o);
    Tally warm;
    load.closed_loop(1, warm);
    Tally tally;
    capacity = load.closed_loop(5, tally);
    std::printf(
        "capacity: %.0f sends/s, closed loop, %zu connections x %zu in flight, p99 %.1f ms\n",
        capacity,
        o.connections,
        kWindow,
        percentile_ms(tally.stored_us, 0.99));
  }
  const long before_kib = memory_kib(o.pid, "RssAnon:");
  Load load(o);
  Pulse pulse(o.port);
  Tally t;
  load.open_loop(capacity * o.factor, o.seconds, pulse, t);
  std::vector<std::uint32_t> all = t.stored_us;
  all.insert(all.end(), t.busy_us.begin(), t.busy_us.end());
  std::printf("offered: %.0f sends/s for %.0f s\n",
              static_cast<double>(load.offered) / o.seconds,
              o.seconds);
  std::printf("stored: %zu (%.0f/s), p50 %.1f ms, p99 %.1f ms\n",
              t.stored_us.size(),
              static_cast<double>(t.stored_us.size()) / o.seconds,
              percentile_ms(t.stored_us, 0.5),
              percentile_ms(t.stored_us, 0.99));
  std::printf("busy (code 2): %zu, p50 %.1f ms, p99 %.1f ms\n",
              t.busy_us.size(),
              percentile_ms(t.busy_us, 0.5),
              percentile_ms(t.busy_us, 0.99));
  std::printf(
      "all answers: p99 %.1f ms; other codes %llu; without an answer %zu; connections dropped "
      "%llu\n",
      percentile_ms(all, 0.99),
      static_cast<unsigned long long>(t.other),
      load.unanswered(),
      static_cast<unsigned long long>(t.dropped_connections));
  std::printf("turns of this program: p99 %.1f ms; above 20 ms: %.1f %% of the time\n",
              percentile_ms(t.turn_us, 0.99),
              long_turns_pct(t.turn_us));
  std::printf(
      "heartbeats: %zu, p99 %.1f ms\n", t.heartbeat_us.size(), percentile_ms(t.heartbeat_us, 0.99));
  const long after_kib = memory_kib(o.pid, "RssAnon:");
  if (o.pid != 0) {
    std::printf("memory of the broker (RssAnon): %ld MiB before, %ld MiB after\n",
                before_kib / 1024,
                after_kib / 1024);
  }
  if (!t.busy_text.empty()) {
    std::printf("first busy answer: %s\n", t.busy_text.c_str());
  }
  return verdict(percentile_ms(all, 0.99), t, after_kib - before_kib);
}
