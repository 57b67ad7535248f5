// Appends per second of the file store, one thread, and the longest append over file changes.
//
//   store_bench [--dir FOLDER] [--seconds S]
//   store_bench roll [--dir FOLDER] [--rolls N] [--file-mib M] [--rate MB_PER_S] [--body B]
//                    [--batch N] [--keys 1] [--sync 1] [--where 1]
//   store_bench recover [--dir FOLDER] [--mib N] [--body B] [--checkpoint 0]
//   store_bench queues [--dir FOLDER] [--queues N] [--per-topic N]
//   store_bench keys [--dir FOLDER] [--messages N]
#include "store_bench.h"

#include "../support/store_harness.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

extern "C" const tenon_entry tenon_entry_store_file;

namespace tenon::bench {

long status_kib(const char* key) {
  std::ifstream in("/proc/self/status");
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with(key)) {
      return std::atol(line.c_str() + std::strlen(key) + 1);
    }
  }
  return 0;
}

Batch::Batch(test::StoreInstance& store, const std::vector<test::Message>& messages, bool open)
    : store_(store),
      results_(messages.size()) {
  for (const test::Message& m : messages) {
    records_.push_back(test::to_record(m));
    if (open) {
      records_.back().queue = store.queue(m.topic, m.queue_id, true);
    }
  }
}

bool Batch::append() {
  store_.table().append(store_.self(),
                        records_.data(),
                        sizeof records_[0],
                        records_.size(),
                        results_.data(),
                        sizeof results_[0],
                        nullptr);
  if (results_.back().status < 0) {
    std::fprintf(stderr, "append failed: %d\n", results_.back().status);
    return false;
  }
  return true;
}

}  // namespace tenon::bench

namespace {

using namespace tenon::test;
using tenon::bench::Batch;
using tenon::bench::status_kib;
using Time = std::chrono::steady_clock;

double seconds_since(Time::time_point t) {
  return std::chrono::duration<double>(Time::now() - t).count();
}

/// CPU time of this thread: figures per CPU second hold on a busy machine too.
double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

/// Bytes per CPU second of copying `bytes`-sized pieces one after another into a mapped file of that
/// size. Its pages are made ready by somebody else, as the store does: that is not counted.
double copy_speed(const std::filesystem::path& folder, std::size_t bytes, std::size_t file_bytes) {
  constexpr std::size_t kReady = 8u << 20;
  const std::string path = (folder / "memcpy").string();
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(file_bytes)) != 0) {
    std::perror(path.c_str());
    std::exit(1);
  }
  void* const at = ::mmap(nullptr, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::madvise(at, file_bytes, MADV_RANDOM);
  auto* const to = static_cast<char*>(at);
  const std::vector<char> from(bytes, 'x');
  double cpu = 0;
  std::size_t copied = 0;
  for (std::size_t begin = 0; begin + kReady <= file_bytes && cpu < 0.3; begin += kReady) {
    for (std::size_t page = 0; page < kReady; page += 4096) {
      to[begin + page] = 1;
    }
    const double before = cpu_seconds();
    for (std::size_t i = 0; i + bytes <= kReady; i += bytes) {
      std::memcpy(to + begin + i, from.data(), bytes);
    }
    cpu += cpu_seconds() - before;
    copied += kReady / bytes * bytes;
  }
  ::munmap(at, file_bytes);
  ::close(fd);
  std::filesystem::remove(path);
  return static_cast<double>(copied) / cpu;
}

struct Setting {
  std::size_t body = 0;
  std::size_t batch = 0;
  std::int64_t file_bytes = 1 << 30;
  bool keys = false;
};

