#include "tenon/store_format/names.h"

#include <fmt/format.h>

#include <charconv>
#include <ctime>

namespace tenon::store_format {

std::string file_name_of(std::uint64_t base) {
  return fmt::format("{:020}", base);
}

std::optional<std::uint64_t> number_of(std::string_view text) noexcept {
  std::uint64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::uint64_t> base_of_name(std::string_view name) noexcept {
  return name.size() == kPositionDigits ? number_of(name) : std::nullopt;
}

std::string log_folder(const std::string& root) {
  return root + "/commitlog";
}

std::string queue_folder(const std::string& root, std::string_view topic, std::uint32_t id) {
  return fmt::format("{}/consumequeue/{}/{}", root, topic, id);
}

std::string ext_folder(const std::string& root, std::string_view topic, std::uint32_t id) {
  return fmt::format("{}/consumequeue_ext/{}/{}", root, topic, id);
}

std::string index_folder(const std::string& root) {
  return root + "/index";
}

std::string index_name_of(std::int64_t wall_ms, std::string_view last) {
  const std::time_t seconds = static_cast<std::time_t>(wall_ms / 1000);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::string name = fmt::format("{:04}{:02}{:02}{:02}{:02}{:02}{:03}",
                                 local.tm_year + 1900,
                                 local.tm_mon + 1,
                                 local.tm_mday,
                                 local.tm_hour,
                                 local.tm_min,
                                 local.tm_sec,
                                 wall_ms % 1000);
  if (!last.empty() && name <= last) {
    name = fmt::format("{:017}", number_of(last).value_or(0) + 1);
  }
  return name;
}

}  // namespace tenon::store_format
