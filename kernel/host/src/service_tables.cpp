// The C functions behind the host services. Each finds its Services in ctx; nothing throws to the plug-in.
#include "services.h"

#include "tenon/base/log.h"
#include "tenon/host/thread_tag.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::host {
namespace {

Services& of(void* ctx) noexcept {
  return *static_cast<Services*>(ctx);
}
const ConfigNode& node_of(const tenon_node* n) noexcept {
  return *reinterpret_cast<const ConfigNode*>(n);
}
const tenon_node* opaque(const ConfigNode* n) noexcept {
  return reinterpret_cast<const tenon_node*>(n);
}

tenon_status failed(tenon_error* err, const Error& e) noexcept {
  if (err != nullptr) {
    err->os_errno = e.os_errno;
  }
  const auto status = static_cast<tenon_status>(e.code);
  return e.detail.empty() ? status : tenon_fail_str(err, status, abi_str(e.detail));
}

/// Runs a service that may allocate; the exception of a failed allocation becomes a status.
template <class F>
tenon_status guarded(tenon_error* err, F&& call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return tenon_fail(err, TENON_NOMEM, "out of memory");
  } catch (const std::exception& e) {
    return tenon_fail(err, TENON_INTERNAL, e.what());
  }
}

// log

LogLevel level_of(std::int32_t level) noexcept {
  return static_cast<LogLevel>(
      std::clamp<std::int32_t>(level, TENON_LOG_TRACE, TENON_LOG_CRITICAL));
}

std::int32_t log_enabled_c(void* ctx, std::int32_t level) noexcept {
  return log_enabled(level == TENON_LOG_HOST_MISBEHAVES ? LogLevel::kError : level_of(level),
                     of(ctx).component)
             ? 1
             : 0;
}

bool needs_quotes(std::string_view value) {
  return value.empty() || value.find_first_of(" =\"\n\t") != std::string_view::npos;
}

void log_write_c(
    void* ctx, std::int32_t level, tenon_str line, const tenon_kv* kv, std::size_t n) noexcept {
  const bool misbehaves = level == TENON_LOG_HOST_MISBEHAVES;
  const LogLevel as = misbehaves ? LogLevel::kError : level_of(level);
  if (!log_enabled(as, of(ctx).component)) {
    return;
  }
  guarded(nullptr, [&] {
    std::string out = misbehaves ? "host misbehaves: " : "";
    out += text(line);
    for (std::size_t i = 0; i < n; ++i) {
      const std::string_view value = text(kv[i].value);
      out += needs_quotes(value) ? fmt::format(" {}={:?}", text(kv[i].key), value)
                                 : fmt::format(" {}={}", text(kv[i].key), value);
    }
    log_write(as, of(ctx).component, out, SourceLocation{});
    return TENON_OK;
  });
}

// config

const tenon_node* config_root(void* ctx) noexcept {
  return opaque(&of(ctx).config.root());
}

tenon_status config_get(void* ctx,
                        const tenon_node* t,
                        tenon_str key,
                        std::uint32_t type,
                        void* out,
                        tenon_error* err) noexcept {
  return guarded(err, [&] {
    const auto got = of(ctx).config.get(node_of(t), text(key), type, out);
    return got ? tenon_status{TENON_OK} : failed(err, got.error());
  });
}

tenon_status config_child(void* ctx,
                          const tenon_node* t,
                          tenon_str key,
                          std::uint32_t type,
                          const tenon_node** out,
                          tenon_error* err) noexcept {
  return guarded(err, [&] {
    const auto got = of(ctx).config.child(node_of(t), text(key), type);
    if (!got) {
      return failed(err, got.error());
    }
    *out = opaque(got.value());
    return tenon_status{TENON_OK};
  });
}

std::size_t config_count(void*, const tenon_node* n) noexcept {
  return node_count(node_of(n));
}

