#include "serial_worker.h"

namespace tenon::sdk {

void SerialWorker::post(std::function<void()> fn) {
  const std::scoped_lock lock(mutex_);
  if (stopped_) {
    return;
  }
  queue_.push_back(std::move(fn));
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { loop(); });
  }
  changed_.notify_one();
}

void SerialWorker::loop() {
  loop_thread_.store(std::this_thread::get_id());
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
    if (stopped_) {
      return;
    }
    std::function<void()> fn = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    fn();
    fn = nullptr;
    lock.lock();
  }
}

void SerialWorker::stop() {
  std::deque<std::function<void()>> dropped;
  std::thread thread;
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
    dropped.swap(queue_);
    changed_.notify_all();
    thread.swap(thread_);
  }
  if (thread.joinable()) {
    thread.join();
  }
}

}  // namespace tenon::sdk
