// Reads a tree into described structs and finds everything that is wrong with it.
#pragma once

#include "tenon/config/problems.h"
#include "tenon/config/visitor.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::config {

/// Visits the keys that the tree has; what it lacks keeps its default. Wrong types, values out of
/// range and names that nobody described go to Problems with their position. Thread: one.
///
///   Problems problems;
///   Reader reader(root, problems);
///   describe(reader, config);
///   reader.finish();
///   TENON_TRY(problems.result());
class Reader final : public Visitor {
 public:
  Reader(const ConfigNode& root, Problems& problems);

  void key(std::string_view name, ValueRef value, const KeyInfo& info) override;
  void slot(std::string_view name, Slot& slot, const SlotInfo& info) override;
  void slots(std::string_view name, std::vector<Slot>& slots, const SlotInfo& info) override;
  void words(std::string_view name,
             std::vector<std::pair<std::string, std::string>>& values,
             std::span<const std::string_view> allowed,
             std::string_view doc) override;
  void check(std::string_view name, bool holds, std::string_view text) override;

  /// Reports the unknown names of the root. Call once, after the description.
  void finish();

 protected:
  std::size_t word_key(std::string_view name,
                       std::size_t index,
                       std::span<const std::string_view> words,
                       const KeyInfo& info) override;
  bool begin_table(std::string_view name, std::string_view doc) override;
  void end_table() override;

 private:
  struct Level {
    const ConfigNode* table = nullptr;
    std::string path{};  ///< "broker.net", empty for the root
    std::vector<std::string> known{};
  };

  const ConfigNode* take(std::string_view name);
  void report_unknown(const Level& level);
  void wrong_type(const ConfigNode& at, std::string_view name, std::string_view expected);
  void read_integer(const ConfigNode& at,
                    std::string_view name,
                    const KeyInfo& info,
                    std::int64_t& out);
  void read_slot(const ConfigNode& at, std::string_view name, Slot& slot);

  Problems& problems_;
  std::vector<Level> levels_;
};

/// The whole of it for a struct T that a `describe(Visitor&, T&)` in its namespace describes.
/// @return kInvalid with all problems, one line each. Thread: any.
template <class T>
Result<T> read_described(const ConfigNode& root) {
  T out;
  Problems problems;
  Reader reader(root, problems);
  describe(reader, out);
  reader.finish();
  TENON_TRY(problems.result());
  return out;
}

}  // namespace tenon::config
