// What the size of a store costs: recovery of a long log, very many queues, the key index. Each store
// is written by a process of its own, which ends by SIGKILL or a clean stop; the page cache is warm.
#include "../support/store_harness.h"
#include "store_bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" const tenon_entry tenon_entry_store_file;

namespace tenon::bench {

namespace {

using namespace tenon::test;
using Time = std::chrono::steady_clock;

double ms_since(Time::time_point t) {
  return std::chrono::duration<double, std::milli>(Time::now() - t).count();
}

double cpu_ms() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  return static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
         static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

std::size_t count_in(const char* path) {
  std::size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    n += entry.path().empty() ? 0 : 1;
  }
  return n;
}

std::size_t mappings() {
  std::FILE* f = std::fopen("/proc/self/maps", "r");
  std::size_t lines = 0;
  for (int c = 0; f != nullptr && (c = std::fgetc(f)) != EOF;) {
    lines += c == '\n' ? 1 : 0;
  }
  if (f != nullptr) {
    std::fclose(f);
  }
  return lines;
}

/// A store of a process of its own.
struct Opened {
  explicit Opened(const std::filesystem::path& folder)
      : host(folder),
        store((host.record_arrivals = false, tenon_entry_store_file), "tenon.store.file", host) {
    const auto begin = Time::now();
    if (store.start() < 0) {
      std::fprintf(stderr, "%s\n", store.error().c_str());
      ::_exit(1);
    }
    open_ms = ms_since(begin);
  }
  void append(const std::vector<Message>& messages) {
    if (!Batch(store, messages, false).append()) {
      std::fprintf(stderr, "%s", host.log_text().c_str());
      ::_exit(1);
    }
  }
  FakeHost host;
  StoreInstance store;
  double open_ms = 0;
};

/// Runs it in a child. @return whether it ended well, or by the signal that it sent to itself
bool in_child(const std::function<void()>& work) {
  std::fflush(stdout);
  const pid_t pid = ::fork();
  if (pid == 0) {
    work();
    std::fflush(stdout);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return (WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
         (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

void die() {
  std::fflush(stdout);
  ::kill(::getpid(), SIGKILL);
}

void print_log(const FakeHost& host, const char* containing) {
  const std::string log = host.log_text();
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    const std::string line = log.substr(at, end - at);
    if (line.find(containing) != std::string::npos) {
      std::printf("  %s\n", line.c_str());
    }
    at = end + 1;
  }
}

std::vector<Message> some_messages(std::size_t body) {
  std::vector<Message> messages(32);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    messages[i].queue_id = static_cast<std::uint32_t>(i % 8);
    messages[i].body = std::string(body, static_cast<char>('a' + i % 26));
    messages[i].properties =
        properties_of({{"UNIQ_KEY", "C0A801051E5818B4AAC2117A8B5E0000"}, {"TAGS", "TagA"}});
  }
  return messages;
}

}  // namespace

int run_recover(const ScaleOptions& o) {
  const std::filesystem::path folder = o.dir / "store_bench";
  std::filesystem::remove_all(folder);
  bool good = in_child([&] {
    Opened s(folder);
    auto messages = some_messages(o.body);
    const auto begin = Time::now();
    while (s.store.log().end < o.mib << 20) {
      s.append(messages);
    }
    std::printf("written mib=%llu took_ms=%.0f not_synced_mib=%.0f\n",
                static_cast<unsigned long long>(s.store.log().end >> 20),
                ms_since(begin),
                static_cast<double>(s.store.log().end - s.store.log().durable) / 1048576.0);
    die();
  });
  if (!o.checkpoint) {
    std::filesystem::remove(folder / "checkpoint");
  }
  good = good && in_child([&] {
           const double before = cpu_ms();
           Opened s(folder);
           std::printf("after SIGKILL: open_ms=%.0f cpu_ms=%.0f mib=%llu checkpoint=%d\n",
                       s.open_ms,
                       cpu_ms() - before,
                       static_cast<unsigned long long>(s.store.log().end >> 20),
                       o.checkpoint ? 1 : 0);
           print_log(s.host, "recovering");
           print_log(s.host, "opened");
           const auto stopping = Time::now();
           s.store.stop();
           std::printf("stop_ms=%.0f\n", ms_since(stopping));
         });
  good =
      good && in_child([&] {
        const double before = cpu_ms();
        Opened s(folder);
        std::printf("after a clean stop: open_ms=%.0f cpu_ms=%.0f\n", s.open_ms, cpu_ms() - before);
        print_log(s.host, "opened");
        s.store.stop();
      });
  std::filesystem::remove_all(folder);
  return good ? 0 : 1;
}

int run_queues(const ScaleOptions& o) {
  const std::filesystem::path folder = o.dir / "store_bench";
  std::filesystem::remove_all(folder);
  const auto message_of = [&](std::uint64_t queue) {
    Message m;
    m.topic = "Topic" + std::to_string(queue / o.per_topic);
    m.queue_id = static_cast<std::uint32_t>(queue % o.per_topic);
    m.body = std::string(64, 'x');
    return m;
  };
  const auto fill = [&](Opened& s) {
    const auto begin = Time::now();
    double longest = 0;
    for (std::uint64_t q = 0; q < o.queues; q += 32) {
      std::vector<Message> messages;
      for (std::uint64_t i = q; i < std::min(q + 32, o.queues); ++i) {
        messages.push_back(message_of(i));
      }
      const auto before = Time::now();
      s.append(messages);
      longest = std::max(longest, ms_since(before));
    }
    while (s.store.log().dispatched < s.store.log().end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::printf("a message to each: took_ms=%.0f longest_append_ms=%.1f queues=%llu\n",
                ms_since(begin),
                longest,
                static_cast<unsigned long long>(o.queues));
  };
  const auto memory = [&](const char* when) {
    std::printf("%s: rss_anon_mib=%.1f rss_file_mib=%.1f descriptors=%zu mappings=%zu\n",
                when,
                static_cast<double>(status_kib("RssAnon:")) / 1024,
                static_cast<double>(status_kib("RssFile:")) / 1024,
                count_in("/proc/self/fd"),
                mappings());
  };
  const auto stop = [](Opened& s) {
    const auto begin = Time::now();
    s.store.stop();
    std::printf("stop_ms=%.0f\n", ms_since(begin));
  };
  bool good = in_child([&] {
    Opened s(folder);
    fill(s);
    memory("made");
    stop(s);
  });
  good = good && in_child([&] {
           Opened s(folder);
           std::printf("after a clean stop: open_ms=%.0f cpu_ms=%.0f queues=%u\n",
                       s.open_ms,
                       cpu_ms(),
                       s.store.recovered().queues);
           const double before = cpu_ms();
           std::this_thread::sleep_for(std::chrono::seconds(5));
           std::printf("idle: cpu_ms_per_s=%.1f\n", (cpu_ms() - before) / 5);
           memory("idle");
           fill(s);
           memory("used");
           die();
         });
  good = good && in_child([&] {
           Opened s(folder);
           std::printf("after SIGKILL: open_ms=%.0f cpu_ms=%.0f queues=%u\n",
                       s.open_ms,
                       cpu_ms(),
                       s.store.recovered().queues);
           for (std::uint64_t q = 0; q < o.queues; ++q) {
             const Message m = message_of(q);
             if (const Bounds b = s.store.bounds(m.topic, m.queue_id); b.max != 2 || b.min != 0) {
               std::fprintf(stderr,
                            "%s/%u has %lld messages\n",
                            m.topic.c_str(),
                            m.queue_id,
                            static_cast<long long>(b.max));
               ::_exit(1);
             }
           }
           stop(s);
         });
  std::filesystem::remove_all(folder);
  return good ? 0 : 1;
}

int run_keys(const ScaleOptions& o) {
  const std::filesystem::path folder = o.dir / "store_bench";
  std::filesystem::remove_all(folder);
  const bool good = in_child([&] {
    Opened s(folder);
    const auto key_of = [](std::uint64_t i) {
      char text[40];
      std::snprintf(
          text, sizeof text, "C0A801051E5818B4AAC2%012llX", static_cast<unsigned long long>(i));
      return std::string(text);
    };
    const auto begin = Time::now();
    for (std::uint64_t i = 0; i < o.messages; i += 32) {
      std::vector<Message> messages(32);
      for (std::uint64_t j = 0; j < messages.size(); ++j) {
        messages[j].queue_id = static_cast<std::uint32_t>(j % 8);
        messages[j].body = "hello";
        messages[j].properties = properties_of({{"UNIQ_KEY", key_of(i + j)}});
      }
      s.append(messages);
    }
    const double appended = ms_since(begin);
    static_cast<void>(s.store.query("TopicTest", key_of(o.messages / 32 * 32 - 1)));
    while (s.store.query("TopicTest", key_of(o.messages / 32 * 32 - 1)).empty()) {
    }
    std::printf("messages=%llu append_ms=%.0f indexed_after_ms=%.0f items_per_s=%.0f\n",
                static_cast<unsigned long long>(o.messages),
                appended,
                ms_since(begin),
                static_cast<double>(o.messages) / ms_since(begin) * 1e3);
    std::mt19937_64 random(1);
    std::vector<double> took;
    for (int i = 0; i < 20'000; ++i) {
      const std::string key = key_of(random() % (o.messages / 32 * 32));
      const auto before = Time::now();
      if (s.store.query("TopicTest", key).size() != 1) {
        std::fprintf(stderr, "key %s is not found\n", key.c_str());
        ::_exit(1);
      }
      took.push_back(ms_since(before) * 1000);
    }
    std::sort(took.begin(), took.end());
    double all = 0;
    for (const double us : took) {
      all += us;
    }
    std::printf("queries_per_s=%.0f p50_us=%.1f p99_us=%.1f longest_us=%.0f\n",
                static_cast<double>(took.size()) / all * 1e6,
                took[took.size() / 2],
                took[took.size() * 99 / 100],
                took.back());
    s.store.stop();
  });
  std::filesystem::remove_all(folder);
  return good ? 0 : 1;
}

}  // namespace tenon::bench
