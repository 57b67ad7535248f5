// The longest stall of an append over file changes: retention, roll-over and pre-allocation work at
// the same time, and none of them may be felt.
//
// Time that the thread was ready but the machine ran something else is measured apart (schedstat),
// so that a figure of a busy machine says what the store did.
#include "../support/store_harness.h"
#include "store_bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" const tenon_entry tenon_entry_store_file;

namespace tenon::bench {

namespace {

using namespace tenon::test;
using Time = std::chrono::steady_clock;

/// Nanoseconds that this thread waited for a processor.
class RunQueueClock {
 public:
  RunQueueClock()
      : fd_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
  RunQueueClock(const RunQueueClock&) = delete;
  RunQueueClock& operator=(const RunQueueClock&) = delete;
  ~RunQueueClock() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  std::int64_t ns() const {
    char text[96] = {};
    if (fd_ < 0 || ::pread(fd_, text, sizeof text - 1, 0) <= 0) {
      return 0;
    }
    char* end = nullptr;
    static_cast<void>(std::strtoll(text, &end, 10));
    return std::strtoll(end, nullptr, 10);
  }

 private:
  int fd_;
};

/// Prints where in the kernel the appender is when an append takes long. Needs root.
class StallWatch {
 public:
  explicit StallWatch(bool on)
      : thread_id_(static_cast<long>(::syscall(SYS_gettid))) {
    if (on) {
      watcher_ = std::thread([this] { run(); });
    }
  }
  ~StallWatch() {
    stop_ = true;
    if (watcher_.joinable()) {
      watcher_.join();
    }
  }
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;
  void begin() { since_.store(now_ns(), std::memory_order_relaxed); }
  void end() { since_.store(0, std::memory_order_relaxed); }

 private:
  static std::int64_t now_ns() { return Time::now().time_since_epoch().count(); }
  void run() {
    const std::string path = "/proc/self/task/" + std::to_string(thread_id_) + "/stack";
    std::int64_t shown = 0;
    while (!stop_) {
      const std::int64_t since = since_.load(std::memory_order_relaxed);
      const std::int64_t held = since == 0 ? 0 : now_ns() - since;
      if (held > 2'000'000 && since != shown) {
        shown = since;
        char text[4096] = {};
        const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && ::read(fd, text, sizeof text - 1) >= 0) {
          std::fprintf(stderr, "append takes %.1f ms:\n%s", static_cast<double>(held) / 1e6, text);
        }
        ::close(fd);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  long thread_id_;
  std::atomic<std::int64_t> since_{0};
  std::atomic<bool> stop_{false};
  std::thread watcher_{};
};

double percentile(std::vector<float>& sorted, double part) {
  if (sorted.empty()) {
    return 0;
  }
  const auto at = static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1));
  return sorted[at];
}

/// What a long append did: where in the file it was, and what it cost.
void show_long(std::uint64_t end, std::uint64_t file_bytes, double ms, const rusage& a) {
  rusage b{};
  ::getrusage(RUSAGE_THREAD, &b);
  const auto spent = [](const timeval& from, const timeval& to) {
    return static_cast<double>(to.tv_sec - from.tv_sec) * 1e3 +
           static_cast<double>(to.tv_usec - from.tv_usec) / 1e3;
  };
  std::fprintf(stderr,
               "long append ms=%.2f at_mib=%.2f in_file_mib=%.3f user_ms=%.2f system_ms=%.2f "
               "faults=%ld waits=%ld preempted=%ld\n",
               ms,
               static_cast<double>(end) / 1048576.0,
               static_cast<double>(end % file_bytes) / 1048576.0,
               spent(a.ru_utime, b.ru_utime),
               spent(a.ru_stime, b.ru_stime),
               b.ru_minflt - a.ru_minflt,
               b.ru_nvcsw - a.ru_nvcsw,
               b.ru_nivcsw - a.ru_nivcsw);
}

std::vector<Message> messages_of(const RollOptions& o) {
  std::vector<Message> messages(o.batch);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    messages[i].queue_id = static_cast<std::uint32_t>(i % 4);
    messages[i].body = std::string(o.body, 'x');
    if (o.keys) {
      messages[i].properties = properties_of({{"UNIQ_KEY", "C0A801051E5818B4AAC2117A8B5E0000"}});
    }
  }
  return messages;
}

}  // namespace

