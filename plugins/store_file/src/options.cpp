#include "options.h"

#include <chrono>

namespace tenon::store_file {

namespace {
std::int64_t milliseconds(const plugin::Config& c, const char* key, std::int64_t absent) {
  const auto value = c.get(key, std::chrono::milliseconds(absent)).count();
  if (value < 1) {
    c.reject(key, "must be at least 1ms");
  }
  return value;
}

std::uint32_t count(const plugin::Config& c,
                    const char* key,
                    std::uint32_t absent,
                    std::uint32_t least) {
  const auto value = c.get(key, absent);
  if (value < least || value > 0x7fff'ffffu) {
    c.reject(key, "must be from " + std::to_string(least) + " to 2147483647");
  }
  return value;
}

/// (storePathCommitLog, readOnlyCommitLogStorePaths)
store_format::LogFolders log_folders_of(const plugin::Config& c, const std::string& root) {
  const std::string folders = c.get("commitlog_folder", "");
  const std::string read_only = c.get("commitlog_readonly_folders", "");
  auto parsed = store_format::parse_log_folders(root, folders, {});
  if (!parsed) {
    c.reject("commitlog_folder", parsed.error().detail);
  }
  parsed = store_format::parse_log_folders(root, folders, read_only);
  if (!parsed) {
    c.reject("commitlog_readonly_folders", parsed.error().detail);
  }
  return parsed.value();
}
}  // namespace

Options read_options(const plugin::Host& host) {
  Options o;
  o.root = host.directory(TENON_DIR_STORE_ROOT);
  if (o.root.empty()) {
    throw plugin::Failure(TENON_INVALID, "the host names no store root");
  }
  const plugin::Config c = host.config();
  o.log_folders = log_folders_of(c, o.root);
  o.log_file_bytes = c.get("commitlog_file", plugin::ByteSize{o.log_file_bytes}).value;
  if (o.log_file_bytes < 1024 || o.log_file_bytes > 0x7fff'ffffu) {
    c.reject("commitlog_file", "must be from 1KiB to 2147483647 bytes");
  }
  o.queue_file_bytes = c.get("queue_file_bytes", plugin::ByteSize{o.queue_file_bytes}).value;
  if (o.queue_file_bytes == 0 || o.queue_file_bytes > 0x7fff'ffe0u) {
    c.reject("queue_file_bytes", "must be from 20 to 2147483616 bytes");
  }
  o.queue_file_bytes = (o.queue_file_bytes + 19) / 20 * 20;
  o.index_slots = count(c, "index_slots", o.index_slots, 1);
  o.index_items = count(c, "index_items", o.index_items, 2);
  o.key_index = c.get("key_index", o.key_index);
  const std::string flush = c.get("flush", "async");
  if (flush != "async" && flush != "sync") {
    c.reject("flush", "must be async or sync");
  }
  o.sync_flush = flush == "sync";
  o.flush_interval_ms = milliseconds(c, "flush_interval", o.flush_interval_ms);
  o.flush_least_pages = count(c, "flush_least_pages", o.flush_least_pages, 0);
  o.flush_thorough_ms = milliseconds(c, "flush_thorough", o.flush_thorough_ms);
  o.queue_flush_interval_ms = milliseconds(c, "queue_flush_interval", o.queue_flush_interval_ms);
  o.queue_flush_least_pages = count(c, "queue_flush_least_pages", o.queue_flush_least_pages, 0);
  o.queue_flush_thorough_ms = milliseconds(c, "queue_flush_thorough", o.queue_flush_thorough_ms);
  o.check_crc = c.get("check_crc", o.check_crc);
  o.queue_ext = c.get("queue_ext", o.queue_ext);
  o.ext_file_bytes = c.get("queue_ext_file", plugin::ByteSize{o.ext_file_bytes}).value;
  if (o.ext_file_bytes < 1024 || o.ext_file_bytes > 0x7fff'ffffu) {
    c.reject("queue_ext_file", "must be from 1KiB to 2147483647 bytes");
  }
  o.bitmap_bytes = count(c, "queue_ext_bitmap_bytes", o.bitmap_bytes, 1);
  if (o.bitmap_bytes > 4096 || o.bitmap_bytes + 24 > o.ext_file_bytes) {
    c.reject("queue_ext_bitmap_bytes", "must be at most 4096 and fit into a file");
  }
  o.multi_dispatch = c.get("multi_dispatch", o.multi_dispatch);
  o.light_queues_max = count(c, "light_queues_max", o.light_queues_max, 1);
  o.memory_percent = count(c, "memory_percent", o.memory_percent, 1);
  if (o.memory_percent > 100) {
    c.reject("memory_percent", "must be at most 100");
  }
  return o;
}

}  // namespace tenon::store_file