void measure(const std::filesystem::path& dir, const Setting& setting, double seconds) {
  const std::filesystem::path folder = dir / "store_bench";
  std::filesystem::remove_all(folder);
  FakeHost host(folder);
  host.record_arrivals = false;
  host.set("commitlog_file", setting.file_bytes);
  StoreInstance store(tenon_entry_store_file, "tenon.store.file", host);
  const auto opening = Time::now();
  if (store.start() < 0) {
    std::fprintf(stderr, "%s\n", store.error().c_str());
    std::exit(1);
  }
  const double open_ms = seconds_since(opening) * 1000;
  std::vector<Message> messages(setting.batch);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    messages[i].queue_id = static_cast<std::uint32_t>(i % 4);
    messages[i].body = std::string(setting.body, 'x');
    if (setting.keys) {
      messages[i].properties =
          properties_of({{"UNIQ_KEY", "C0A801051E5818B4AAC2117A8B5E0000"}, {"TAGS", "TagA"}});
    }
  }
  Batch batch(store, messages, true);
  double worst_ms = 0;
  std::size_t count = 0;
  const double cpu_begin = cpu_seconds();
  const auto begin = Time::now();
  auto before = begin;
  while (std::chrono::duration<double>(before - begin).count() < seconds) {
    if (!batch.append()) {
      std::exit(1);
    }
    const auto now = Time::now();
    worst_ms = std::max(worst_ms, std::chrono::duration<double, std::milli>(now - before).count());
    before = now;
    count += batch.size();
  }
  const double took = seconds_since(begin);
  const double cpu = cpu_seconds() - cpu_begin;
  const double bytes = static_cast<double>(store.log().end);
  const double copy =
      copy_speed(dir, batch.record_bytes(), static_cast<std::size_t>(setting.file_bytes));
  std::printf(
      "body=%zu batch=%zu file_mib=%lld keys=%d appends_per_s=%.0f appends_per_cpu_s=%.0f "
      "mb_per_cpu_s=%.0f memcpy_mb_per_cpu_s=%.0f share=%.2f longest_append_ms=%.2f files=%.0f "
      "open_ms=%.1f rss_anon_kib=%ld rss_file_kib=%ld\n",
      setting.body,
      setting.batch,
      static_cast<long long>(setting.file_bytes >> 20),
      setting.keys ? 1 : 0,
      static_cast<double>(count) / took,
      static_cast<double>(count) / cpu,
      bytes / cpu / 1e6,
      copy / 1e6,
      bytes / cpu / copy,
      worst_ms,
      bytes / static_cast<double>(setting.file_bytes),
      open_ms,
      status_kib("RssAnon:"),
      status_kib("RssFile:"));
  std::fflush(stdout);
  store.stop();
  std::filesystem::remove_all(folder);
}

}  // namespace

namespace {

int roll(int argc, char** argv) {
  tenon::bench::RollOptions o;
  o.dir = std::filesystem::temp_directory_path();
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    const char* value = argv[i + 1];
    const auto number = static_cast<std::uint64_t>(std::atoll(value));
    if (key == "--dir") {
      o.dir = value;
    } else if (key == "--rolls") {
      o.rolls = number;
    } else if (key == "--file-mib") {
      o.file_bytes = number << 20;
    } else if (key == "--rate") {
      o.mb_per_s = std::atof(value);
    } else if (key == "--body") {
      o.body = number;
    } else if (key == "--batch") {
      o.batch = number;
    } else if (key == "--keys") {
      o.keys = number != 0;
    } else if (key == "--sync") {
      o.sync = number != 0;
    } else if (key == "--where") {
      o.where = number != 0;
    } else {
      std::fprintf(stderr, "unknown option %s\n", key.c_str());
      return 2;
    }
  }
  return tenon::bench::run_roll(o);
}

}  // namespace

namespace {

int scale(int argc, char** argv) {
  tenon::bench::ScaleOptions o;
  o.dir = std::filesystem::temp_directory_path();
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    const auto number = static_cast<std::uint64_t>(std::atoll(argv[i + 1]));
    if (key == "--dir") {
      o.dir = argv[i + 1];
    } else if (key == "--mib") {
      o.mib = number;
    } else if (key == "--queues") {
      o.queues = number;
    } else if (key == "--per-topic") {
      o.per_topic = number;
    } else if (key == "--body") {
      o.body = number;
    } else if (key == "--messages") {
      o.messages = number;
    } else if (key == "--checkpoint") {
      o.checkpoint = number != 0;
    } else {
      std::fprintf(stderr, "unknown option %s\n", key.c_str());
      return 2;
    }
  }
  const std::string mode = argv[1];
  return mode == "recover"  ? tenon::bench::run_recover(o)
         : mode == "queues" ? tenon::bench::run_queues(o)
                            : tenon::bench::run_keys(o);
}

}  // namespace

int main(int argc, char** argv) {
  for (const char* mode : {"recover", "queues", "keys"}) {
    if (argc > 1 && std::strcmp(argv[1], mode) == 0) {
      return scale(argc, argv);
    }
  }
  if (argc > 1 && std::strcmp(argv[1], "roll") == 0) {
    return roll(argc, argv);
  }
  std::filesystem::path dir = std::filesystem::temp_directory_path();
  double seconds = 1.5;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--dir") == 0) {
      dir = argv[i + 1];
    } else if (std::strcmp(argv[i], "--seconds") == 0) {
      seconds = std::atof(argv[i + 1]);
    }
  }
  for (const Setting& s : {Setting{128, 1, 1 << 30, false},
                           Setting{128, 32, 1 << 30, false},
                           Setting{1024, 1, 1 << 30, false},
                           Setting{1024, 32, 1 << 30, false},
                           Setting{128, 32, 1 << 30, true},
                           Setting{1024, 32, 64 << 20, false}}) {
    measure(dir, s, seconds);
  }
  return 0;
}