tenon_status config_at(void*,
                       const tenon_node* n,
                       std::size_t i,
                       tenon_str* key,
                       std::uint32_t* type,
                       const tenon_node** out) noexcept {
  const ConfigNode& node = node_of(n);
  if (i >= node_count(node)) {
    return TENON_NOT_FOUND;
  }
  tenon_str name{};
  const ConfigNode* element = nullptr;
  if (const auto* table = std::get_if<ConfigNode::Table>(&node.value)) {
    name = abi_str((*table)[i].first);
    element = &(*table)[i].second;
  } else {
    element = &std::get<ConfigNode::Array>(node.value)[i];
  }
  element->read = true;
  if (key != nullptr) {
    *key = name;
  }
  if (type != nullptr) {
    *type = node_type(*element);
  }
  if (out != nullptr) {
    *out = opaque(element);
  }
  return TENON_OK;
}

tenon_str config_where(void* ctx, const tenon_node* n, tenon_str key) noexcept {
  tenon_str out{};
  guarded(nullptr, [&] {
    out = of(ctx).config.where(node_of(n), text(key));
    return TENON_OK;
  });
  return out;
}

tenon_str config_dir(void* ctx, std::uint32_t kind) noexcept {
  switch (kind) {
    case TENON_DIR_STORE_ROOT:
      return abi_str(of(ctx).store_root);
    case TENON_DIR_PRIVATE:
      return abi_str(of(ctx).private_dir);
    case TENON_DIR_TEMP:
      return abi_str(of(ctx).temp_dir);
    default:
      return {};
  }
}

// clock

std::int64_t clock_wall_ms(void* ctx) noexcept {
  return of(ctx).clock.wall_ms();
}
std::uint64_t clock_mono_ns(void* ctx) noexcept {
  return of(ctx).clock.mono_ns();
}

// metrics

InstanceMetrics::Labels labels_of(const tenon_kv* kv, std::size_t n) {
  InstanceMetrics::Labels labels;
  for (std::size_t i = 0; i < n; ++i) {
    labels.emplace_back(text(kv[i].key), text(kv[i].value));
  }
  return labels;
}

tenon_status metric_cell(void* ctx,
                         MetricKind kind,
                         tenon_str name,
                         const tenon_kv* labels,
                         std::size_t n,
                         std::uint64_t** cell,
                         tenon_error* err) noexcept {
  return guarded(err, [&] {
    std::string error;
    const tenon_status s =
        of(ctx).metrics.cell(kind, text(name), labels_of(labels, n), cell, error);
    return s < 0 ? tenon_fail_str(err, s, abi_str(error)) : s;
  });
}

tenon_status metrics_counter(void* ctx,
                             tenon_str name,
                             const tenon_kv* labels,
                             std::size_t n,
                             std::uint64_t** cell,
                             tenon_error* err) noexcept {
  return metric_cell(ctx, MetricKind::kCounter, name, labels, n, cell, err);
}

tenon_status metrics_gauge(void* ctx,
                           tenon_str name,
                           const tenon_kv* labels,
                           std::size_t n,
                           std::int64_t** cell,
                           tenon_error* err) noexcept {
  std::uint64_t* word = nullptr;
  const tenon_status s = metric_cell(ctx, MetricKind::kGauge, name, labels, n, &word, err);
  if (s >= 0) {
    *cell = reinterpret_cast<std::int64_t*>(word);  // signed and unsigned of one type may alias
  }
  return s;
}

tenon_status metrics_histogram(void* ctx,
                               tenon_str name,
                               const tenon_kv* labels,
                               std::size_t n,
                               const double* bounds,
                               std::size_t m,
                               std::uint64_t* id,
                               tenon_error* err) noexcept {
  return guarded(err, [&] {
    std::string error;
    const tenon_status s = of(ctx).metrics.histogram(
        text(name), labels_of(labels, n), std::vector<double>(bounds, bounds + m), id, error);
    return s < 0 ? tenon_fail_str(err, s, abi_str(error)) : s;
  });
}

