// A store that dies again and again, by SIGKILL, at points of append, roll, flush, dispatch, retention,
// truncation and recovery that nobody chose. After each death everything is
// compared: what was acknowledged is there, queues have no holes, the index answers, what was cut or
// deleted stays away.
//
// TENON_SEED=<n> repeats a run, TENON_ROUNDS=<n> makes it longer.
#include "../../../../plugins/store_file/src/io.h"
#include "../../../support/seed.h"
#include "../../../support/store_harness.h"
#include "store_audit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" const tenon_entry tenon_entry_store_file;

namespace tenon::test {
namespace {

constexpr std::uint32_t kQueues = 3;
constexpr std::uint64_t kFile = 8192;
constexpr std::size_t kRecordMax = 900;

/// Small files: some tens of messages roll all of them. `spread`: the log lies in three folders, one
/// of which is read-only and stays empty.
void configure(FakeHost& host, const std::filesystem::path& root, bool spread) {
  if (spread) {
    host.set("commitlog_folder", (root / "log-b").string() + "," + (root / "log-a").string());
    host.set("commitlog_readonly_folders", (root / "log-c").string());
  }
  host.set("commitlog_file", static_cast<std::int64_t>(kFile));
  host.set("queue_file_bytes", 200);
  host.set("index_slots", 20);
  host.set("index_items", 16);
  host.record_arrivals = false;
}

Message numbered(int i, std::size_t record_bytes = 400) {
  Message m;
  m.queue_id = static_cast<std::uint32_t>(i) % kQueues;
  m.properties = properties_of({{"KEYS", "k" + std::to_string(i)}});
  m.body = "m" + std::to_string(i) + " ";
  m.body.resize(record_bytes - 91 - m.topic.size() - m.properties.size(), 'x');
  return m;
}

int number_of(const Audited& m) {
  return std::atoi(m.body.c_str() + 1);
}

// ------------------------------------------------------------------------------------------ SIGKILL

/// What the dying process tells, in memory that outlives it.
struct Shared {
  static constexpr int kMax = 2'000'000;
  std::atomic<int> next;                      ///< number of the next message
  std::atomic<int> operations;                ///< of this life
  std::atomic<std::uint64_t> cutting;         ///< a truncation to here may have happened
  std::atomic<std::uint64_t> deleting_below;  ///< files that end up to here may have been deleted
  std::atomic<std::uint64_t> phys[kMax];      ///< 1 + position of what was acknowledged, by number
};
constexpr std::uint64_t kNothing = ~std::uint64_t{0};

/// Dies at a system call of the store that was drawn before.
std::atomic<int> g_calls_left{0};

void count_down() {
  if (g_calls_left.load() > 0 && g_calls_left.fetch_sub(1) == 1) {
    ::kill(::getpid(), SIGKILL);
  }
}

void install_killer(int after_calls) {
  g_calls_left = after_calls;
  store_file::IoTable& io = store_file::io();
  io.open = [](const char* path, int flags, mode_t mode) {
    count_down();
    return store_file::system_io().open(path, flags, mode);
  };
  io.ftruncate = [](int fd, off_t bytes) {
    count_down();
    return store_file::system_io().ftruncate(fd, bytes);
  };
  io.mmap = [](void* at, std::size_t bytes, int prot, int flags, int fd, off_t offset) {
    count_down();
    return store_file::system_io().mmap(at, bytes, prot, flags, fd, offset);
  };
  io.msync = [](void*, std::size_t, int) {
    count_down();
    return 0;  // the page cache survives
  };
  io.fdatasync = [](int) {
    count_down();
    return 0;
  };
  io.unlink = [](const char* path) {
    count_down();
    return store_file::system_io().unlink(path);
  };
  io.pwrite = [](int fd, const void* from, std::size_t bytes, off_t offset) {
    count_down();
    return store_file::system_io().pwrite(fd, from, bytes, offset);
  };
  io.populate = [](void* at, std::size_t bytes) {
    count_down();
    return store_file::system_io().populate(at, bytes);
  };
  io.fallocate = [](int fd, int mode, off_t from, off_t bytes) {
    count_down();
    return store_file::system_io().fallocate(fd, mode, from, bytes);
  };
}

/// Works on the store until somebody ends the process.
class Victim {
 public:
  Victim(const std::filesystem::path& root, bool spread, Shared& shared, unsigned seed)
      : shared_(shared),
        random_(seed),
        host_(root) {
    configure(host_, root, spread);
  }
  [[noreturn]] void run() {
    auto* store = new StoreInstance(tenon_entry_store_file, "tenon.store.file", host_);
    store_ = store;
    if (store->start() < 0) {
      std::fprintf(stderr, "cannot start: %s\n", store->error().c_str());
      ::_exit(1);
    }
    while (shared_.next < Shared::kMax - 10) {
      step();
      ++shared_.operations;
    }
    ::_exit(3);
  }

