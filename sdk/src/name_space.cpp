#include "name_space.h"

#include "errors.h"

#include "tenon/proto/topics.h"

#include <algorithm>

namespace tenon::sdk {
namespace {

constexpr char kSeparator = '%';
constexpr std::string_view kRetry = "%RETRY%";
constexpr std::string_view kDeadLetter = "%DLQ%";
constexpr std::string_view kInstance = "MQ_INST_";

bool is_of_system(std::string_view name) noexcept {
  return proto::is_system_topic(name) || name.starts_with("CID_RMQ_SYS_");
}

/// Length of the prefix that stays in front of a namespace.
std::size_t kind_prefix(std::string_view name) noexcept {
  return name.starts_with(kRetry)        ? kRetry.size()
         : name.starts_with(kDeadLetter) ? kDeadLetter.size()
                                         : 0;
}

bool is_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_words(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), is_word);
}

}  // namespace

std::string name_space_of(std::string_view text) {
  // (scheme://)? MQ_INST_ word _ word . anything
  if (const std::size_t scheme = text.find("://"); scheme != std::string_view::npos) {
    if (scheme == 0 || !is_words(text.substr(0, scheme))) {
      return {};
    }
    text.remove_prefix(scheme + 3);
  }
  const std::size_t dot = text.find('.');
  if (dot == std::string_view::npos) {
    return {};
  }
  const std::string_view host = text.substr(0, dot);
  if (!host.starts_with(kInstance) || !is_words(host)) {
    return {};
  }
  const std::string_view rest = host.substr(kInstance.size());
  // Both words have at least one character, which may be an underscore itself.
  const bool two_words =
      rest.size() >= 3 && rest.substr(1, rest.size() - 2).find('_') != std::string_view::npos;
  return two_words ? std::string(host) : std::string();
}

Result<void> NameSpace::check(std::string_view name) {
  // Trap: a separator inside could not be told from that behind it.
  const bool legal =
      std::all_of(name.begin(), name.end(), [](char c) { return is_word(c) || c == '-'; });
  if (!legal) {
    return make_error(Errc::kInvalidArgument,
                      "name_space[" + std::string(name) +
                          "] contains illegal characters, allowing only ^[a-zA-Z0-9_-]+$");
  }
  return {};
}

bool NameSpace::has_prefix(std::string_view bare) const noexcept {
  return bare.size() > name_.size() && bare.starts_with(name_) && bare[name_.size()] == kSeparator;
}

std::string NameSpace::wrap(std::string_view name) const {
  const std::size_t kind = kind_prefix(name);
  const std::string_view bare = name.substr(kind);
  if (name_.empty() || name.empty() || is_of_system(name) || has_prefix(bare)) {
    return std::string(name);
  }
  std::string out;
  out.reserve(name.size() + name_.size() + 1);
  out += name.substr(0, kind);
  out += name_;
  out += kSeparator;
  out += bare;
  return out;
}

std::string NameSpace::unwrap(std::string_view name) const {
  const std::size_t kind = kind_prefix(name);
  const std::string_view bare = name.substr(kind);
  if (name_.empty() || is_of_system(name) || !has_prefix(bare)) {
    return std::string(name);
  }
  return std::string(name.substr(0, kind)) + std::string(bare.substr(name_.size() + 1));
}

bool NameSpace::holds(std::string_view name) const {
  return name_.empty() || is_of_system(name) || has_prefix(name.substr(kind_prefix(name)));
}

}  // namespace tenon::sdk
