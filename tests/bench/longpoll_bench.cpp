// Wake-up time of long polls: many parked pulls on many queues, a message now and then, and how long
// until each pull of its queue has its answer. One thread with epoll on the client side.
//
//   longpoll_bench HOST:PORT [--topics 10] [--queues 100] [--pulls 10] [--connections 100]
//                  [--rate 200] [--seconds 10] [--idle 5] [--pid BROKER] [--bar-us 2000]
//
// topics x queues x pulls are parked at any time. With --pid the CPU time of the broker is printed
// for the idle seconds (nothing but parked pulls: what a scan over all of them would cost) and for
// the load. Ends with 1 if the 99th percentile is above --bar-us.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string host{"127.0.0.1"};
  std::uint16_t port = 10911;
  std::map<std::string, int, std::less<>> numbers{{"topics", 10},
                                                  {"queues", 100},
                                                  {"pulls", 10},
                                                  {"connections", 100},
                                                  {"rate", 200},
                                                  {"seconds", 10},
                                                  {"idle", 5},
                                                  {"pid", 0},
                                                  {"bar-us", 2000}};
  int operator[](std::string_view name) const { return numbers.find(name)->second; }
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.starts_with("--") && i + 1 < argc && o.numbers.contains(arg.substr(2))) {
      o.numbers[std::string(arg.substr(2))] = std::atoi(argv[++i]);
    } else if (const auto colon = arg.rfind(':'); colon != std::string_view::npos) {
      o.host = arg.substr(0, colon);
      o.port = static_cast<std::uint16_t>(std::atoi(argv[i] + colon + 1));
    } else {
      throw std::runtime_error(fmt::format("unknown argument {}", arg));
    }
  }
  return o;
}

/// Little of a header is needed: the number after a key.
std::int64_t number_after(std::string_view header, std::string_view key) {
  const auto at = header.find(key);
  return at == std::string_view::npos ? -1 : std::atoll(header.data() + at + key.size());
}

struct Answer {
  std::int64_t code = 0;
  std::int32_t opaque = 0;
  std::int64_t next_offset = 0;
};

class Connection {
 public:
  explicit Connection(const Options& o) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(o.port);
    ::inet_pton(AF_INET, o.host.c_str(), &to.sin_addr);
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
      throw std::runtime_error(fmt::format("connect: {}", std::strerror(errno)));
    }
    const int one = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { ::close(fd_); }

  int fd() const { return fd_; }

  void request(int code, int opaque, std::string_view fields, std::string_view body = {}) {
    const std::string header =
        fmt::format(R"({{"code":{},"extFields":{{{}}},"flag":0,"language":"JAVA","opaque":{},)"
                    R"("serializeTypeCurrentRPC":"JSON","version":409}})",
                    code,
                    fields,
                    opaque);
    const auto word = [](std::uint32_t v) {
      const std::uint32_t be = htonl(v);
      return std::string(reinterpret_cast<const char*>(&be), 4);
    };
    out_ += word(static_cast<std::uint32_t>(4 + header.size() + body.size()));
    out_ += word(static_cast<std::uint32_t>(header.size()));
    out_ += header;
    out_ += body;
  }

  void flush() {
    for (std::size_t at = 0; at < out_.size();) {
      const auto n = ::send(fd_, out_.data() + at, out_.size() - at, MSG_NOSIGNAL);
      if (n <= 0) {
        throw std::runtime_error(fmt::format("send: {}", std::strerror(errno)));
      }
      at += static_cast<std::size_t>(n);
    }
    out_.clear();
  }

  /// Reads once (blocks if nothing is there) and hands over each complete answer.
  template <class F>
  void receive(F&& each) {
    char buffer[65536];
    const auto n = ::recv(fd_, buffer, sizeof buffer, 0);
    if (n <= 0) {
      throw std::runtime_error("the broker closed a connection");
    }
    in_.append(buffer, static_cast<std::size_t>(n));
    std::size_t at = 0;
    const auto word = [this](std::size_t from) {
      std::uint32_t be = 0;
      std::memcpy(&be, in_.data() + from, 4);
      return ntohl(be);
    };
    while (in_.size() - at >= 8 && in_.size() - at >= 4 + word(at)) {
      const std::string_view header(in_.data() + at + 8, word(at + 4) & 0xFFFFFF);
      Answer a;
      a.code = number_after(header, "\"code\":");
      a.opaque = static_cast<std::int32_t>(number_after(header, "\"opaque\":"));
      a.next_offset = number_after(header, "\"nextBeginOffset\":\"");
      at += 4 + word(at);
      each(a);
    }
    in_.erase(0, at);
  }

  Answer call(int code, std::string_view fields, std::string_view body = {}) {
    constexpr int kOpaque = 1 << 30;
    request(code, kOpaque, fields, body);
    flush();
    Answer found;
    for (bool done = false; !done;) {
      receive([&](const Answer& a) {
        if (a.opaque == kOpaque) {
          found = a;
          done = true;
        }
      });
    }
    return found;
  }

 private:
  int fd_ = -1;
  std::string in_{};
  std::string out_{};
};

