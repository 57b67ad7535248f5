// Message filters of subscriptions: the tag rule is built in, everything else comes from filter
// plug-ins by expression type (spec: broker §9; plug-in ABI §16).
#pragma once

#include "util/hashing.h"

#include "tenon/abi/plugin.h"
#include "tenon/base/result.h"
#include "tenon/host/plugin_registry.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::broker {

inline constexpr std::string_view kTagType = "TAG";

/// A compiled expression. Immutable. Thread: any.
class Filter {
 public:
  enum Verdict : std::uint8_t { kNo = 0, kYes = 1, kUndecided = 2 };

  virtual ~Filter() = default;
  virtual void match_index(const tenon_index_entry* in,
                           std::size_t n,
                           std::uint8_t* verdict) const = 0;
  /// Only for kUndecided entries. 1 = yes, anything else no.
  virtual void match_properties(const tenon_bytes* properties,
                                std::size_t n,
                                std::uint8_t* verdict) const = 0;

  /// Whether an arriving message may wake a pull.
  bool may_match(const tenon_arrival& arrival) const;
};
/// Null matches everything.
using FilterPtr = std::shared_ptr<const Filter>;

/// The expression types this broker knows. Thread: any after construction.
class Filters {
 public:
  /// Adds the types of an active plug-in instance, which must outlive every Filter.
  void add(const host::Interface<tenon_filter>& plugin);
  bool knows(std::string_view type) const;
  /// @param type  empty = TAG. @return kUnsupported for an unknown type, kInvalid with the parser's
  /// message
  Result<FilterPtr> compile(std::string_view type, std::string_view text) const;
  /// The same for an expression that comes with every pull: the last kKept expressions of plug-ins
  /// are kept, so that each is compiled once.
  Result<FilterPtr> compiled(std::string_view type, std::string_view text) const;

  static constexpr std::size_t kKept = 64;

 private:
  struct Kept {
    std::string type{};
    std::string text{};
    FilterPtr filter{};
  };

  TextMap<host::Interface<tenon_filter>> types_{};
  mutable std::mutex mutex_{};
  mutable std::vector<Kept> kept_{};  ///< the last used one first
};

}  // namespace tenon::broker
