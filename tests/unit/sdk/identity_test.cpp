#include "identity.h"

#include <doctest/doctest.h>

#include <ctime>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace tenon::sdk;

namespace {
std::string next_id(MessageIds& ids, std::int64_t now_ms) {
  std::string out(kMessageIdChars, ' ');
  ids.next(now_ms, out.data());
  return out;
}
std::int64_t local_ms(int year, int month, int day, int hour) {
  std::tm t{};
  t.tm_year = year - 1900;
  t.tm_mon = month - 1;
  t.tm_mday = day;
  t.tm_hour = hour;
  t.tm_isdst = -1;
  return static_cast<std::int64_t>(std::mktime(&t)) * 1000;
}
}  // namespace

TEST_SUITE("sdk/identity") {
  TEST_CASE("a client id is ip@pid#n, then @unit, then @STREAM, and two of one process differ") {
    const std::string a = make_client_id("10.0.0.1", "", "");  // client §14.1
    const std::string b = make_client_id("10.0.0.1", "", "");
    CHECK(a != b);
    CHECK(a.starts_with("10.0.0.1@"));
    CHECK(a.find('#') != std::string::npos);
    CHECK(make_client_id("10.0.0.1", "me", "") == "10.0.0.1@me");
    CHECK(make_client_id("10.0.0.1", "me", "u1") == "10.0.0.1@me@u1");
    CHECK(make_client_id("10.0.0.1", "me", "u1", true) == "10.0.0.1@me@u1@STREAM");
    CHECK(make_client_id("10.0.0.1", "me", "", true) == "10.0.0.1@me@STREAM");
  }

  TEST_CASE("the id of the specification's example") {  // client §14.16
    // spec client §4.3: 10.0.0.1, pid 0x1234, loader 0x18B4AAC2, 30 Nov 03:00:00.123, counter 7
    MessageIds ids("10.0.0.1", 0x1234, 0x18B4AAC2);
    const std::int64_t when = local_ms(2026, 11, 30, 3) + 123;
    for (int i = 0; i < 7; ++i) {
      next_id(ids, when);
    }
    const std::int64_t in_month = when - local_ms(2026, 11, 1, 0);
    CHECK(ids.month_ms(when) == static_cast<std::uint32_t>(in_month));
    if (in_month == 2516400123) {  // no change of the clock within the month
      CHECK(next_id(ids, when) == "0A000001123418B4AAC295FD37FB0007");
    }
  }

  TEST_CASE("a new month starts from zero") {
    MessageIds ids("1.2.3.4", 1, 1);
    const std::int64_t december = local_ms(2026, 12, 1, 0);
    CHECK(ids.month_ms(december - 1) > 29u * 24 * 3600 * 1000);
    CHECK(ids.month_ms(december) == 0);
    CHECK(ids.month_ms(december + 5) == 5);
    CHECK(ids.month_ms(december - 1) > 29u * 24 * 3600 * 1000);  // a clock that was set back
  }

  TEST_CASE("ids of four threads in one millisecond are all different") {  // client §14.16
    MessageIds ids("1.2.3.4", 1, 1);
    constexpr int kEach = 10'000;
    std::vector<std::vector<std::string>> made(4);
    std::vector<std::thread> threads;
    for (auto& list : made) {
      threads.emplace_back([&ids, &list] {
        for (int i = 0; i < kEach; ++i) {
          list.push_back(next_id(ids, 1'700'000'000'000));
        }
      });
    }
    for (auto& t : threads) {
      t.join();
    }
    std::set<std::string> all;
    for (const auto& list : made) {
      all.insert(list.begin(), list.end());
    }
    CHECK(all.size() == 4 * kEach);
  }
}
