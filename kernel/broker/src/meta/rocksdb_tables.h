// Tables that a RocketMQ 5.x broker with storeType = defaultRocksDB keeps in RocksDB instead of in
// JSON files (spec: store §8, §21).
#pragma once

#include "tenon/base/result.h"

#include <filesystem>

namespace tenon::broker {

/// Looks for topics, groups and consumer offsets that lie in RocksDB alone. Starting without them
/// would hide all messages and begin every group anew. Thread: start.
/// @return kIncompatible with what to do
Result<> refuse_rocksdb_tables(const std::filesystem::path& store_root);

}  // namespace tenon::broker
