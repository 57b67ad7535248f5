// The commented example file and the list of keys, made from the same description as the reader.
#pragma once

#include "tenon/config/visitor.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::config {

/// One key as programs want it.
struct KeyEntry {
  std::string path{};          ///< "broker.listen_port"
  std::string type{};          ///< bool, int, duration, size, float, string, array, plugin
  std::string default_text{};  ///< as TOML
  std::string doc{};
  std::string rocketmq{};
  std::string unit{};
  std::string range{};
  std::vector<std::string> words{};  ///< allowed words, if the value is one
};

/// Collects the text of an example file with every key at its present value, and the list. A slot
/// without a plug-in is shown as a comment. Thread: one.
class Printer final : public Visitor {
 public:
  void key(std::string_view name, ValueRef value, const KeyInfo& info) override;
  void slot(std::string_view name, Slot& slot, const SlotInfo& info) override;
  void slots(std::string_view name, std::vector<Slot>& slots, const SlotInfo& info) override;
  void words(std::string_view name,
             std::vector<std::pair<std::string, std::string>>& values,
             std::span<const std::string_view> allowed,
             std::string_view doc) override;
  void check(std::string_view, bool, std::string_view) override {}

  /// Comment above everything.
  void heading(std::string_view text);

  const std::string& text() const { return text_; }
  const std::vector<KeyEntry>& entries() const { return entries_; }

 protected:
  std::size_t word_key(std::string_view name,
                       std::size_t index,
                       std::span<const std::string_view> words,
                       const KeyInfo& info) override;
  bool begin_table(std::string_view name, std::string_view doc) override;
  void end_table() override;

 private:
  void comment(std::string_view text);
  void put(KeyEntry entry);
  std::string path_of(std::string_view name) const;
  void slot_body(const Slot& slot, const SlotInfo& info, std::string_view prefix);

  std::string text_;
  std::vector<KeyEntry> entries_;
  std::vector<std::string> tables_;
};

/// A TOML basic string with quotes and escapes.
std::string quote_toml(std::string_view text);

}  // namespace tenon::config