/// CPU seconds of a process; 0 without one.
double cpu_seconds(int pid) {
  if (pid == 0) {
    return 0;
  }
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  text.erase(0, text.rfind(')') + 2);
  long field = 0;
  std::uint64_t user = 0;
  std::uint64_t system = 0;
  char state = 0;
  std::sscanf(text.c_str(),
              "%c %ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %lu %lu",
              &state,
              &field,
              &field,
              &field,
              &field,
              &field,
              &field,
              &field,
              &field,
              &field,
              &field,
              &user,
              &system);
  return static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : o_(options),
        sender_(options),
        stamp_(fmt::format("{}", ::getpid())) {
    queues_ = o_["topics"] * o_["queues"];
    offsets_.assign(static_cast<std::size_t>(queues_), 0);
    sent_.assign(static_cast<std::size_t>(queues_), Clock::time_point{});
    epoll_ = ::epoll_create1(0);
    for (int i = 0; i < o_["connections"]; ++i) {
      connections_.push_back(std::make_unique<Connection>(o_));
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.ptr = connections_.back().get();
      ::epoll_ctl(epoll_, EPOLL_CTL_ADD, connections_.back()->fd(), &event);
    }
  }

  void prepare() {
    for (int t = 0; t < o_["topics"]; ++t) {
      const auto a = sender_.call(17,
                                  fmt::format(R"("topic":"{}","defaultTopic":"TBW102",)"
                                              R"("readQueueNums":"{}","writeQueueNums":"{}",)"
                                              R"("perm":"6","topicFilterType":"SINGLE_TAG",)"
                                              R"("topicSysFlag":"0","order":"false")",
                                              topic(t),
                                              o_["queues"],
                                              o_["queues"]));
      if (a.code != 0) {
        throw std::runtime_error(fmt::format("create topic: {}", a.code));
      }
    }
    // Pull k of queue q has opaque q * pulls + k and lives on connection opaque % connections.
    for (int opaque = 0; opaque < queues_ * o_["pulls"]; ++opaque) {
      pull(opaque);
    }
    for (const auto& c : connections_) {
      c->flush();
      c->call(30, fmt::format(R"("topic":"{}","queueId":"0")", topic(0)));  // all before are parked
    }
  }

  void idle() {
    const double before = cpu_seconds(o_["pid"]);
    ::sleep(static_cast<unsigned>(o_["idle"]));
    fmt::print("idle: {} parked pulls on {} queues, broker {:.3f} CPU s in {} s\n",
               queues_ * o_["pulls"],
               queues_,
               cpu_seconds(o_["pid"]) - before,
               o_["idle"]);
  }

  /// @return the 99th percentile in microseconds
  double load() {
    std::mt19937 random(42);
    const double before = cpu_seconds(o_["pid"]);
    const auto begin = Clock::now();
    const auto gap = std::chrono::nanoseconds(1'000'000'000LL / o_["rate"]);
    const int count = o_["rate"] * o_["seconds"];
    auto due = begin;
    for (int n = 0; n < count; ++n, due += gap) {
      wait_until(due);
      int q = static_cast<int>(random() % static_cast<unsigned>(queues_));
      while (busy(q)) {
        q = (q + 1) % queues_;
      }
      send(q);
    }
    wait_until(Clock::now() + std::chrono::seconds(1));
    const double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
    std::sort(times_.begin(), times_.end());
    const std::size_t expected =
        static_cast<std::size_t>(count) * static_cast<std::size_t>(o_["pulls"]);
    if (times_.size() != expected) {
      throw std::runtime_error(fmt::format("{} wake-ups instead of {}", times_.size(), expected));
    }
    const auto at = [this](double p) {
      return times_[static_cast<std::size_t>(p * static_cast<double>(times_.size() - 1))];
    };
    fmt::print(
        "load: {} messages/s, {} wake-ups, us p50 {:.0f} p90 {:.0f} p99 {:.0f} p99.9 {:.0f} max "
        "{:.0f}, broker {:.2f} CPU s in {:.1f} s\n",
        o_["rate"],
        times_.size(),
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        times_.back(),
        cpu_seconds(o_["pid"]) - before,
        elapsed);
    return at(0.99);
  }

 private:
  std::string topic(int t) const { return fmt::format("LongPoll_{}_{}", stamp_, t); }
  bool busy(int q) const { return open_.contains(q); }

  Connection& pull(int opaque) {
    const int q = opaque / o_["pulls"];
    Connection& c = *connections_[static_cast<std::size_t>(opaque) % connections_.size()];
    c.request(11,
              opaque,
              fmt::format(R"("consumerGroup":"LongPollGroup","topic":"{}","queueId":"{}",)"
                          R"("queueOffset":"{}","maxMsgNums":"32","sysFlag":"6",)"
                          R"("commitOffset":"0","suspendTimeoutMillis":"600000",)"
                          R"("subscription":"*","subVersion":"0","expressionType":"TAG")",
                          topic(q / o_["queues"]),
                          q % o_["queues"],
                          offsets_[static_cast<std::size_t>(q)]));
    return c;
  }

  void send(int q) {
    open_[q] = o_["pulls"];
    ++offsets_[static_cast<std::size_t>(q)];
    sender_.request(310,
                    1,
                    fmt::format(R"("a":"LongPollProducer","b":"{}","c":"TBW102","d":"4","e":"{}",)"
                                R"("f":"0","g":"1700000000000","h":"0","i":"","j":"0",)"
                                R"("k":"false","m":"false")",
                                topic(q / o_["queues"]),
                                q % o_["queues"]),
                    std::string(100, 'x'));
    sent_[static_cast<std::size_t>(q)] = Clock::now();
    sender_.flush();
  }

  void woken(const Answer& a) {
    const auto now = Clock::now();
    if (a.code != 0) {
      throw std::runtime_error(fmt::format("a pull was answered {}", a.code));
    }
    const int q = a.opaque / o_["pulls"];
    times_.push_back(
        std::chrono::duration<double, std::micro>(now - sent_[static_cast<std::size_t>(q)])
            .count());
    again_.push_back(a.opaque);
    if (--open_[q] == 0) {
      open_.erase(q);
    }
  }

  /// The next pulls of the same clients. Not while answers come: those would be read late.
  void pull_again() {
    for (const int opaque : again_) {
      pull(opaque).flush();
    }
    again_.clear();
  }

  void wait_until(Clock::time_point due) {
    epoll_event events[64];
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::microseconds>(due - Clock::now());
      if (left.count() <= 0) {
        break;
      }
      timespec timeout{left.count() / 1'000'000, left.count() % 1'000'000 * 1000};
      const int n = ::epoll_pwait2(epoll_, events, 64, &timeout, nullptr);
      for (int i = 0; i < n; ++i) {
        static_cast<Connection*>(events[i].data.ptr)->receive([this](const Answer& a) {
          woken(a);
        });
      }
      if (open_.empty()) {
        pull_again();
      }
    }
    pull_again();
    // Answers of the sends are not waited for, only taken away.
    char buffer[65536];
    while (::recv(sender_.fd(), buffer, sizeof buffer, MSG_DONTWAIT) > 0) {
    }
  }

  Options o_;
  Connection sender_;
  std::string stamp_;
  int queues_ = 0;
  int epoll_ = -1;
  std::vector<std::unique_ptr<Connection>> connections_{};
  std::vector<std::int64_t> offsets_{};
  std::vector<Clock::time_point> sent_{};
  std::map<int, int> open_{};  ///< queue: pulls not yet woken
  std::vector<int> again_{};
  std::vector<double> times_{};
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    Bench bench(options);
    bench.prepare();
    bench.idle();
    const double p99 = bench.load();
    if (p99 > options["bar-us"]) {
      fmt::print("p99 is above {} us\n", options["bar-us"]);
      return 1;
    }
  } catch (const std::exception& e) {
    std::cerr << "longpoll_bench: " << e.what() << '\n';
    return 2;
  }
  return 0;
}