void metrics_observe(void* ctx, std::uint64_t id, const double* v, std::size_t n) noexcept {
  of(ctx).metrics.observe(id, v, n);
}

// exec

tenon_status exec_post(
    void* ctx, std::uint32_t where, tenon_task fn, void* self, std::uint64_t arg) noexcept {
  return guarded(nullptr, [&] { return of(ctx).exec->post(where, fn, self, arg); });
}
tenon_status exec_timer(void* ctx,
                        std::uint32_t where,
                        std::uint64_t delay_ms,
                        std::uint64_t period_ms,
                        tenon_task fn,
                        void* self,
                        std::uint64_t arg,
                        std::uint64_t* id) noexcept {
  return guarded(
      nullptr, [&] { return of(ctx).exec->timer(where, delay_ms, period_ms, fn, self, arg, id); });
}
tenon_status exec_cancel(void* ctx, std::uint64_t id) noexcept {
  return guarded(nullptr, [&] { return of(ctx).exec->cancel(id); });
}
tenon_status exec_thread(void* ctx,
                         tenon_str name,
                         tenon_task fn,
                         void* self,
                         std::uint64_t arg,
                         std::uint64_t* id) noexcept {
  return guarded(nullptr,
                 [&] { return of(ctx).exec->thread(std::string(text(name)), fn, self, arg, id); });
}
tenon_status exec_join(void* ctx, std::uint64_t id) noexcept {
  return guarded(nullptr, [&] { return of(ctx).exec->join(id); });
}
tenon_status exec_watch(void* ctx,
                        std::int32_t fd,
                        std::uint32_t events,
                        tenon_fd_task fn,
                        void* self,
                        std::uint64_t* id) noexcept {
  return guarded(nullptr, [&] { return of(ctx).exec->watch_fd(fd, events, fn, self, id); });
}
std::uint32_t exec_where(void*) noexcept {
  return thread_tags();
}

// completion

void complete(void* ctx, const tenon_completion* c, std::size_t stride, std::size_t n) noexcept {
  if (of(ctx).completion_events != nullptr) {
    of(ctx).completion_events->complete(c, stride, n);
  } else {
    log_warn("host", "completions that nobody waits for plugin={} count={}", of(ctx).component, n);
  }
}

// buffer

constexpr std::size_t kBufferMax = 256u << 20;

void release_buffer(void* owner, std::uint64_t) noexcept {
  ::operator delete (owner, std::align_val_t{64});
}

/// A hold that is counted until it is released.
struct CountedHold {
  HoldCounter* counter;
  void* owner;
  void (*release)(void*, std::uint64_t) noexcept;
};

void release_counted(void* owner, std::uint64_t id) noexcept {
  auto* hold = static_cast<CountedHold*>(owner);
  hold->release(hold->owner, id);
  hold->counter->closed();
  delete hold;
}

tenon_hold buffer_wrap(void* ctx,
                       void* owner,
                       void (*release)(void*, std::uint64_t) noexcept,
                       std::uint64_t id) noexcept {
  if (release == nullptr) {
    return {};
  }
  auto* hold = new (std::nothrow) CountedHold{&of(ctx).holds, owner, release};
  if (hold == nullptr) {
    return {owner, release, id};  // works the same, is just not counted
  }
  of(ctx).holds.opened();
  return {hold, release_counted, id};
}

tenon_status buffer_acquire(void* ctx, std::size_t bytes, tenon_buf* out) noexcept {
  if (bytes > kBufferMax) {
    return TENON_LIMIT;
  }
  void* p = ::operator new (std::max<std::size_t>(bytes, 1), std::align_val_t{64}, std::nothrow);
  if (p == nullptr) {
    return TENON_NOMEM;
  }
  out->ptr = static_cast<std::uint8_t*>(p);
  out->cap = bytes;
  out->hold = buffer_wrap(ctx, p, release_buffer, 0);
  return TENON_OK;
}

// storage events

