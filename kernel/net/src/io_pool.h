// The only implementation of IoPool, for the other files of this library.
#pragma once

#include "io_thread.h"

#include <memory>
#include <vector>

namespace tenon::net {

class IoPoolImpl final : public IoPool {
 public:
  explicit IoPoolImpl(const Options& options);
  ~IoPoolImpl() override;

  void start_threads();
  std::size_t size() const noexcept override { return threads_.size(); }
  IoThread& at(std::size_t index) noexcept override { return *threads_[index]; }
  IoThread& pick() noexcept override;
  void stop() override;

  const std::vector<std::shared_ptr<IoThreadImpl>>& threads() const noexcept { return threads_; }

 private:
  std::vector<std::shared_ptr<IoThreadImpl>> threads_{};
};

/// The thread with the fewest connections; the first of equal ones.
const std::shared_ptr<IoThreadImpl>& pick_thread(
    const std::vector<std::shared_ptr<IoThreadImpl>>& threads) noexcept;

/// What the servers and clients of this library keep of a pool: its threads outlive the pool object
/// as long as somebody refers to them.
inline const std::vector<std::shared_ptr<IoThreadImpl>>& threads_of(IoPool& pool) noexcept {
  return static_cast<IoPoolImpl&>(pool).threads();
}

}  // namespace tenon::net
