// The layout of the headers against the newest baseline, and the checker against mutations of it.
#include "layout_check.h"

#include "tenon/abi/plugin.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include <stdlib.h>

extern "C" void tenon_print_layout(FILE* f);

namespace {

using abi::Verdict;

std::string current_layout() {
  char* text = nullptr;
  std::size_t bytes = 0;
  FILE* f = ::open_memstream(&text, &bytes);
  tenon_print_layout(f);
  std::fclose(f);
  std::string out(text, bytes);
  ::free(text);
  return out;
}

std::string baseline() {
  const std::string name = std::string(TENON_ABI_BASELINES) + "/" +
                           std::to_string(TENON_ABI_MAJOR) + "." + std::to_string(TENON_ABI_MINOR) +
                           ".txt";
  std::ifstream in(name);
  REQUIRE_MESSAGE(in.good(), "no baseline " << name << ", see api/abi/HISTORY.md");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  const auto at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

}  // namespace

TEST_SUITE("abi/layout") {
  TEST_CASE("the headers equal the baseline of their version") {
    const auto result = abi::compare_layouts(baseline(), current_layout());
    std::string all;
    for (const auto& d : result.differences) {
      all += "\n  " + d;
    }
    CHECK_MESSAGE(result.verdict == Verdict::kEqual,
                  (result.verdict == Verdict::kAppended ? "appended, see api/abi/HISTORY.md:"
                                                        : "plug-ins break:")
                      << all);
  }

  TEST_CASE("the layout is complete") {
    const std::string text = current_layout();
    CHECK(text.find("struct tenon_entry 48\n") != std::string::npos);
    CHECK(text.find("member tenon_record.inner_phys 192 8\n") != std::string::npos);
    CHECK(text.find("member tenon_storage.set_role 192 8\n") != std::string::npos);
    CHECK(text.find("const TENON_INTERNAL -25\n") != std::string::npos);
    CHECK(text.find("text TENON_TXN_CHECK_IID tenon.txn-check/1\n") != std::string::npos);
    CHECK(text.find("const TENON_ENTRY_MAGIC 0x474c504e4f4e4554\n") != std::string::npos);
  }

  TEST_CASE("the magic reads TENONPLG in memory") {
    const std::uint64_t magic = TENON_ENTRY_MAGIC;
    CHECK(std::string(reinterpret_cast<const char*>(&magic), sizeof magic) == "TENONPLG");
  }

  TEST_CASE("appending is allowed") {
    const std::string before = baseline();
    std::string after = replaced(before, "struct tenon_selector 48", "struct tenon_selector 56");
    after = replaced(after,
                     "member tenon_selector.stats 40 8\n",
                     "member tenon_selector.stats 40 8\nmember tenon_selector.select_v2 48 8\n");
    CHECK(abi::compare_layouts(before, after).verdict == Verdict::kAppended);
    CHECK(abi::compare_layouts(before, before + "const TENON_NEW 77\n").verdict ==
          Verdict::kAppended);
    CHECK(abi::compare_layouts(before, before + "struct tenon_new 8\nmember tenon_new.a 0 8\n")
              .verdict == Verdict::kAppended);
  }

  TEST_CASE("everything else is a break") {
    const std::string before = baseline();
    const auto verdict = [&](std::string_view what, std::string_view with) {
      return abi::compare_layouts(before, replaced(before, what, with)).verdict;
    };
    // inserted in the middle
    CHECK(verdict("member tenon_selector.report 32 8\n",
                  "member tenon_selector.probe 32 8\nmember tenon_selector.report 40 8\n") ==
          Verdict::kBroken);
    // removed, reordered, resized, another constant, another text, another parameter
    CHECK(verdict("member tenon_extent.reserved0 12 4\n", "") == Verdict::kBroken);
    CHECK(verdict("member tenon_kv.key 0 16\nmember tenon_kv.value 16 16\n",
                  "member tenon_kv.value 0 16\nmember tenon_kv.key 16 16\n") == Verdict::kBroken);
    CHECK(verdict("member tenon_extent.bytes 8 4\n", "member tenon_extent.bytes 8 2\n") ==
          Verdict::kBroken);
    CHECK(verdict("const TENON_GAP -8\n", "const TENON_GAP -9\n") == Verdict::kBroken);
    CHECK(verdict("const TENON_GAP -8\n", "") == Verdict::kBroken);
    CHECK(verdict("text TENON_STORAGE_IID tenon.storage/1",
                  "text TENON_STORAGE_IID tenon.storage/2") == Verdict::kBroken);
    CHECK(verdict("uint64_t phys, uint32_t max_bytes", "uint64_t phys, uint64_t max_bytes") ==
          Verdict::kBroken);
    CHECK(verdict("struct tenon_factory 32\n", "struct tenon_factory 24\n") == Verdict::kBroken);
  }
}
