// The physical ceiling of "append and acknowledge" on this machine, to judge a broker by: one epoll
// thread copies each framed body into a mapped file and answers 100 bytes; the client (another
// process) keeps a window of frames in flight on each connection. No protocol, no index, no locks.
//
//   ceiling FOLDER CONNECTIONS WINDOW BODY_BYTES COUNT
//
// Prints one JSON line: rate, MB/s of bodies, CPU seconds of client and server.

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr size_t kAnswerBytes = 100;
constexpr size_t kFileBytes = size_t{1} << 30;
constexpr size_t kBufferBytes = size_t{1} << 20;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

double cpu_seconds(const rusage& used) {
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

void watch(int epoll, int fd, void* data) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = data;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
    fail("epoll_ctl");
  }
}

bool write_all(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = write(fd, data, size);
    if (n <= 0) {
      return false;
    }
    data += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

struct Peer {
  int fd = -1;
  std::vector<char> in = std::vector<char>(kBufferBytes);
  size_t begin = 0;
  size_t end = 0;
  std::string out;
};

class Server {
 public:
  Server(int listener, const std::string& folder)
      : listener_(listener) {
    const std::string path = folder + "/ceiling.log";
    const int file = open(path.c_str(), O_RDWR | O_CREAT, 0644);
    if (file < 0 || ftruncate(file, kFileBytes) != 0) {
      fail(path.c_str());
    }
    void* map = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED) {
      fail("mmap");
    }
    map_ = static_cast<char*>(map);
    const uint32_t length = htonl(kAnswerBytes - 4);
    std::memcpy(answer_.data(), &length, 4);
  }

  void run() {
    const int epoll = epoll_create1(0);
    watch(epoll, listener_, nullptr);
    std::array<epoll_event, 64> events{};
    size_t live = 0;
    do {
      const int n = epoll_wait(epoll, events.data(), 64, -1);
      for (int i = 0; i < n; ++i) {
        auto* peer = static_cast<Peer*>(events[static_cast<size_t>(i)].data.ptr);
        if (peer == nullptr) {
          peers_.push_back(std::make_unique<Peer>());
          peers_.back()->fd = accept(listener_, nullptr, nullptr);
          const int one = 1;
          setsockopt(peers_.back()->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
          watch(epoll, peers_.back()->fd, peers_.back().get());
          ++live;
        } else if (!serve(*peer)) {
          close(peer->fd);
          --live;
        }
      }
    } while (live > 0);
  }

 private:
  bool serve(Peer& peer) {
    const ssize_t got = read(peer.fd, peer.in.data() + peer.end, peer.in.size() - peer.end);
    if (got <= 0) {
      return false;
    }
    peer.end += static_cast<size_t>(got);
    peer.out.clear();
    while (peer.end - peer.begin >= 4) {
      uint32_t length = 0;
      std::memcpy(&length, peer.in.data() + peer.begin, 4);
      length = ntohl(length);
      if (peer.end - peer.begin < 4 + size_t{length}) {
        break;
      }
      if (position_ + length > kFileBytes) {
        position_ = 0;
      }
      std::memcpy(map_ + position_, peer.in.data() + peer.begin + 4, length);
      position_ += length;
      peer.begin += 4 + size_t{length};
      peer.out.append(answer_.data(), answer_.size());
    }
    if (peer.begin == peer.end) {
      peer.begin = peer.end = 0;
    } else if (peer.in.size() - peer.end < kBufferBytes / 4) {
      std::memmove(peer.in.data(), peer.in.data() + peer.begin, peer.end - peer.begin);
      peer.end -= peer.begin;
      peer.begin = 0;
    }
    return write_all(peer.fd, peer.out.data(), peer.out.size());
  }

  int listener_;
  char* map_ = nullptr;
  size_t position_ = 0;
  std::array<char, kAnswerBytes> answer_{};
  std::vector<std::unique_ptr<Peer>> peers_;
};

struct Flow {
  int fd = -1;
  size_t pending = 0;
};

class Client {
 public:
  Client(const sockaddr_in& address, int connections, size_t body, long count)
      : flows_(static_cast<size_t>(connections)),
        frame_(4 + body, 'x'),
        count_(count) {
    const uint32_t length = htonl(static_cast<uint32_t>(body));
    std::memcpy(frame_.data(), &length, 4);
    for (Flow& flow : flows_) {
      flow.fd = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(flow.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        fail("connect");
      }
      const int one = 1;
      setsockopt(flow.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
  }

  void run(size_t window) {
    const int epoll = epoll_create1(0);
    for (Flow& flow : flows_) {
      watch(epoll, flow.fd, &flow);
      fill(flow, window);
    }
    std::vector<char> buffer(size_t{1} << 16);
    std::array<epoll_event, 64> events{};
    while (answered_ < count_) {
      const int n = epoll_wait(epoll, events.data(), 64, -1);
      for (int i = 0; i < n; ++i) {
        auto& flow = *static_cast<Flow*>(events[static_cast<size_t>(i)].data.ptr);
        const ssize_t got = read(flow.fd, buffer.data(), buffer.size());
        if (got <= 0) {
          fail("read");
        }
        flow.pending += static_cast<size_t>(got);
        const size_t answers = flow.pending / kAnswerBytes;
        flow.pending %= kAnswerBytes;
        answered_ += static_cast<long>(answers);
        fill(flow, answers);
      }
    }
    for (Flow& flow : flows_) {
      close(flow.fd);
    }
  }

 private:
  void fill(Flow& flow, size_t frames) {
    out_.clear();
    for (size_t i = 0; i < frames && sent_ < count_; ++i, ++sent_) {
      out_ += frame_;
    }
    if (!write_all(flow.fd, out_.data(), out_.size())) {
      fail("write");
    }
  }

  std::vector<Flow> flows_;
  std::string frame_;
  std::string out_;
  long count_;
  long sent_ = 0;
  long answered_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: ceiling FOLDER CONNECTIONS WINDOW BODY_BYTES COUNT\n");
    return 2;
  }
  const int connections = std::atoi(argv[2]);
  const auto window = static_cast<size_t>(std::atol(argv[3]));
  const auto body = static_cast<size_t>(std::atol(argv[4]));
  const long count = std::atol(argv[5]);
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener, 64) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    fail("listen");
  }
  const pid_t child = fork();
  if (child == 0) {
    Server(listener, argv[1]).run();
    return 0;
  }
  close(listener);
  Client client(address, connections, body, count);
  const auto begin = std::chrono::steady_clock::now();
  client.run(window);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  rusage server{};
  int status = 0;
  wait4(child, &status, 0, &server);
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  const double rate = static_cast<double>(count) / took.count();
  std::printf(
      "{\"connections\":%d,\"window\":%zu,\"size\":%zu,\"count\":%ld,\"per_second\":%.0f,"
      "\"mb_per_second\":%.1f,\"client_cpu\":%.2f,\"server_cpu\":%.2f}\n",
      connections,
      window,
      body,
      count,
      rate,
      rate * static_cast<double>(body) / 1e6,
      cpu_seconds(own),
      cpu_seconds(server));
  return status == 0 ? 0 : 1;
}