int run_roll(const RollOptions& options) {
  const std::filesystem::path folder = options.dir / "store_bench";
  std::filesystem::remove_all(folder);
  FakeHost host(folder);
  host.record_arrivals = false;
  host.set("commitlog_file", static_cast<std::int64_t>(options.file_bytes));
  if (options.sync) {
    host.set("flush", std::string("sync"));
  }
  StoreInstance store(tenon_entry_store_file, "tenon.store.file", host);
  if (store.start() < 0) {
    std::fprintf(stderr, "%s\n", store.error().c_str());
    return 1;
  }
  const std::vector<Message> messages = messages_of(options);
  Batch batch(store, messages, true);
  std::atomic<bool> stop{false};
  std::thread cleaner([&] {  // deletes all but about four files, as fast as they come
    while (!stop) {
      tenon_retention p{};
      p.size = sizeof p;
      p.flags = TENON_RETENTION_MANUAL;
      p.max_files = store.log().end - store.log().min_phys > 4 * options.file_bytes ? 1 : 0;
      tenon_retention_result r{};
      r.size = sizeof r;
      static_cast<void>(store.table().retention(store.self(), &p, &r, nullptr));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  std::vector<float> blocked_ms;
  std::vector<float> wall_ms;
  const RunQueueClock run_queue;
  const std::uint64_t target = options.rolls * options.file_bytes;
  const auto begin = Time::now();
  int exit_code = 0;
  {
    StallWatch watch(options.where);
    while (store.log().end < target) {
      if (options.mb_per_s > 0) {
        const double due = static_cast<double>(store.log().end) / 1e6 / options.mb_per_s;
        std::this_thread::sleep_until(
            begin + std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(due)));
      }
      rusage usage{};
      if (options.where) {
        ::getrusage(RUSAGE_THREAD, &usage);
      }
      const std::int64_t waited = run_queue.ns();
      const auto before = Time::now();
      watch.begin();
      const bool good = batch.append();
      watch.end();
      const double took = std::chrono::duration<double, std::milli>(Time::now() - before).count();
      wall_ms.push_back(static_cast<float>(took));
      const double other = static_cast<double>(run_queue.ns() - waited) / 1e6;
      blocked_ms.push_back(static_cast<float>(std::max(0.0, took - other)));
      if (options.where && blocked_ms.back() > 3) {
        show_long(store.log().end, options.file_bytes, blocked_ms.back(), usage);
      }
      if (!good) {
        exit_code = 1;
        break;
      }
    }
  }
  const double took = std::chrono::duration<double>(Time::now() - begin).count();
  stop = true;
  cleaner.join();
  std::sort(blocked_ms.begin(), blocked_ms.end());
  std::sort(wall_ms.begin(), wall_ms.end());
  std::printf(
      "rolls=%.0f file_mib=%zu body=%zu batch=%zu mb_per_s=%.0f appends=%zu "
      "p99_ms=%.3f p99.9_ms=%.3f p99.99_ms=%.3f longest_ms=%.2f longest_wall_ms=%.2f "
      "over_5ms=%td\n",
      static_cast<double>(store.log().end) / static_cast<double>(options.file_bytes),
      static_cast<std::size_t>(options.file_bytes >> 20),
      options.body,
      options.batch,
      static_cast<double>(store.log().end) / took / 1e6,
      blocked_ms.size(),
      percentile(blocked_ms, 0.99),
      percentile(blocked_ms, 0.999),
      percentile(blocked_ms, 0.9999),
      percentile(blocked_ms, 1.0),
      percentile(wall_ms, 1.0),
      blocked_ms.end() - std::upper_bound(blocked_ms.begin(), blocked_ms.end(), 5.0f));
  std::fflush(stdout);
  store.stop();
  std::filesystem::remove_all(folder);
  return exit_code;
}

}  // namespace tenon::bench