 private:
  bool one_in(unsigned n) { return random_() % n == 0; }

  void step() {
    if (one_in(40)) {
      retain();
    } else if (one_in(15)) {
      truncate();
    } else if (one_in(10)) {
      store_->table().flush_now(store_->self(), store_->log().end, 10'000, nullptr);
    } else if (one_in(8)) {
      lag();
    } else {
      append(one_in(3) ? 1 + static_cast<int>(random_() % 6) : 1);
    }
  }
  void append(int count) {
    std::vector<Message> batch;
    for (int i = 0; i < count; ++i) {
      batch.push_back(numbered(shared_.next++, 200 + random_() % (kRecordMax - 200)));
    }
    const int first = shared_.next - count;
    const auto results = store_->append(batch);
    for (int i = 0; i < count; ++i) {
      const auto& r = results[static_cast<std::size_t>(i)];
      if (r.status != TENON_OK) {
        ::_exit(2);
      }
      shared_.phys[first + i] = 1 + r.phys;
    }
  }
  /// Dispatch is left to the follower for a while.
  void lag() {
    store_->table().set_visible_limit(store_->self(), store_->log().end);
    append(3);
    store_->table().set_visible_limit(store_->self(), TENON_NO_LIMIT);
  }
  void retain() {
    const std::uint64_t end = store_->log().end;
    shared_.deleting_below = end;
    tenon_retention p{};
    p.size = sizeof p;
    p.flags = TENON_RETENTION_MANUAL;
    p.now_ms = INT64_MAX / 2;
    p.max_files = 1 + static_cast<std::uint32_t>(random_() % 10);
    tenon_retention_result r{};
    r.size = sizeof r;
    store_->table().retention(store_->self(), &p, &r, nullptr);
    shared_.deleting_below = store_->log().min_phys;
  }
  void truncate() {
    const int last = shared_.next - 1 - static_cast<int>(random_() % 5);
    if (last < 0) {
      return;
    }
    const std::uint64_t known = shared_.phys[last];
    if (known == 0 || known - 1 < store_->log().min_phys) {
      return;
    }
    shared_.cutting = known - 1;
    if (store_->table().truncate(store_->self(), known - 1, TENON_TRUNCATE_ERASE, nullptr) < 0) {
      ::_exit(4);
    }
    for (int i = last; i < shared_.next; ++i) {
      shared_.phys[i] = 0;
    }
    shared_.cutting = kNothing;
  }

  Shared& shared_;
  std::mt19937 random_;
  FakeHost host_;
  StoreInstance* store_ = nullptr;
};

/// Compares the store with what its dead process had acknowledged; what was found counts as
/// acknowledged from then on.
class Judge {
 public:
  Judge(std::filesystem::path root, bool spread, Shared& shared)
      : root_(std::move(root)),
        spread_(spread),
        shared_(shared) {}

