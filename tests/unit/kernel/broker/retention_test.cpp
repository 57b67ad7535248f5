// When the storage is asked to delete, and what a full disk answers (spec: store §10.3, §11.1;
// broker §15.3).
#include "append/retention.h"

#include "../../../../plugins/store_file/src/io.h"
#include "broker_harness.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;

namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kFileBytes = 64 * 1024;
constexpr int kMessages = 12;  ///< three of 20 000 bytes in a file: four files

std::atomic<unsigned> g_used_pct{10};
std::atomic<int> g_looks{0};

int fake_statvfs(const char*, struct statvfs* out) {
  *out = {};
  out->f_blocks = 100;
  out->f_bfree = out->f_bavail = 100 - g_used_pct;
  ++g_looks;
  return 0;
}

/// The disk of the test, not of the machine. One at a time, around the broker.
struct FakeDisk {
  FakeDisk() {
    g_used_pct = 10;
    store_file::io().statvfs = fake_statvfs;
  }
  ~FakeDisk() { store_file::io() = store_file::system_io(); }
};

/// The next time after the clock's usual start at which the local hour is `hour`.
std::int64_t at_hour(int hour) {
  std::time_t seconds = 1'700'000'000;
  std::tm local{};
  do {
    seconds += 1800;
    ::localtime_r(&seconds, &local);
  } while (local.tm_hour != hour);
  return std::int64_t{seconds} * 1000;
}

