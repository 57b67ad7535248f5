#include "tenon/store/host_services.h"

#include <cstring>

#include <pthread.h>
#include <signal.h>

namespace tenon::store {

void HostServices::fault(tenon_status why, std::string_view what) const noexcept {
  host_.log(TENON_LOG_CRITICAL, what);
  if (TENON_HAS(&host_.storage, tenon_host_storage, fault)) {
    host_.storage.fault(host_.ctx(), why, plugin::str(what));
  }
}

std::int64_t HostServices::deliver_time(std::uint32_t level, std::int64_t store_ms) const noexcept {
  std::int64_t at = 0;
  if (TENON_HAS(&host_.storage, tenon_host_storage, deliver_time) &&
      host_.storage.deliver_time(host_.ctx(), level, store_ms, &at) >= 0) {
    return at;
  }
  return store_ms + 1000;
}

void raise(const Error& error) {
  throw plugin::Failure(static_cast<tenon_status>(error.code), error.detail, error.os_errno);
}

void prepare_thread(const char* name) noexcept {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  char cut[16] = {};
  std::strncpy(cut, name, sizeof cut - 1);
  pthread_setname_np(pthread_self(), cut);
}

}  // namespace tenon::store