/// Calls f with a progress of our own size; an older plug-in passes a shorter one.
template <class F>
void with_progress(const tenon_progress* p, F&& f) noexcept {
  if (p->size >= sizeof(tenon_progress)) {
    f(*p);
    return;
  }
  tenon_progress own;
  tenon_adopt(&own, sizeof own, p);
  f(own);
}

void storage_progress(void* ctx, const tenon_progress* p) noexcept {
  with_progress(p, [&](const tenon_progress& own) { of(ctx).storage_events->progress(own); });
}
void storage_arrivals(void* ctx,
                      const tenon_arrival* a,
                      std::size_t stride,
                      std::size_t n) noexcept {
  of(ctx).storage_events->arrivals(a, stride, n);
}
void storage_index_bits(void* ctx,
                        const tenon_arrival* a,
                        std::size_t stride,
                        std::size_t n,
                        std::uint8_t* bits,
                        std::size_t bits_stride) noexcept {
  of(ctx).storage_events->index_bits(a, stride, n, bits, bits_stride);
}
tenon_status storage_deliver_time(void* ctx,
                                  std::uint32_t level,
                                  std::int64_t store_ms,
                                  std::int64_t* out) noexcept {
  return of(ctx).storage_events->deliver_time(level, store_ms, *out);
}
void storage_fault(void* ctx, tenon_status why, tenon_str what) noexcept {
  of(ctx).storage_events->fault(why, text(what));
}

// replication events

void replication_progress(void* ctx, const tenon_progress* p) noexcept {
  with_progress(p, [&](const tenon_progress& own) { of(ctx).replication_events->progress(own); });
}
tenon_status replication_close_gate(void* ctx, std::uint64_t epoch, tenon_status why) noexcept {
  return of(ctx).replication_events->close_gate(epoch, why);
}
tenon_status replication_role_changed(void* ctx, const tenon_role* r) noexcept {
  tenon_role role;
  tenon_adopt(&role, sizeof role, r);
  return of(ctx).replication_events->role_changed(role);
}
tenon_status replication_metadata_in(void* ctx, std::uint32_t kind, tenon_bytes body) noexcept {
  return of(ctx).replication_events->metadata_in(kind,
                                                 std::as_bytes(std::span(body.ptr, body.len)));
}
void replication_fault(void* ctx, tenon_status why, tenon_str what) noexcept {
  of(ctx).replication_events->fault(why, text(what));
}

}  // namespace

namespace tables {
const tenon_host_log kLog{sizeof(tenon_host_log), 0, log_enabled_c, log_write_c};
const tenon_host_config kConfig{sizeof(tenon_host_config),
                                0,
                                config_root,
                                config_get,
                                config_child,
                                config_count,
                                config_at,
                                config_where,
                                config_dir};
const tenon_host_clock kClock{sizeof(tenon_host_clock), 0, clock_wall_ms, clock_mono_ns};
const tenon_host_metrics kMetrics{sizeof(tenon_host_metrics),
                                  0,
                                  metrics_counter,
                                  metrics_gauge,
                                  metrics_histogram,
                                  metrics_observe};
const tenon_host_exec kExec{sizeof(tenon_host_exec),
                            0,
                            exec_post,
                            exec_timer,
                            exec_cancel,
                            exec_thread,
                            exec_join,
                            exec_watch,
                            exec_where};
const tenon_host_completion kCompletion{sizeof(tenon_host_completion), 0, complete};
const tenon_host_buffer kBuffer{sizeof(tenon_host_buffer), 0, buffer_acquire, buffer_wrap};
const tenon_host_storage kStorage{sizeof(tenon_host_storage),
                                  0,
                                  storage_progress,
                                  storage_arrivals,
                                  storage_index_bits,
                                  storage_deliver_time,
                                  storage_fault};
const tenon_host_replication kReplication{sizeof(tenon_host_replication),
                                          0,
                                          replication_progress,
                                          replication_close_gate,
                                          replication_role_changed,
                                          replication_metadata_in,
                                          replication_fault};
}  // namespace tables

}  // namespace tenon::host
