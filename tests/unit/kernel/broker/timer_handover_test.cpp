// The wheel for a 5.x broker, read back as such a broker reads it.
#include "timer/timer_handover.h"

#include "broker_harness.h"

#include "tenon/base/endian.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;

namespace {

constexpr std::int64_t kReadMs = 1'700'000'000'000;
constexpr std::int64_t kDayMs = 86'400'000;
constexpr std::size_t kSlots = 7 * 86'400 * 2;
constexpr std::uint64_t kFileBytes = 10 * 52 + 40;  ///< ten units and a rest

struct Found {
  std::int64_t phys = 0;
  std::int64_t due_ms = 0;
  std::int32_t magic = 0;
};

template <class T>
T number(const std::string& bytes, std::size_t at) {
  return load_be<T>(bytes.data() + at);
}

/// The files one after another.
std::string log_of(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> files;
  for (const auto& e : std::filesystem::directory_iterator(root / "timerlog")) {
    files.push_back(e.path());
  }
  std::sort(files.begin(), files.end());
  std::string all;
  for (const auto& file : files) {
    REQUIRE(std::stoull(file.filename().string()) == all.size());
    REQUIRE(std::filesystem::file_size(file) == kFileBytes);
    all += read_text(file);
  }
  return all;
}

/// Second -> its units, from the last back to the first, as the wheel leads to them.
std::map<std::int64_t, std::vector<Found>> walk(const std::filesystem::path& root,
                                                const std::string& log) {
  const std::string wheel = read_text(root / "timerwheel");
  REQUIRE(wheel.size() == kSlots * 32);
  std::map<std::int64_t, std::vector<Found>> seconds;
  for (std::size_t at = 0; at < wheel.size(); at += 32) {
    const auto second = number<std::int64_t>(wheel, at);
    if (second == 0) {
      continue;
    }
    REQUIRE(static_cast<std::size_t>(second) % kSlots == at / 32);
    std::vector<Found>& units = seconds[second];
    std::int64_t pos = number<std::int64_t>(wheel, at + 16);
    for (std::int64_t previous = -1; pos >= 0; pos = previous) {
      const auto u = static_cast<std::size_t>(pos);
      REQUIRE(number<std::int32_t>(log, u) == 52);
      units.push_back({number<std::int64_t>(log, u + 28),
                       number<std::int64_t>(log, u + 16) + number<std::int32_t>(log, u + 24),
                       number<std::int32_t>(log, u + 12)});
      previous = number<std::int64_t>(log, u + 4);
      if (previous < 0) {
        CHECK(number<std::int64_t>(wheel, at + 8) == pos);
      }
    }
  }
  return seconds;
}

TimerUnit unit(std::int64_t offset, std::int64_t due_ms, bool recall = false) {
  return {.offset = offset,
          .due_ms = due_ms,
          .phys = static_cast<std::uint64_t>(1000 * offset),
          .bytes = 300,
          .topic_hash = 7,
          .recall = recall};
}

/// Positions of the units in the log, and that blanks fill the ends of files.
std::vector<std::size_t> positions(const std::string& log, std::uint64_t length) {
  std::vector<std::size_t> found;
  for (std::size_t at = 0; at < length;) {
    if (number<std::int32_t>(log, at) == 52) {
      found.push_back(at);
      at += 52;
      continue;
    }
    REQUIRE(number<std::uint32_t>(log, at + 12) == 0xcbd4'3194u);
    REQUIRE(static_cast<std::uint64_t>(number<std::int32_t>(log, at)) ==
            kFileBytes - at % kFileBytes);
    at += kFileBytes - at % kFileBytes;
  }
  return found;
}

}  // namespace

TEST_SUITE("broker/timer handover") {
  TEST_CASE("units of several seconds and files; the last entry of the queue comes last") {
    const TempFolder folder;
    TimerHandover h{.read_ms = kReadMs};
    for (std::int64_t i = 0; i < 45; ++i) {
      h.pending.push_back(unit(i, kReadMs + 5000 + i % 3 * 1000));
    }
    h.last = h.pending[43];  // in neither the first nor the last second
    h.pending.resize(44);
    const auto length = write_timer_handover(folder.path(), kFileBytes, h);
    REQUIRE(length.has_value());
    const std::string log = log_of(folder.path());
    const auto units = positions(log, length.value());
    REQUIRE(units.size() == 44);
    CHECK(number<std::int64_t>(log, units.back() + 28) == 43'000);
    const auto seconds = walk(folder.path(), log);
    REQUIRE(seconds.size() == 3);
    for (const auto& [second, found] : seconds) {
      const std::int64_t third = second - kReadMs / 1000 - 5;
      REQUIRE(found.size() == (third == 2 ? 14 : 15));
      for (std::size_t k = 0; k < found.size(); ++k) {
        CHECK(found[k].phys ==
              1000 * (third + 3 * static_cast<std::int64_t>(found.size() - 1 - k)));
        CHECK(found[k].due_ms == second * 1000);
        CHECK(found[k].magic == 1);
      }
    }
  }

  TEST_CASE("a last entry that is done is in no second that is still read") {
    const TempFolder folder;
    const auto length = write_timer_handover(
        folder.path(),
        kFileBytes,
        {.read_ms = kReadMs, .pending = {unit(3, kReadMs + 1000)}, .last = unit(9, kReadMs - 5)});
    REQUIRE(length.has_value());
    const std::string log = log_of(folder.path());
    REQUIRE(length.value() == 104);
    CHECK(number<std::int64_t>(log, 52 + 28) == 9000);
    CHECK(number<std::int64_t>(log, 52 + 16) + number<std::int32_t>(log, 52 + 24) < kReadMs);
    const auto seconds = walk(folder.path(), log);
    REQUIRE(seconds.size() == 1);
    CHECK(seconds.begin()->first == kReadMs / 1000 + 1);
  }

  TEST_CASE("overdue entries come at once, far ones are stored again, recalls do not count") {
    const TempFolder folder;
    TimerHandover h{.read_ms = kReadMs,
                    .pending = {unit(0, kReadMs - 7000),
                                unit(1, kReadMs + 2 * kDayMs - 1000),
                                unit(2, kReadMs + 2 * kDayMs),
                                unit(3, kReadMs + 40 * kDayMs),
                                unit(4, kReadMs + 9000),
                                unit(5, kReadMs + 9000, true)}};
    h.last = h.pending.back();
    REQUIRE(write_timer_handover(folder.path(), kFileBytes, h).has_value());
    const auto seconds = walk(folder.path(), log_of(folder.path()));
    const std::int64_t now = kReadMs / 1000;
    REQUIRE(seconds.size() == 5);
    CHECK(seconds.at(now).at(0).phys == 0);
    CHECK(seconds.at(now + 2 * 86'400 - 1).at(0).magic == 1);
    CHECK(seconds.at(now + 86'400 + 2).at(0).magic == 3);
    CHECK(seconds.at(now + 86'400 + 3).at(0).magic == 3);
    const auto& recalled = seconds.at(now + 9);
    REQUIRE(recalled.size() == 2);
    CHECK(recalled.at(0).magic == 5);
    const std::string wheel = read_text(folder.path() / "timerwheel");
    const std::size_t slot = static_cast<std::size_t>(now + 9) % kSlots * 32;
    CHECK(number<std::int32_t>(wheel, slot + 24) == 0);
  }

  TEST_CASE("files that are there already are not touched") {
    const TempFolder folder;
    std::filesystem::create_directory(folder.path() / "timerlog");
    CHECK(write_timer_handover(folder.path(), kFileBytes, {.read_ms = kReadMs}).has_error());
    CHECK_FALSE(std::filesystem::exists(folder.path() / "timerwheel"));
  }
}