template <class Ready>
bool soon(Ready&& ready) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!ready()) {
    if (std::chrono::steady_clock::now() > give_up) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

/// A broker with four log files of the given age.
struct Aged {
  Aged(int hour, std::int64_t age_hours)
      : clock(at_hour(hour)) {
    for (int i = 0; i < kMessages; ++i) {
      REQUIRE(send().code == 0);
    }
    const std::int64_t at = clock.wall_ms() / 1000 - age_hours * 3600;
    const timespec times[2] = {{at, 0}, {at, 0}};
    for (int i = 0; fs::exists(log_file(i)); ++i) {
      REQUIRE(::utimensat(AT_FDCWD, log_file(i).c_str(), times, 0) == 0);
    }
    REQUIRE(fs::exists(log_file(3)));
  }
  static BrokerConfig config() {
    BrokerConfig c = test_config({});
    c.message_max_bytes = 32 * 1024;
    c.retention = {};
    c.retention.round_ms = 10;
    return c;
  }
  static TestBroker::WithSql store(const Clock& clock) {
    TestBroker::WithSql with;
    ConfigNode bytes;
    bytes.value = std::string("64KiB");
    with.store_options.set("commitlog_file", bytes);
    with.clock = &clock;
    return with;
  }
  proto::Command send() { return client.call(send_command({.body = std::string(20'000, 'x')})); }
  proto::Command call(std::int32_t code, std::string body = {}) {
    proto::Command c;
    c.code = code;
    c.body = std::move(body);
    return client.call(c);
  }
  fs::path log_file(int number) const {
    const std::string name = std::to_string(number * kFileBytes);
    return folder->path() / "commitlog" / (std::string(20 - name.size(), '0') + name);
  }
  /// The three files behind which the log goes on; the queue begins at the next one.
  bool all_deleted_soon() {
    return soon([&] { return !fs::exists(log_file(2)); }) && fs::exists(log_file(3)) && soon([&] {
             const auto answer = client.call(pull_command({.queue_id = 0, .offset = 0}));
             return answer.code == 21 && long_field(answer, "nextBeginOffset") == 9;
           });
  }
  bool kept_for_a_round() {
    const int seen = g_looks;
    return soon([&] { return g_looks >= seen + 2; }) && fs::exists(log_file(0));
  }

  FakeDisk disk{};
  ManualClock clock;
  std::shared_ptr<TempFolder> folder = std::make_shared<TempFolder>();
  BrokerConfig settings = with_root(config(), *folder);
  std::unique_ptr<TestBroker> b = std::make_unique<TestBroker>(folder, settings, store(clock));
  Client client{b->port()};

 private:
  static BrokerConfig with_root(BrokerConfig c, const TempFolder& folder) {
    c.store_root = folder.path();
    return c;
  }
};

}  // namespace

TEST_SUITE("broker/retention") {
  TEST_CASE("hours of deletion are a list with semicolons") {
    CHECK(parse_hours("04").value() == 1u << 4);
    CHECK(parse_hours("04;16; 23").value() == (1u << 4 | 1u << 16 | 1u << 23));
    CHECK(parse_hours("").value() == 0);
    CHECK(format_hours(parse_hours("23;4;4").value()) == "04;23");
    CHECK(format_hours(0).empty());
    for (const char* bad : {"24", "-1", "4h", "4,5", ";", "x"}) {
      CHECK_MESSAGE(parse_hours(bad).has_error(), bad);
    }
  }

  TEST_CASE("expired files go when the local hour of deletion comes, and not before") {
    Aged aged(3, 100);
    CHECK(aged.kept_for_a_round());
    aged.clock.advance_ms(at_hour(4) - at_hour(3) + 1);
    CHECK(aged.all_deleted_soon());
  }

  TEST_CASE("an operator deletes expired files at any hour, and only those") {
    {
      Aged aged(12, 100);
      CHECK(aged.kept_for_a_round());
      CHECK(aged.call(proto::RequestCode::kDeleteExpiredCommitlog).code == 0);
      CHECK(aged.all_deleted_soon());
    }
    Aged young(12, 71);
    CHECK(young.call(proto::RequestCode::kDeleteExpiredCommitlog).code == 0);
    CHECK(young.kept_for_a_round());
  }

  // store §26.26: > 75 %: expired files deleted at any hour; > 85 %: the oldest regardless of age.
  TEST_CASE("the levels of disk use reach the storage") {
    {
      Aged expired(12, 100);
      g_used_pct = 75;
      CHECK(expired.kept_for_a_round());
      g_used_pct = 76;
      CHECK(expired.all_deleted_soon());
    }
    Aged young(12, 1);
    CHECK(young.kept_for_a_round());
    g_used_pct = 86;
    CHECK(young.all_deleted_soon());
  }

  TEST_CASE("broker §23.7: what is kept changes while the broker runs, and stays changed") {
    Aged aged(12, 50);
    CHECK(aged.call(proto::RequestCode::kDeleteExpiredCommitlog).code == 0);
    CHECK(aged.kept_for_a_round());
    const int update = proto::RequestCode::kUpdateBrokerConfig;
    CHECK(aged.call(update, "deleteWhen=12;5\ncleanFileForciblyEnable=false\n").code == 0);
    g_used_pct = 89;
    CHECK(aged.kept_for_a_round());
    CHECK(aged.call(update, "fileReservedTime=48\n").code == 0);
    CHECK(aged.all_deleted_soon());
    CHECK(aged.call(update, "deleteWhen=25\nfileReservedTime=-1\n").code == 0);  // ignored

    const auto shown = [&] { return "\n" + aged.call(proto::RequestCode::kGetBrokerConfig).body; };
    const auto has = [](const std::string& text, const std::string& line) {
      return text.find("\n" + line + "\n") != std::string::npos;
    };
    const std::string before = shown();
    aged.b->stop();
    TestBroker again(aged.folder, aged.settings, Aged::store(aged.clock));
    Client client(again.port());
    proto::Command get;
    get.code = proto::RequestCode::kGetBrokerConfig;
    for (const std::string& text : {before, "\n" + client.call(get).body}) {
      CHECK(has(text, "fileReservedTime=48"));
      CHECK(has(text, "deleteWhen=05;12"));
      CHECK(has(text, "cleanFileForciblyEnable=false"));
      CHECK(has(text, "diskMaxUsedSpaceRatio=75"));
    }
  }

  // store §26.26: disk > 90 %: puts get code 14, CQ dispatch continues.
  TEST_CASE("a disk above the limit: messages are refused with Java's answer until there is room") {
    Aged aged(12, 1);
    g_used_pct = 90;
    CHECK(
        aged.call(proto::RequestCode::kUpdateBrokerConfig, "cleanFileForciblyEnable=false").code ==
        0);
    CHECK(aged.send().code == 0);
    g_used_pct = 91;
    proto::Command answer;
    REQUIRE(soon([&] { return (answer = aged.send()).code != 0; }));
    CHECK(answer.code == 14);
    CHECK(answer.remark.find("the broker's disk is full [CL: ") != std::string::npos);
    CHECK(aged.send().code == 14);
    CHECK(aged.client.call(pull_command({.queue_id = 0, .offset = 3})).code == 0);
    g_used_pct = 90;
    CHECK(soon([&] { return aged.send().code == 0; }));
  }
}
