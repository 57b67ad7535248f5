#include "store_harness.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include <stdlib.h>

namespace tenon::test {

namespace fs = std::filesystem;

TempFolder::TempFolder() {
  std::string pattern = (fs::temp_directory_path() / "tenon-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error("cannot create " + pattern);
  }
  path_ = pattern;
}

TempFolder::~TempFolder() {
  std::error_code ec;
  fs::remove_all(path_, ec);
}

/// The service functions; ctx is the FakeHost.
struct FakeServices {
  static FakeHost& of(void* ctx) { return *static_cast<FakeHost*>(ctx); }
  static std::string_view view(tenon_str s) {
    return s.len == 0 ? std::string_view{} : std::string_view{s.ptr, s.len};
  }

  static std::int32_t log_enabled(void*, std::int32_t level) noexcept {
    return level >= TENON_LOG_INFO;
  }
  static void log_write(
      void* ctx, std::int32_t, tenon_str text, const tenon_kv*, std::size_t) noexcept {
    const std::scoped_lock lock(of(ctx).mutex_);
    of(ctx).log_.append(view(text)).append("\n");
  }
  static std::int64_t wall_ms(void* ctx) noexcept {
    const std::int64_t fixed = of(ctx).fixed_wall_ms.load();
    return fixed != 0 ? fixed
                      : std::chrono::duration_cast<std::chrono::milliseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
  }
  static std::uint64_t mono_ns(void*) noexcept {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  static const tenon_node* config_root(void* ctx) noexcept {
    return static_cast<const tenon_node*>(ctx);
  }
  static tenon_status config_get(void* ctx,
                                 const tenon_node*,
                                 tenon_str key,
                                 std::uint32_t type,
                                 void* out,
                                 tenon_error*) noexcept {
    FakeHost& host = of(ctx);
    if (type == TENON_TYPE_STRING) {
      const auto it = host.texts_.find(view(key));
      if (it == host.texts_.end()) {
        return TENON_NOT_FOUND;
      }
      const tenon_str text{it->second.data(), it->second.size()};
      std::memcpy(out, &text, sizeof text);
      return TENON_OK;
    }
    const auto it = host.numbers_.find(view(key));
    if (it == host.numbers_.end()) {
      return TENON_NOT_FOUND;
    }
    if (type == TENON_TYPE_BOOL) {
      const auto flag = static_cast<std::uint32_t>(it->second);
      std::memcpy(out, &flag, sizeof flag);
    } else {
      std::memcpy(out, &it->second, sizeof it->second);
    }
    return TENON_OK;
  }
  static tenon_status config_child(void*,
                                   const tenon_node*,
                                   tenon_str,
                                   std::uint32_t,
                                   const tenon_node**,
                                   tenon_error*) noexcept {
    return TENON_NOT_FOUND;
  }
  static std::size_t config_count(void*, const tenon_node*) noexcept { return 0; }
  static tenon_status config_at(void*,
                                const tenon_node*,
                                std::size_t,
                                tenon_str*,
                                std::uint32_t*,
                                const tenon_node**) noexcept {
    return TENON_NOT_FOUND;
  }
  static tenon_str config_where(void*, const tenon_node*, tenon_str) noexcept {
    return tenon_str_of("test.toml:1:1");
  }
  static tenon_str config_dir(void* ctx, std::uint32_t) noexcept {
    return {of(ctx).root_.data(), of(ctx).root_.size()};
  }
  static void progress(void* ctx, const tenon_progress* p) noexcept {
    const std::scoped_lock lock(of(ctx).mutex_);
    of(ctx).progress_ = *p;
    of(ctx).changed_.notify_all();
  }
  static void arrivals(void* ctx,
                       const tenon_arrival* first,
                       std::size_t stride,
                       std::size_t n) noexcept {
    FakeHost& host = of(ctx);
    if (!host.record_arrivals) {
      return;
    }
    const std::scoped_lock lock(host.mutex_);
    for (std::size_t i = 0; i < n; ++i) {
      const auto& a = *TENON_AT(tenon_arrival, first, stride, i);
      host.arrivals_.push_back(
          {std::string(view(a.topic)),
           a.queue_id,
           a.queue_offset,
           a.tags_code,
           a.store_ms,
           a.phys,
           std::string(reinterpret_cast<const char*>(a.properties.ptr), a.properties.len)});
    }
    host.changed_.notify_all();
  }
  static void index_bits(void* ctx,
                         const tenon_arrival* first,
                         std::size_t stride,
                         std::size_t n,
                         std::uint8_t* bits,
                         std::size_t bits_stride) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
      if (of(ctx).index_bits) {
        of(ctx).index_bits(
            *TENON_AT(tenon_arrival, first, stride, i), bits + i * bits_stride, bits_stride);
      }
    }
  }
  static tenon_status deliver_time(void*,
                                   std::uint32_t level,
                                   std::int64_t store_ms,
                                   std::int64_t* out) noexcept {
    static constexpr std::int64_t kSeconds[] = {
        1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200};
    if (level < 1 || level > 18) {
      return TENON_NOT_FOUND;
    }
    *out = store_ms + kSeconds[level - 1] * 1000;
    return TENON_OK;
  }
  static void fault(void* ctx, tenon_status why, tenon_str) noexcept {
    of(ctx).fault_.store(why);
    const std::scoped_lock lock(of(ctx).mutex_);
    of(ctx).changed_.notify_all();
  }

