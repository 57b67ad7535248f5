// The wheel, the rules and the files of timer messages, without a broker.
#include "timer/timer_wheel.h"

#include "broker_harness.h"
#include "timer/timer_files.h"
#include "timer/timer_rules.h"

#include "tenon/base/endian.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;

namespace {

constexpr std::int64_t kWheelStart = 1'700'000'000'000;

std::vector<std::int64_t> pop_all(TimerWheel& wheel, std::int64_t now) {
  std::vector<std::int64_t> all;
  std::vector<std::int64_t> slot;
  while (wheel.pop(now, slot) >= 0) {
    all.insert(all.end(), slot.begin(), slot.end());
  }
  return all;
}

}  // namespace

TEST_SUITE("broker/timer_wheel") {
  TEST_CASE("entries come in order of time and offset, never early, none is lost") {
    const std::uint32_t seed = 20'240'817;
    CAPTURE(seed);
    std::mt19937 random(seed);
    TimerWheel wheel(kWheelStart);
    std::multimap<std::int64_t, std::int64_t> expected;
    std::int64_t now = kWheelStart;
    std::int64_t offset = 0;
    std::vector<std::int64_t> slot;
    for (int step = 0; step < 3'000; ++step) {
      const std::int64_t reach = step % 3 == 0 ? 300 : step % 3 == 1 ? 200'000 : 4'000'000'000;
      for (int i = 0; i < 5; ++i, ++offset) {
        const std::int64_t due = now + static_cast<std::int64_t>(random()) % reach;
        wheel.add(due, offset);
        expected.emplace(due, offset);
      }
      now += static_cast<std::int64_t>(random() % (step % 50 == 0 ? 90'000'000u : 900u));
      std::int64_t last = 0;
      for (std::int64_t due = 0; (due = wheel.pop(now, slot)) >= 0;) {
        REQUIRE(due >= last);
        REQUIRE(due <= now);
        last = due;
        REQUIRE(std::is_sorted(slot.begin(), slot.end()));
        const auto [begin, end] = expected.equal_range(due);
        std::vector<std::int64_t> wanted;
        std::for_each(begin, end, [&](const auto& e) { wanted.push_back(e.second); });
        REQUIRE(slot == wanted);
        expected.erase(begin, end);
      }
      REQUIRE((expected.empty() || expected.begin()->first > now));
      REQUIRE(wheel.size() == expected.size());
      const std::int64_t next = wheel.next_ms();
      REQUIRE((expected.empty() ? next == -1 : next > now && next <= expected.begin()->first));
    }
    std::multimap<std::int64_t, std::int64_t> listed;
    wheel.for_each([&](std::int64_t due, std::int64_t at) { listed.emplace(due, at); });
    CHECK(std::equal(listed.begin(), listed.end(), expected.begin(), expected.end()));
  }

  TEST_CASE("a clock that goes back keeps every time") {
    for (const std::int64_t back : {1, 500, 70'000, 3'600'000}) {
      CAPTURE(back);
      TimerWheel wheel(kWheelStart);
      wheel.add(kWheelStart + 100, 1);
      wheel.add(kWheelStart + 100'000, 2);
      wheel.add(kWheelStart + 200, 3);
      CHECK(pop_all(wheel, kWheelStart + 150) == std::vector<std::int64_t>{1});
      const std::int64_t now = kWheelStart + 150 - back;
      wheel.rewind(now);
      wheel.add(now + 10, 4);
      CHECK(wheel.next_ms() <= now + 10);
      CHECK(pop_all(wheel, now + 9).empty());
      CHECK(pop_all(wheel, now + 10) == std::vector<std::int64_t>{4});
      CHECK(pop_all(wheel, kWheelStart + 199).empty());
      CHECK(pop_all(wheel, kWheelStart + 100'000) == std::vector<std::int64_t>{3, 2});
    }
  }

  TEST_CASE("a million entries cost less than 16 bytes each") {
    TimerWheel wheel(kWheelStart);
    for (std::int64_t i = 0; i < 1'000'000; ++i) {
      wheel.add(kWheelStart + i * 3456, (std::int64_t{1} << 40) + i);
    }
    CHECK(wheel.size() == 1'000'000);
    CHECK(wheel.memory_bytes() <= 13'000'000);
    // What was taken is used again.
    CHECK(pop_all(wheel, kWheelStart + 1'000'000).size() == 290);
    for (std::int64_t i = 0; i < 290; ++i) {
      wheel.add(kWheelStart + 2'000'000, i);
    }
    CHECK(wheel.memory_bytes() <= 13'000'000);
    CHECK(pop_all(wheel, kWheelStart + 4'000'000'000).size() == 1'000'000);
    CHECK(wheel.memory_bytes() <= 600'000);
  }
}

TEST_SUITE("broker/timer_rules") {
  TEST_CASE("the wishes of a client, the first of which counts (spec store §19)") {
    constexpr std::int64_t kMax = 1'000'000;
    const auto decide = [&](TimerWish wish) { return decide_timer(wish, kWheelStart, kMax); };
    CHECK(decide({.delay_sec = "10", .delay_ms = "5", .deliver_ms = "7"}).out_ms ==
          kWheelStart + 9'999);
    // A whole second would be a 5.x broker's: one millisecond later.
    CHECK(decide({.delay_ms = "2001"}).out_ms == kWheelStart + 2'001);
    CHECK(decide({.delay_ms = "1500"}).out_ms == kWheelStart + 1'499);
    CHECK(decide({.deliver_ms = "1700000000777"}).out_ms == kWheelStart + 776);
    CHECK(decide({.deliver_ms = "1700000000000"}).fate == TimerFate::kNow);
    CHECK(decide({.delay_ms = "-5"}).fate == TimerFate::kNow);
    CHECK(decide({.delay_ms = "1000000"}).fate == TimerFate::kLater);
    CHECK(decide({.delay_ms = "1000001"}).fate == TimerFate::kIllegal);
    CHECK(decide({.delay_ms = "soon"}).fate == TimerFate::kIllegal);
    CHECK(decide({.delay_sec = "9223372036854775807"}).fate == TimerFate::kIllegal);
    CHECK(decide({.delay_ms = "9223372036854775807"}).fate == TimerFate::kIllegal);
    CHECK_FALSE(TimerWish{.delay_ms = "5", .rewritten = true}.any());
  }

  TEST_CASE("the time of a record, ours and a 5.x broker's") {
    const auto due = [](std::string_view properties, std::int64_t store_ms) {
      const auto record = read_timer_record(properties, store_ms);
      REQUIRE(record.has_value());
      return record->due_ms;
    };
    const std::string sep = "\x02";
    // A 5.x broker's: rounded down to the second, the wish tells the rest.
    CHECK(due("TIMER_OUT_MS\x01"
              "1700000005000" +
                  sep +
                  "TIMER_DELIVER_MS\x01"
                  "1700000005265",
              kWheelStart) == kWheelStart + 5'265);
    CHECK(due("TIMER_DELAY_MS\x01"
              "2500" +
                  sep +
                  "TIMER_OUT_MS\x01"
                  "1700000005000",
              kWheelStart + 2'790) == kWheelStart + 5'290);
    // An exact multiple is moved one step earlier.
    CHECK(due("TIMER_OUT_MS\x01"
              "1700000005000" +
                  sep +
                  "TIMER_DELIVER_MS\x01"
                  "1700000006000",
              kWheelStart) == kWheelStart + 6'000);
    // Rolled: the store time says nothing any more; late rather than early.
    CHECK(due("TIMER_DELAY_SEC\x01"
              "400000" +
                  sep +
                  "TIMER_OUT_MS\x01"
                  "1700400000000" +
                  sep +
                  "TIMER_ROLL_TIMES\x01"
                  "2",
              kWheelStart + 345'600'000) == kWheelStart + 400'001'000);
    // Ours.
    CHECK(due("TIMER_DELAY_MS\x01"
              "1500" +
                  sep +
                  "TIMER_OUT_MS\x01"
                  "1700000001499",
              kWheelStart + 3) == kWheelStart + 1'500);
    CHECK(due("TIMER_OUT_MS\x01"
              "1700000001499",
              kWheelStart) == kWheelStart + 1'500);
    CHECK_FALSE(read_timer_record("TIMER_DELAY_MS\x01"
                                  "1500",
                                  kWheelStart)
                    .has_value());
    CHECK_FALSE(read_timer_record("TIMER_OUT_MS\x01"
                                  "x",
                                  kWheelStart)
                    .has_value());
  }

  TEST_CASE("the recall handle is Java's (spec client §4.12)") {
    const RecallHandle handle{"TopicTest", "broker-a", 1'700'000'060'000, "0A00000112341"};
    const std::string text = "djEgVG9waWNUZXN0IGJyb2tlci1hIDE3MDAwMDAwNjAwMDAgMEEwMDAwMDExMjM0MQ==";
    CHECK(encode_recall_handle(handle) == text);
    for (const std::string& t : {text, text.substr(0, text.size() - 2)}) {
      const auto back = decode_recall_handle(t);
      REQUIRE(back.has_value());
      CHECK(back.value().topic == "TopicTest");
      CHECK(back.value().broker_name == "broker-a");
      CHECK(back.value().timestamp_ms == 1'700'000'060'000);
      CHECK(back.value().uniq_key == "0A00000112341");
    }
    for (const char* bad : {"", "%", "djEg", "djIgYSBiIDEgYw==", "djEgYSBiIDE="}) {
      CAPTURE(bad);
      const auto back = decode_recall_handle(bad);
      REQUIRE(back.has_error());
      CHECK(back.error().detail == "recall handle is invalid");
    }
  }
}

TEST_SUITE("broker/timer_files") {
  TEST_CASE("a snapshot comes back as it was; a cut or changed one is refused") {
    TempFolder folder;
    const auto file = folder.path() / "config" / "timerPending";
    TimerPending head;
    head.read_offset = 77;
    head.log_position = 123'456'789'012;
    head.check = {kWheelStart, 5};
    {
      TimerPendingWriter writer(file);
      REQUIRE(writer.open(head, 2).has_value());
      writer.add({kWheelStart + 1, 5});
      writer.add({kWheelStart + 2, (std::int64_t{1} << 47) + 3});
      REQUIRE(writer.finish().has_value());
      CHECK(load_timer_pending(file).error().code == Errc::kNotFound);
      REQUIRE(writer.commit().has_value());
    }
    const auto back = load_timer_pending(file);
    REQUIRE(back.has_value());
    CHECK(back.value().read_offset == 77);
    CHECK(back.value().log_position == 123'456'789'012);
    CHECK(back.value().check == TimerCheck{kWheelStart, 5});
    REQUIRE(back.value().entries.size() == 2);
    CHECK(back.value().entries[1].look_ms == kWheelStart + 2);
    CHECK(back.value().entries[1].offset == (std::int64_t{1} << 47) + 3);

    const std::string whole = read_text(file);
    for (std::size_t n = 0; n < whole.size(); ++n) {
      REQUIRE(parse_timer_pending(as_bytes(std::string_view(whole).substr(0, n))).has_error());
    }
    for (std::size_t i = 0; i < whole.size(); ++i) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ 1);
      CAPTURE(i);
      CHECK(parse_timer_pending(as_bytes(changed)).has_error());
    }
  }

  TEST_CASE("timercheck has the layout of a 5.x broker") {
    TempFolder folder;
    const auto file = folder.path() / "timercheck";
    CHECK_FALSE(load_timer_check(file).has_value());
    REQUIRE(save_timer_check(file, {kWheelStart, 4711}).has_value());
    const std::string bytes = read_text(file);
    REQUIRE(bytes.size() == 4096);
    CHECK(load_be<std::int64_t>(bytes.data()) == kWheelStart);
    CHECK(load_be<std::int64_t>(bytes.data() + 8) == 0);
    CHECK(load_be<std::int64_t>(bytes.data() + 16) == 4711);
    CHECK(load_be<std::int64_t>(bytes.data() + 24) == 4711);
    CHECK(load_timer_check(file) == TimerCheck{kWheelStart, 4711});
  }
}
