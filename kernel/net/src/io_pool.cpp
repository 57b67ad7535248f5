#include "io_pool.h"

#include "tenon/base/check.h"

#include <algorithm>
#include <system_error>

namespace tenon::net {

IoPoolImpl::IoPoolImpl(const Options& options) {
  const std::size_t count = std::clamp<std::size_t>(options.threads, 1, 256);
  for (std::size_t i = 0; i < count; ++i) {
    threads_.push_back(std::make_shared<IoThreadImpl>(i, options.name + "-" + std::to_string(i)));
  }
}

IoPoolImpl::~IoPoolImpl() {
  stop();
}

void IoPoolImpl::start_threads() {
  for (const auto& thread : threads_) {
    thread->start();
  }
}

IoThread& IoPoolImpl::pick() noexcept {
  return *pick_thread(threads_);
}

void IoPoolImpl::stop() {
  for (const auto& thread : threads_) {
    thread->stop();
  }
}

const std::shared_ptr<IoThreadImpl>& pick_thread(
    const std::vector<std::shared_ptr<IoThreadImpl>>& threads) noexcept {
  return *std::min_element(threads.begin(), threads.end(), [](const auto& a, const auto& b) {
    return a->connection_count.load(std::memory_order_relaxed) <
           b->connection_count.load(std::memory_order_relaxed);
  });
}

Result<std::unique_ptr<IoPool>> IoPool::start(Options options) {
  if (options.threads == 0) {
    return Error{Errc::kInvalid, "an I/O pool needs at least one thread"};
  }
  auto pool = std::make_unique<IoPoolImpl>(options);
  try {
    pool->start_threads();
  } catch (const std::system_error& e) {
    return Error{Errc::kNoMemory, std::string("start I/O threads: ") + e.what(), e.code().value()};
  }
  return std::unique_ptr<IoPool>(std::move(pool));
}

}  // namespace tenon::net
