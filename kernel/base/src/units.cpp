#include "tenon/base/units.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <span>
#include <system_error>

namespace tenon {
namespace {

struct Unit {
  std::string_view suffix;
  std::int64_t factor;
};

// Largest first: formatting takes the first that divides.
constexpr Unit kDurations[] = {
    {"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}};
constexpr Unit kSizes[] = {
    {"TiB", 1LL << 40}, {"GiB", 1LL << 30}, {"MiB", 1LL << 20}, {"KiB", 1LL << 10}, {"B", 1}};

Result<std::int64_t> parse(std::string_view text,
                           std::span<const Unit> units,
                           std::string_view what,
                           std::string_view examples) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, ec] = std::from_chars(text.data(), end, number);
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  if (ec == std::errc{} && number >= 0 && text.front() != '-') {
    for (const Unit& unit : units) {
      if (unit.suffix != suffix) {
        continue;
      }
      if (number > std::numeric_limits<std::int64_t>::max() / unit.factor) {
        return Error{Errc::kLimit, fmt::format("{} \"{}\" is too large", what, text)};
      }
      return number * unit.factor;
    }
  }
  if (ec == std::errc::result_out_of_range) {
    return Error{Errc::kLimit, fmt::format("{} \"{}\" is too large", what, text)};
  }
  return Error{Errc::kInvalid,
               fmt::format("\"{}\" is not a {}, write for example {}", text, what, examples)};
}

std::string format(std::int64_t value, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (value % unit.factor == 0 && (value != 0 || unit.factor == 1)) {
      return fmt::format("{}{}", value / unit.factor, unit.suffix);
    }
  }
  return fmt::format("{}", value);
}

}  // namespace

Result<std::int64_t> parse_duration_ms(std::string_view text) {
  return parse(text, kDurations, "duration", "\"250ms\", \"5s\", \"2m\", \"1h\" or \"3d\"");
}

Result<std::int64_t> parse_size_bytes(std::string_view text) {
  return parse(text, kSizes, "size", "\"512B\", \"64KiB\", \"16MiB\" or \"1GiB\"");
}

std::string format_duration_ms(std::int64_t ms) {
  return format(ms, kDurations);
}

std::string format_size_bytes(std::int64_t bytes) {
  return format(bytes, kSizes);
}

}  // namespace tenon
