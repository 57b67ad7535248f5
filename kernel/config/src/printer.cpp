#include "tenon/config/printer.h"

#include "key_limits.h"

#include "tenon/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <type_traits>
#include <utility>

namespace tenon::config {
namespace {

constexpr std::size_t kLineColumns = 100;

std::string join_strings(const std::vector<std::string>& list) {
  std::string out = "[";
  for (const std::string& element : list) {
    out += (out.size() > 1 ? ", " : "") + quote_toml(element);
  }
  return out + "]";
}

/// The type's name and the value as TOML.
std::pair<std::string, std::string> describe_value(std::string_view name, const ValueRef& value) {
  return std::visit(
      [&]<class T>(const T* v) -> std::pair<std::string, std::string> {
        if constexpr (std::is_same_v<T, bool>) {
          return {"bool", *v ? "true" : "false"};
        } else if constexpr (std::is_integral_v<T>) {
          const auto number = static_cast<std::int64_t>(*v);
          if (is_size_key(name) && number >= 1024) {
            return {"size", quote_toml(format_size_bytes(number))};
          }
          return {is_duration_key(name) ? "duration"
                  : is_size_key(name)   ? "size"
                                        : "int",
                  fmt::format("{}", number)};
        } else if constexpr (std::is_same_v<T, double>) {
          const bool whole = std::floor(*v) == *v && std::abs(*v) < 1e15;
          return {"float", whole ? fmt::format("{:.1f}", *v) : fmt::format("{}", *v)};
        } else if constexpr (std::is_same_v<T, std::string>) {
          return {"string", quote_toml(*v)};
        } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
          return {"string", quote_toml(v->string())};
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          return {"array", join_strings(*v)};
        } else {
          return {"array", fmt::format("[{}]", fmt::join(*v, ", "))};
        }
      },
      std::visit([](auto* p) -> std::variant<const bool*,
                                             const std::uint16_t*,
                                             const std::int32_t*,
                                             const std::uint32_t*,
                                             const std::int64_t*,
                                             const std::uint64_t*,
                                             const double*,
                                             const std::string*,
                                             const std::filesystem::path*,
                                             const std::vector<std::string>*,
                                             const std::vector<std::int64_t>*> { return p; },
                 value));
}

}  // namespace

std::string range_text(const KeyInfo& info) {
  const bool low = info.min != std::numeric_limits<std::int64_t>::min();
  const bool high = info.max != std::numeric_limits<std::int64_t>::max();
  if (low && high) {
    return fmt::format("{} to {}", info.min, info.max);
  }
  return low    ? fmt::format("at least {}", info.min)
         : high ? fmt::format("at most {}", info.max)
                : std::string();
}