  static const void* get_interface(void*, const char* iid) noexcept {
    static const tenon_host_log log{sizeof log, TENON_LOG_INFO, log_enabled, log_write};
    static const tenon_host_clock clock{sizeof clock, 0, wall_ms, mono_ns};
    static const tenon_host_config config{sizeof config,
                                          0,
                                          config_root,
                                          config_get,
                                          config_child,
                                          config_count,
                                          config_at,
                                          config_where,
                                          config_dir};
    static const tenon_host_storage storage{
        sizeof storage, 0, progress, arrivals, index_bits, deliver_time, fault};
    const std::string_view id = iid;
    if (id == TENON_HOST_LOG_IID) {
      return &log;
    }
    if (id == TENON_HOST_CLOCK_IID) {
      return &clock;
    }
    if (id == TENON_HOST_CONFIG_IID) {
      return &config;
    }
    return id == TENON_HOST_STORAGE_IID ? &storage : nullptr;
  }
};

FakeHost::FakeHost(fs::path store_root)
    : root_(store_root.string()) {
  host_.size = sizeof host_;
  host_.abi_major = TENON_ABI_MAJOR;
  host_.abi_minor = TENON_ABI_MINOR;
  host_.ctx = this;
  host_.name = tenon_str_of("test");
  host_.version = tenon_str_of("1");
  host_.side = TENON_SIDE_TEST_KIT;
  host_.get_interface = FakeServices::get_interface;
}

std::vector<Arrival> FakeHost::arrivals() const {
  const std::scoped_lock lock(mutex_);
  return arrivals_;
}

tenon_progress FakeHost::last_progress() const {
  const std::scoped_lock lock(mutex_);
  return progress_;
}

std::string FakeHost::log_text() const {
  const std::scoped_lock lock(mutex_);
  return log_;
}

tenon_addr to_abi(const proto::HostAddr& a) {
  tenon_addr out{};
  std::copy(a.ip.begin(), a.ip.end(), out.ip);
  out.port = a.port;
  out.family = a.v6 ? 6 : 4;
  return out;
}

tenon_record to_record(const Message& m) {
  tenon_record r{};
  r.topic = {m.topic.data(), m.topic.size()};
  r.queue_id = m.queue_id;
  r.flags = m.flags;
  r.flag = m.flag;
  r.sys_flag = m.sys_flag;
  r.born_ms = m.born_ms;
  r.store_ms = m.store_ms;
  r.born_host = to_abi(m.born_host);
  r.store_host = to_abi(m.store_host);
  r.count = 1;
  r.body = {reinterpret_cast<const std::uint8_t*>(m.body.data()), m.body.size()};
  r.properties = {reinterpret_cast<const std::uint8_t*>(m.properties.data()), m.properties.size()};
  r.tags_code = proto::tags_code_of(m.properties);
  return r;
}

