// The recorded store folders (tests/data/store), once for all tests that go through them.
#pragma once

#include <doctest/doctest.h>

namespace tenon::test {

struct GoldenFolder {
  const char* name = "";
  bool v5 = false;       ///< written by 5.3.3, else by 4.9.7
  bool killed = false;   ///< SIGKILL, else a clean stop
  bool plain = true;     ///< a plain log, no DLedger one
  bool trimmed = false;  ///< the front of the log is deleted
  bool ext = false;      ///< with the extension of consume queues
  bool waits = false;    ///< with messages that are delivered when a broker opens it
};

inline constexpr GoldenFolder kGoldenFolders[] = {
    {.name = "basic-clean"},
    {.name = "basic-killed", .killed = true},
    {.name = "delay", .waits = true},
    {.name = "dledger", .plain = false},
    {.name = "filter-bitmap", .ext = true},
    {.name = "transaction"},
    {.name = "trimmed", .trimmed = true},
    {.name = "v5-basic", .v5 = true},
    {.name = "v5-timer", .v5 = true, .waits = true},
};

/// In a test case: one SUBCASE for each folder that `wanted` takes; what follows runs for each.
template <class Wanted>
const GoldenFolder& each_golden(Wanted&& wanted) {
  const GoldenFolder* chosen = nullptr;
  for (const GoldenFolder& folder : kGoldenFolders) {
    if (wanted(folder)) {
      SUBCASE(folder.name) {
        chosen = &folder;
      }
    }
  }
  REQUIRE(chosen != nullptr);
  return *chosen;
}

inline constexpr auto kPlainGolden = [](const GoldenFolder& f) { return f.plain; };

}  // namespace tenon::test
