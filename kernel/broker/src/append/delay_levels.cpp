#include "append/delay_levels.h"

#include "tenon/proto/command.h"

#include <fmt/format.h>

#include <algorithm>

namespace tenon::broker {
namespace {

std::int64_t unit_ms(char unit) {
  switch (unit) {
    case 's':
      return 1'000;
    case 'm':
      return 60'000;
    case 'h':
      return 3'600'000;
    case 'd':
      return 86'400'000;
    default:
      return 0;
  }
}

}  // namespace

Result<DelayLevels> DelayLevels::parse(std::string_view text) {
  DelayLevels levels;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::int64_t unit = item.empty() ? 0 : unit_ms(item.back());
    const auto count = unit == 0 ? std::nullopt : proto::parse_int(item.substr(0, item.size() - 1));
    if (!count || *count < 0) {
      return Error{
          Errc::kInvalid,
          fmt::format("delay level \"{}\" is not a number with one of the units s, m, h, d", item)};
    }
    levels.delay_ms_.push_back(*count * unit);
  }
  return levels;
}

}  // namespace tenon::broker