  void check() {
    FakeHost host(root_);
    configure(host, root_, spread_);
    StoreInstance store(tenon_entry_store_file, "tenon.store.file", host);
    REQUIRE_MESSAGE(store.start() == TENON_OK, store.error());
    CAPTURE(host.log_text());
    const Audit audit = audit_store(store, "TopicTest", kQueues, true);
    for (const std::string& problem : audit.problems) {
      FAIL_CHECK(problem);
    }
    REQUIRE(audit.problems.empty());
    const std::uint64_t min = store.log().min_phys;
    REQUIRE(min >= min_);
    REQUIRE(min <= std::max<std::uint64_t>(min_, shared_.deleting_below));
    REQUIRE(min % kFile == 0);
    min_ = min;

    std::map<int, std::uint64_t> found;
    for (const Audited& m : audit.messages) {
      const int number = number_of(m);
      REQUIRE(found.emplace(number, m.phys).second);
      REQUIRE(number < shared_.next);
      REQUIRE(m.queue_id == static_cast<std::uint32_t>(number) % kQueues);
      // Neither cut earlier nor from before the last audit and unknown then.
      REQUIRE((number >= judged_ || shared_.phys[number] == 1 + m.phys));
    }
    const std::uint64_t cut = shared_.cutting;
    for (int n = first_; n < shared_.next; ++n) {
      const std::uint64_t phys = shared_.phys[n] - 1;
      if (shared_.phys[n] != 0 && phys >= min && phys < cut) {
        CAPTURE(n);
        REQUIRE(found.count(n) == 1);
        REQUIRE(found[n] == phys);
      }
      shared_.phys[n] = found.count(n) == 0 ? 0 : 1 + found[n];
    }
    first_ = found.empty() ? shared_.next.load() : found.begin()->first;
    judged_ = shared_.next;
    shared_.cutting = kNothing;
    messages_ += found.size();
    deletions_ += min > 0 ? 1 : 0;
  }
  std::size_t messages() const { return messages_; }
  std::size_t deletions() const { return deletions_; }

 private:
  std::filesystem::path root_;
  bool spread_;
  Shared& shared_;
  std::uint64_t min_ = 0;
  int first_ = 0;   ///< numbers before are deleted or cut
  int judged_ = 0;  ///< numbers before were there, or not, at the last audit
  std::size_t messages_ = 0;
  std::size_t deletions_ = 0;
};

void kill_again_and_again(bool spread, int rounds) {
  std::mt19937 random(seed_of_run());
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* shared = new (memory) Shared{};
  shared->cutting = kNothing;
  TempFolder root;
  Judge judge(root.path(), spread, *shared);
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    shared->operations = 0;
    // By a system call of its own (often while it recovers), or from outside at any instruction.
    const bool by_call = random() % 2 == 0;
    const int calls = by_call ? 1 + static_cast<int>(random() % (random() % 3 == 0 ? 60 : 600)) : 0;
    const int operations = static_cast<int>(random() % 150);
    const auto seed = static_cast<unsigned>(random());
    const pid_t child = ::fork();
    if (child == 0) {
      install_killer(calls);
      Victim(root.path(), spread, *shared, seed).run();
    }
    REQUIRE(child > 0);
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) == 0) {
      if ((!by_call && shared->operations >= operations) ||
          std::chrono::steady_clock::now() > give_up) {
        ::kill(child, SIGKILL);
        ::waitpid(child, &status, 0);
        break;
      }
      ::sched_yield();
    }
    REQUIRE_MESSAGE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL), "status " << status);
    judge.check();
  }
  MESSAGE(rounds << " kills, " << shared->next.load() << " messages, " << judge.messages()
                 << " compared, deleted before " << judge.deletions() << " of them");
  CHECK(judge.deletions() > 0);
  ::munmap(memory, sizeof(Shared));
}

}  // namespace

TEST_SUITE("store_file/crash") {
  // store §26.14: kill -9 then restart; §26.27 over a kill
  TEST_CASE(
      "killed at any point: what was acknowledged is there, and nothing that went comes back") {
    kill_again_and_again(false, env_number("TENON_ROUNDS", 40));
  }
  TEST_CASE("killed at any point with a log that is spread over several folders") {
    kill_again_and_again(true, env_number("TENON_ROUNDS", 40) / 2);
  }
}

}  // namespace tenon::test
