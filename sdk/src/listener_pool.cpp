#include "listener_pool.h"

#include <algorithm>

namespace tenon::sdk::detail {
namespace {

/// Calls shorter than this are not worth waking another thread for.
constexpr std::int64_t kShortNs = 20'000;

struct Inside {
  explicit Inside(const ListenerPool* p) noexcept
      : pool(p),
        outer(top) {
    top = this;
  }
  ~Inside() { top = outer; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  static std::size_t depth(const ListenerPool* p) noexcept {
    std::size_t n = 0;
    for (const Inside* i = top; i != nullptr; i = i->outer) {
      n += i->pool == p ? 1 : 0;
    }
    return n;
  }
  const ListenerPool* pool;
  Inside* outer;
  static thread_local Inside* top;
};
thread_local Inside* Inside::top = nullptr;

}  // namespace

ListenerPool::ListenerPool(std::size_t threads_max,
                           std::size_t slice_max,
                           Executor executor,
                           Run run)
    : threads_max_(threads_max),
      slice_max_(slice_max),
      executor_(std::move(executor)),
      run_(std::move(run)) {}

ListenerPool::~ListenerPool() {
  stop();
}

void ListenerPool::wake(std::size_t slices) {
  if (executor_) {
    for (std::size_t i = 0; i < slices; ++i) {
      executor_([self = shared_from_this()] {
        std::unique_lock lock(self->mutex_);
        if (!self->queue_.empty()) {
          self->run_locked(lock);
        }
      });
    }
    return;
  }
  // One is enough to begin with: it wakes the next if the calls are long.
  const std::scoped_lock lock(mutex_);
  if (stopped_) {
    return;
  }
  if (sleeping_ > 0) {
    work_.notify_one();
  } else if (threads_.size() < threads_max_) {
    threads_.emplace_back([this] { worker(); });
  }
}

void ListenerPool::submit(std::vector<MessageView> messages, std::shared_ptr<void> context) {
  const std::size_t slices = (messages.size() + slice_max_ - 1) / slice_max_;
  if (slices == 0) {
    return;
  }
  auto job = std::make_shared<ListenerJob>();
  job->messages = std::move(messages);
  job->context = std::move(context);
  {
    const std::scoped_lock lock(mutex_);
    if (stopped_) {
      return;
    }
    queue_.push_back({std::move(job), {}});
  }
  wake(slices);
}

bool ListenerPool::post(std::function<void()> fn) {
  {
    const std::scoped_lock lock(mutex_);
    if (stopped_) {
      return false;
    }
    queue_.push_back({nullptr, std::move(fn)});
  }
  wake(1);
  return true;
}

/// Takes one slice or function off the queue, runs it without the lock, and comes back with it.
void ListenerPool::run_locked(std::unique_lock<std::mutex>& lock) {
  Work work = queue_.front();
  std::span<const MessageView> slice;
  if (work.job) {
    ListenerJob& job = *work.job;
    const std::size_t n = std::min(slice_max_, job.messages.size() - job.taken);
    slice = std::span<const MessageView>(job.messages).subspan(job.taken, n);
    job.taken += n;
    if (job.taken == job.messages.size()) {
      queue_.pop_front();
    }
  } else {
    queue_.pop_front();
  }
  ++running_;
  if (!executor_ && !queue_.empty() && mean_ns_ >= kShortNs) {
    if (sleeping_ > 0) {
      work_.notify_one();
    } else if (threads_.size() < threads_max_ && !stopped_) {
      threads_.emplace_back([this] { worker(); });
    }
  }
  lock.unlock();
  const auto begin = std::chrono::steady_clock::now();
  {
    const Inside inside(this);
    if (work.job) {
      run_(work.job->context, slice);
    } else {
      work.fn();
    }
  }
  const std::int64_t took =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin)
          .count();
  work = Work();
  lock.lock();
  mean_ns_ += (took - mean_ns_) / 8;
  --running_;
  if (draining_ > 0 || stopped_) {
    quiet_.notify_all();
  }
}

void ListenerPool::worker() {
  const auto self = shared_from_this();
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    if (queue_.empty()) {
      ++sleeping_;
      work_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
      --sleeping_;
      continue;
    }
    run_locked(lock);
  }
}

bool ListenerPool::idle_except_own() const {
  return running_ <= Inside::depth(this);
}

bool ListenerPool::drain(std::chrono::milliseconds limit, const std::function<bool()>& settled) {
  std::unique_lock lock(mutex_);
  ++draining_;
  const bool done = quiet_.wait_for(lock, limit, [&] {
    return queue_.empty() && idle_except_own() && (stopped_ || !settled || settled());
  });
  --draining_;
  return done;
}

void ListenerPool::look_again() {
  const std::scoped_lock lock(mutex_);
  quiet_.notify_all();
}

void ListenerPool::stop() {
  std::deque<Work> dropped;
  std::vector<std::thread> threads;
  {
    std::unique_lock lock(mutex_);
    stopped_ = true;
    dropped.swap(queue_);
    threads.swap(threads_);
    work_.notify_all();
    quiet_.wait(lock, [this] { return idle_except_own(); });
  }
  for (std::thread& t : threads) {
    if (t.get_id() == std::this_thread::get_id()) {
      t.detach();  // stopped from inside a listener: this thread ends when the listener returns
    } else {
      t.join();
    }
  }
}

}  // namespace tenon::sdk::detail
