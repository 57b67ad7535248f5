// Offsets of a broadcasting consumer in a local file, in Java's form (spec: client §5.4).
#pragma once

#include "tenon/proto/bodies_admin.h"
#include "tenon/sdk/message.h"
#include "tenon/sdk/result.h"

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace tenon::sdk::detail {

using OffsetMap = std::map<Queue, std::int64_t>;

/// <root>/<client id>/<group>/offsets.json with a .bak beside it. Thread: any.
class LocalOffsets {
 public:
  LocalOffsets(std::string root, std::string_view client_id, std::string_view group);
  /// Reads the file, or the backup if the file is missing or broken; none of both: empty.
  Result<void> load();
  std::optional<std::int64_t> get(const Queue& queue) const;
  /// Merges and writes. Survives a crash between its steps.
  Result<void> save(const OffsetMap& offsets);

 private:
  const std::string path_;
  mutable std::mutex mutex_;
  proto::QueueOffsets offsets_;
};

}  // namespace tenon::sdk::detail