std::string quote_toml(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

void Printer::comment(std::string_view text) {
  while (!text.empty()) {
    const std::size_t newline = text.find('\n');
    std::string_view line = text.substr(0, newline);
    text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
    do {
      std::string_view part = line;
      if (part.size() > kLineColumns - 2) {
        const std::size_t blank = part.rfind(' ', kLineColumns - 2);
        part = part.substr(0, blank == std::string_view::npos ? part.find(' ') : blank);
      }
      text_ += part.empty() ? std::string("#\n") : fmt::format("# {}\n", part);
      line.remove_prefix(part.size());
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    } while (!line.empty());
  }
}

void Printer::heading(std::string_view text) {
  comment(text);
  text_ += "\n";
}

std::string Printer::path_of(std::string_view name) const {
  return tables_.empty() ? std::string(name) : fmt::format("{}.{}", tables_.back(), name);
}

void Printer::put(KeyEntry entry) {
  comment(entry.doc);
  std::vector<std::string> facts;
  if (!entry.words.empty()) {
    facts.push_back(fmt::format("One of \"{}\".", fmt::join(entry.words, "\", \"")));
  }
  if (!entry.unit.empty()) {
    facts.push_back(fmt::format("Unit: {}.", entry.unit));
  }
  if (!entry.range.empty()) {
    facts.push_back(fmt::format("Range: {}.", entry.range));
  }
  if (!entry.rocketmq.empty()) {
    facts.push_back(fmt::format("RocketMQ: {}.", entry.rocketmq));
  }
  comment(fmt::format("{}", fmt::join(facts, " ")));
  const std::size_t dot = entry.path.rfind('.');
  text_ += fmt::format("{} = {}\n\n",
                       dot == std::string::npos ? entry.path : entry.path.substr(dot + 1),
                       entry.default_text);
  entries_.push_back(std::move(entry));
}

void Printer::key(std::string_view name, ValueRef value, const KeyInfo& info) {
  KeyEntry entry;
  entry.path = path_of(name);
  std::tie(entry.type, entry.default_text) = describe_value(name, value);
  entry.doc = info.doc;
  entry.rocketmq = info.rocketmq;
  entry.unit = !info.unit.empty()      ? std::string(info.unit)
               : is_duration_key(name) ? "ms, or a text like \"5s\""
               : is_size_key(name)     ? "bytes, or a text like \"64KiB\""
                                       : "";
  entry.range = range_text(info);
  put(std::move(entry));
}

std::size_t Printer::word_key(std::string_view name,
                              std::size_t index,
                              std::span<const std::string_view> words,
                              const KeyInfo& info) {
  KeyEntry entry;
  entry.path = path_of(name);
  entry.type = "string";
  entry.default_text = quote_toml(words[index]);
  entry.doc = info.doc;
  entry.rocketmq = info.rocketmq;
  entry.words.assign(words.begin(), words.end());
  put(std::move(entry));
  return index;
}

void Printer::words(std::string_view name,
                    std::vector<std::pair<std::string, std::string>>& values,
                    std::span<const std::string_view> allowed,
                    std::string_view doc) {
  comment(doc);
  comment(fmt::format("Values: \"{}\".", fmt::join(allowed, "\", \"")));
  text_ += fmt::format("[{}]\n", path_of(name));
  for (const auto& [key_name, word] : values) {
    text_ += fmt::format("{} = {}\n", quote_toml(key_name), quote_toml(word));
  }
  text_ += "\n";
  KeyEntry entry;
  entry.path = path_of(name);
  entry.type = "table";
  entry.default_text = "{}";
  entry.doc = doc;
  entry.words.assign(allowed.begin(), allowed.end());
  entries_.push_back(std::move(entry));
}

bool Printer::begin_table(std::string_view name, std::string_view doc) {
  const std::string path = path_of(name);
  text_ += std::string(kLineColumns, '#') + "\n";
  comment(doc);
  text_ += fmt::format("[{}]\n\n", path);
  tables_.push_back(path);
  return true;
}

void Printer::end_table() {
  tables_.pop_back();
}

void Printer::slot_body(const Slot& slot, const SlotInfo& info, std::string_view prefix) {
  text_ += fmt::format("{}plugin = {}\n", prefix, quote_toml(slot.plugin));
  std::string_view rest = info.options_example;
  while (!rest.empty()) {
    const std::size_t newline = rest.find('\n');
    text_ += fmt::format("# {}\n", rest.substr(0, newline));
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
  }
  text_ += "\n";
}

void Printer::slot(std::string_view name, Slot& slot, const SlotInfo& info) {
  text_ += std::string(kLineColumns, '#') + "\n";
  comment(info.doc);
  const std::string_view prefix = slot.used() ? "" : "# ";
  text_ += fmt::format("{}[{}]\n", prefix, path_of(name));
  slot_body(slot, info, prefix);
  KeyEntry entry;
  entry.path = path_of(name);
  entry.type = "plugin";
  entry.default_text = quote_toml(slot.plugin);
  entry.doc = info.doc;
  entries_.push_back(std::move(entry));
}

void Printer::slots(std::string_view name, std::vector<Slot>& slots, const SlotInfo& info) {
  text_ += std::string(kLineColumns, '#') + "\n";
  comment(info.doc);
  std::vector<std::string> ids;
  for (const Slot& slot : slots) {
    text_ += fmt::format("[[{}]]\n", path_of(name));
    slot_body(slot, slots.size() == 1 ? info : SlotInfo{}, "");
    ids.push_back(slot.plugin);
  }
  KeyEntry entry;
  entry.path = path_of(name);
  entry.type = "plugins";
  entry.default_text = join_strings(ids);
  entry.doc = info.doc;
  entries_.push_back(std::move(entry));
}

}  // namespace tenon::config
