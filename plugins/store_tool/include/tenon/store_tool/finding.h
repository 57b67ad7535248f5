// What is wrong, and where.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::store_tool {

enum class Severity : std::uint8_t {
  kNote,     ///< worth knowing
  kWarning,  ///< the next start of a broker settles it without loss
  kError,    ///< data is damaged, missing or wrong
};
std::string_view to_string(Severity severity) noexcept;

struct Finding {
  Severity severity = Severity::kError;
  std::string kind{};          ///< stable word for programs: "record-crc", "unit-wrong", …
  std::string file{};          ///< below the store root
  std::uint64_t position = 0;  ///< byte in that file
  std::string topic{};         ///< with queue_id and queue_offset where it is about a queue
  std::int64_t queue_id = -1;
  std::int64_t queue_offset = -1;
  std::int64_t phys = -1;  ///< position in the log that it is about
  std::string text{};
};
using FindingSink = std::function<void(const Finding&)>;

/// Counts everything and passes on the first few of each kind and file.
class Findings {
 public:
  Findings(FindingSink sink, std::uint32_t per_place)
      : sink_(std::move(sink)),
        per_place_(per_place) {}
  void add(Finding finding);
  /// Says how many were not passed on.
  void finish();

  std::uint64_t errors() const noexcept { return errors_; }
  std::uint64_t warnings() const noexcept { return warnings_; }

 private:
  struct Count {
    Severity severity = Severity::kNote;
    std::uint64_t n = 0;
  };
  FindingSink sink_;
  std::uint32_t per_place_;
  std::uint64_t errors_ = 0;
  std::uint64_t warnings_ = 0;
  std::map<std::pair<std::string, std::string>, Count> counts_{};
};

}  // namespace tenon::store_tool
