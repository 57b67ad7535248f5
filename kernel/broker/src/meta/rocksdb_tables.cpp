#include "meta/rocksdb_tables.h"

#include "tenon/base/log.h"

#include <fmt/format.h>

#include <array>

namespace tenon::broker {

namespace fs = std::filesystem;

namespace {

struct Table {
  const char* rocksdb = "";
  const char* json = "";
};
constexpr std::array<Table, 3> kTables{{{"topics", "topics.json"},
                                        {"subscriptionGroups", "subscriptionGroup.json"},
                                        {"consumerOffsets", "consumerOffset.json"}}};

}  // namespace

Result<> refuse_rocksdb_tables(const fs::path& store_root) {
  const fs::path config = store_root / "config";
  for (const Table& table : kTables) {
    std::error_code ec;
    const fs::path folder = config / table.rocksdb;
    if (!fs::exists(folder / "CURRENT", ec)) {
      continue;
    }
    const fs::path json = config / table.json;
    if (!fs::exists(json, ec) && !fs::exists(json.string() + ".bak", ec)) {
      return Error{
          Errc::kIncompatible,
          fmt::format("{} is in RocksDB (storeType=defaultRocksDB of a 5.x broker), which is "
                      "not read; start that broker again, let it write {} with mqadmin "
                      "rocksDBConfigToJson -b ADDRESS, and stop it",
                      folder.string(),
                      table.json)};
    }
    log_warn("broker", "RocksDB is not read path={} instead={}", folder.string(), json.string());
  }
  return ok();
}

}  // namespace tenon::broker