std::string properties_of(std::initializer_list<std::pair<std::string_view, std::string_view>> p) {
  std::string text;
  for (const auto& [name, value] : p) {
    proto::append_property(text, name, value);
  }
  return text;
}

StoreInstance::StoreInstance(const tenon_entry& entry, const char* id, FakeHost& host)
    : host_(host) {
  const auto* factory = static_cast<const tenon_factory*>(entry.get_factory(TENON_FACTORY_IID));
  if (factory->create(id, host_.raw(), &plugin_, err()) < 0) {
    throw std::runtime_error(error_text_);
  }
}

StoreInstance::~StoreInstance() {
  if (plugin_ != nullptr) {
    stop();
    plugin_->destroy(plugin_->self);
  }
}

tenon_error* StoreInstance::err() {
  raw_error_ = {sizeof raw_error_, 0, 0, 0, error_text_, sizeof error_text_, 0};
  error_text_[0] = 0;
  return &raw_error_;
}

tenon_status StoreInstance::keep(tenon_status status) {
  call_status = status;
  error_ = error_text_;
  return status;
}

tenon_status StoreInstance::init() {
  const tenon_status status = keep(plugin_->init(plugin_->self, err()));
  if (status >= 0) {
    table_ =
        static_cast<const tenon_storage*>(plugin_->get_interface(plugin_->self, TENON_STORAGE_IID));
  }
  return status;
}

tenon_status StoreInstance::recover(std::uint32_t mode) {
  tenon_recover_opts o{};
  o.size = sizeof o;
  o.mode = mode;
  recovered_ = {};
  recovered_.size = sizeof recovered_;
  return keep(table_->recover(self(), &o, &recovered_, err()));
}

tenon_status StoreInstance::activate() {
  const tenon_status status = keep(plugin_->activate(plugin_->self, err()));
  active_ = status >= 0;
  return status;
}

tenon_status StoreInstance::start() {
  tenon_status status = table_ == nullptr ? init() : TENON_OK;
  if (status >= 0) {
    status = recover();
  }
  return status >= 0 ? activate() : status;
}

void StoreInstance::stop() {
  if (active_) {
    active_ = false;
    plugin_->deactivate(plugin_->self);
  }
}

tenon_append_result StoreInstance::append(const Message& m) {
  const tenon_record r = to_record(m);
  tenon_append_result result{};
  keep(table_->append(self(), &r, sizeof r, 1, &result, sizeof result, err()));
  return result;
}

std::vector<tenon_append_result> StoreInstance::append(const std::vector<Message>& all) {
  std::vector<tenon_record> records;
  std::transform(all.begin(), all.end(), std::back_inserter(records), to_record);
  std::vector<tenon_append_result> results(all.size());
  keep(table_->append(self(),
                      records.data(),
                      sizeof(tenon_record),
                      records.size(),
                      results.data(),
                      sizeof(tenon_append_result),
                      err()));
  return results;
}

tenon_queue StoreInstance::queue(std::string_view topic, std::uint32_t id, bool create) {
  tenon_queue q = 0;
  keep(table_->open_queue(self(),
                          {topic.data(), topic.size()},
                          id,
                          create ? std::uint32_t{TENON_OPEN_CREATE} : 0u,
                          &q,
                          err()));
  return q;
}

Bounds StoreInstance::bounds(std::string_view topic, std::uint32_t id) {
  const tenon_queue q = queue(topic, id);
  tenon_queue_bounds b{};
  b.size = sizeof b;
  if (q != 0) {
    keep(table_->queue_bounds(self(), q, &b));
  }
  return {b.min_offset, b.max_offset};
}

tenon_log_bounds StoreInstance::log() {
  tenon_log_bounds b{};
  b.size = sizeof b;
  table_->log_bounds(self(), &b);
  return b;
}

