// Options of tenon.store.file. RocketMQ names in brackets; defaults are those of 4.9.8.
#pragma once

#include "tenon/plugin.hpp"
#include "tenon/store_format/log_folders.h"

#include <cstdint>
#include <string>

namespace tenon::store_file {

struct Options {
  std::string root{};                             ///< store root of the host
  store_format::LogFolders log_folders{};         ///< (storePathCommitLog and the next)
  std::uint64_t log_file_bytes = 1ull << 30;      ///< commitlog_file (mappedFileSizeCommitLog)
  std::uint64_t queue_file_bytes = 6'000'000;     ///< (mappedFileSizeConsumeQueue), multiple of 20
  std::uint32_t index_slots = 5'000'000;          ///< (maxHashSlotNum)
  std::uint32_t index_items = 20'000'000;         ///< (maxIndexNum)
  bool key_index = true;                          ///< (messageIndexEnable)
  bool sync_flush = false;                        ///< flush = "sync" (flushDiskType)
  std::int64_t flush_interval_ms = 500;           ///< (flushIntervalCommitLog)
  std::uint32_t flush_least_pages = 4;            ///< (flushCommitLogLeastPages)
  std::int64_t flush_thorough_ms = 10'000;        ///< (flushCommitLogThoroughInterval)
  std::int64_t queue_flush_interval_ms = 1000;    ///< (flushIntervalConsumeQueue)
  std::uint32_t queue_flush_least_pages = 2;      ///< (flushConsumeQueueLeastPages)
  std::int64_t queue_flush_thorough_ms = 60'000;  ///< (flushConsumeQueueThoroughInterval)
  bool check_crc = true;                          ///< (checkCRCOnRecover)
  bool queue_ext = false;                         ///< (enableConsumeQueueExt)
  std::uint64_t ext_file_bytes = 48ull << 20;     ///< (mappedFileSizeConsumeQueueExt)
  std::uint32_t bitmap_bytes = 14;                ///< (bitMapLengthConsumeQueueExt), in bits there
  bool multi_dispatch = false;                    ///< (enableMultiDispatch)
  std::uint32_t light_queues_max = 20'000;        ///< (maxLmqConsumeQueueNum)
  std::uint32_t memory_percent = 40;              ///< (accessMessageInMemoryMaxRatio)
};

inline constexpr tenon_config_key kOptionKeys[] = {
    plugin::key(
        "commitlog_folder",
        TENON_TYPE_STRING,
        "",
        "folder of the commit log files if it is not commitlog in the store's folder; several, "
        "between commas, take the files in turn"),
    plugin::key("commitlog_readonly_folders",
                TENON_TYPE_STRING,
                "",
                "folders, between commas, with older files of the log, for none of the new ones"),
    plugin::key("commitlog_file",
                TENON_TYPE_BYTES,
                "1GiB",
                "size of a new commit log file; an existing store keeps its own"),
    plugin::key("queue_file_bytes",
                TENON_TYPE_BYTES,
                "6000000",
                "size of a consume queue file of a new store, rounded up to a multiple of 20"),
    plugin::key("index_slots", TENON_TYPE_INT, "5000000", "hash slots of a key index file"),
    plugin::key("index_items", TENON_TYPE_INT, "20000000", "entries of a key index file"),
    plugin::key("key_index", TENON_TYPE_BOOL, "true", "keep the index for queries by key"),
    plugin::key("flush",
                TENON_TYPE_STRING,
                "async",
                "sync: the disk has a message before it is answered, if the sender waits for it"),
    plugin::key(
        "flush_interval", TENON_TYPE_DURATION, "500ms", "between two rounds of async flush"),
    plugin::key(
        "flush_least_pages", TENON_TYPE_INT, "4", "fewer dirty pages wait for a later round"),
    plugin::key("flush_thorough", TENON_TYPE_DURATION, "10s", "flush whatever is dirty this often"),
    plugin::key("queue_flush_interval", TENON_TYPE_DURATION, "1s", "the same for consume queues"),
    plugin::key("queue_flush_least_pages", TENON_TYPE_INT, "2", "the same for consume queues"),
    plugin::key("queue_flush_thorough",
                TENON_TYPE_DURATION,
                "60s",
                "the same for consume queues, with a checkpoint"),
    plugin::key("check_crc", TENON_TYPE_BOOL, "true", "check bodies against their CRC in recovery"),
    plugin::key("queue_ext",
                TENON_TYPE_BOOL,
                "false",
                "keep store time and filter bit map of each message beside its queue"),
    plugin::key("queue_ext_file", TENON_TYPE_BYTES, "48MiB", "size of a file of those"),
    plugin::key("queue_ext_bitmap_bytes",
                TENON_TYPE_INT,
                "14",
                "bytes of a bit map: 14 is right for the broker's default of 32 groups"),
    plugin::key(
        "multi_dispatch",
        TENON_TYPE_BOOL,
        "false",
        "a message with INNER_MULTI_DISPATCH also enters the light queues (%LMQ%...) named there"),
    plugin::key("light_queues_max",
                TENON_TYPE_INT,
                "20000",
                "further light queues are not made; their messages are stored all the same"),
    plugin::key("memory_percent",
                TENON_TYPE_INT,
                "40",
                "messages farther from the end than this part of the memory count as cold"),
};

/// Reads and checks the options. Throws plugin::Failure with the position of the first bad one.
Options read_options(const plugin::Host& host);

}  // namespace tenon::store_file
