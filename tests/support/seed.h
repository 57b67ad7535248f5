// Random tests: another seed in each run, and the same one again when TENON_SEED says so.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

namespace tenon::test {

inline int env_number(const char* name, int absent) {
  const char* text = std::getenv(name);
  return text == nullptr ? absent : std::atoi(text);
}

/// The seed is printed, so that a failed run can be repeated.
inline unsigned seed_of_run() {
  const auto seed = static_cast<unsigned>(
      env_number("TENON_SEED", static_cast<int>(std::random_device{}() & 0x7fff'ffff)));
  MESSAGE("TENON_SEED=" << seed);
  return seed;
}

}  // namespace tenon::test