std::vector<Entry> StoreInstance::entries(std::string_view topic,
                                          std::uint32_t id,
                                          std::int64_t from) {
  std::vector<Entry> all;
  const tenon_queue q = queue(topic, id);
  std::vector<tenon_index_entry> chunk(100);
  while (q != 0) {
    std::size_t n = 0;
    std::int64_t next = from;
    tenon_hold hold{};
    if (keep(table_->index_read(self(),
                                q,
                                from,
                                chunk.data(),
                                sizeof(tenon_index_entry),
                                chunk.size(),
                                &n,
                                &next,
                                &hold)) < 0) {
      break;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const tenon_index_entry& e = chunk[i];
      all.push_back({from + static_cast<std::int64_t>(i),
                     e.phys,
                     e.bytes,
                     e.tags_code,
                     (e.flags & TENON_EXTENDED) != 0,
                     e.store_ms,
                     {reinterpret_cast<const char*>(e.bitmap.ptr), e.bitmap.len}});
    }
    if (hold.release != nullptr) {
      hold.release(hold.owner, hold.id);
    }
    from = next;
  }
  return all;
}

std::string StoreInstance::fetch(std::uint64_t phys, std::uint32_t bytes) {
  const tenon_extent e{phys, bytes, 0};
  tenon_view view{};
  tenon_hold hold{};
  std::uint64_t next_file = 0;
  keep(table_->fetch(self(), &e, 1, 0, &view, sizeof view, &next_file, &hold, err()));
  std::string text;
  if (view.ptr != nullptr) {
    text.assign(reinterpret_cast<const char*>(view.ptr), view.len);
  }
  if (hold.release != nullptr) {
    hold.release(hold.owner, hold.id);
  }
  return text;
}

std::string StoreInstance::message_at(std::uint64_t phys) {
  tenon_view view{};
  tenon_hold hold{};
  keep(table_->message_at(self(), phys, &view, &hold, err()));
  std::string text;
  if (view.ptr != nullptr) {
    text.assign(reinterpret_cast<const char*>(view.ptr), view.len);
  }
  if (hold.release != nullptr) {
    hold.release(hold.owner, hold.id);
  }
  return text;
}

std::vector<std::uint64_t> StoreInstance::query(std::string_view topic,
                                                std::string_view key,
                                                std::int64_t begin_ms,
                                                std::int64_t end_ms,
                                                std::uint32_t max) {
  tenon_key_query q{};
  q.size = sizeof q;
  q.max = max;
  q.topic = {topic.data(), topic.size()};
  q.key = {key.data(), key.size()};
  q.begin_ms = begin_ms;
  q.end_ms = end_ms;
  std::vector<tenon_extent> out(max);
  tenon_key_result r{};
  r.size = sizeof r;
  keep(table_->query_keys(self(), &q, out.data(), sizeof(tenon_extent), &r, err()));
  std::vector<std::uint64_t> hits;
  for (std::uint32_t i = 0; i < r.count; ++i) {
    hits.push_back(out[i].phys);
  }
  return hits;
}

std::optional<std::int64_t> StoreInstance::offset_by_time(std::string_view topic,
                                                          std::uint32_t id,
                                                          std::int64_t ms,
                                                          std::uint32_t boundary) {
  const tenon_queue q = queue(topic, id);
  std::int64_t offset = 0;
  if (q == 0 || keep(table_->offset_by_time(self(), q, ms, boundary, &offset, err())) < 0) {
    return std::nullopt;
  }
  return offset;
}

std::optional<std::int64_t> StoreInstance::time_of(std::string_view topic,
                                                   std::uint32_t id,
                                                   std::int64_t at) {
  const tenon_queue q = queue(topic, id);
  std::int64_t ms = 0;
  if (q == 0 || keep(table_->time_of(self(), q, at, &ms, err())) < 0) {
    return std::nullopt;
  }
  return ms;
}

}  // namespace tenon::test
