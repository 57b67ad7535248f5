// The modes of store_bench beside the plain measure of appends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace tenon::bench {

struct RollOptions {
  std::filesystem::path dir{};
  std::uint64_t rolls = 20;
  std::uint64_t file_bytes = 64u << 20;
  std::size_t body = 1024;
  std::size_t batch = 32;
  double mb_per_s = 100;  ///< 0 = as fast as it goes
  bool keys = false;
  bool sync = false;
  bool where = false;  ///< print the kernel stack of long appends
};

/// Exit code.
int run_roll(const RollOptions& options);

}  // namespace tenon::bench
