#include "process_queue.h"

#include <algorithm>

namespace tenon::sdk {

void ProcessQueue::put(std::span<const MessageView> messages) {
  const std::scoped_lock lock(mutex_);
  std::size_t added = 0;
  std::size_t added_bytes = 0;
  for (const MessageView& m : messages) {
    Entry e{m.queue_offset(), m.raw_body().size(), 0, m};
    if (entries_.empty() || entries_.back().offset < e.offset) {
      entries_.push_back(std::move(e));
    } else {
      const auto at = std::lower_bound(
          entries_.begin(), entries_.end(), e.offset, [](const Entry& x, std::int64_t offset) {
            return x.offset < offset;
          });
      if (at != entries_.end() && at->offset == e.offset) {
        continue;
      }
      const auto index = static_cast<std::size_t>(at - entries_.begin());
      if (index < taken_) {
        continue;  // before what was taken: too late for the order
      }
      entries_.insert(index, std::move(e));
    }
    offset_max_ = m.queue_offset();
    ++added;
    added_bytes += m.raw_body().size();
  }
  count_.fetch_add(added, std::memory_order_acq_rel);
  bytes_.fetch_add(added_bytes, std::memory_order_acq_rel);
}

ProcessQueue::Entry* ProcessQueue::find(std::int64_t offset) {
  return const_cast<Entry*>(std::as_const(*this).find(offset));
}

const ProcessQueue::Entry* ProcessQueue::find(std::int64_t offset) const {
  const auto at = std::lower_bound(
      entries_.begin(), entries_.end(), offset, [](const Entry& x, std::int64_t wanted) {
        return x.offset < wanted;
      });
  return at != entries_.end() && at->offset == offset && at->message ? &*at : nullptr;
}

std::int64_t ProcessQueue::remove(std::span<const MessageView> messages) {
  const std::scoped_lock lock(mutex_);
  if (entries_.empty()) {
    return -1;
  }
  for (const MessageView& m : messages) {
    if (Entry* e = find(m.queue_offset())) {
      count_.fetch_sub(1, std::memory_order_acq_rel);
      bytes_.fetch_sub(e->bytes, std::memory_order_acq_rel);
      e->message = MessageView();
    }
  }
  while (!entries_.empty() && !entries_.front().message) {
    entries_.pop_front();
  }
  return entries_.empty() ? offset_max_ + 1 : entries_.front().offset;
}

std::vector<MessageView> ProcessQueue::take(std::size_t count_max) {
  const std::scoped_lock lock(mutex_);
  const std::size_t n = std::min(count_max, entries_.size() - taken_);
  std::vector<MessageView> out;
  out.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    out.push_back(entries_[taken_ + i].message);
  }
  taken_ += n;
  return out;
}

std::int64_t ProcessQueue::commit_taken() {
  std::vector<MessageView> gone;  // freed without the lock
  const std::scoped_lock lock(mutex_);
  if (taken_ == 0) {
    return -1;
  }
  gone.reserve(taken_);
  std::size_t bytes = 0;
  const std::int64_t next = entries_[taken_ - 1].offset + 1;
  for (std::size_t i = 0; i < taken_; ++i) {
    bytes += entries_.front().bytes;
    gone.push_back(std::move(entries_.front().message));
    entries_.pop_front();
  }
  count_.fetch_sub(taken_, std::memory_order_acq_rel);
  bytes_.fetch_sub(bytes, std::memory_order_acq_rel);
  taken_ = 0;
  return next;
}

void ProcessQueue::untake(std::size_t count) {
  const std::scoped_lock lock(mutex_);
  taken_ -= std::min(count, taken_);
}

std::size_t ProcessQueue::taken() const {
  const std::scoped_lock lock(mutex_);
  return taken_;
}

std::size_t ProcessQueue::waiting() const {
  const std::scoped_lock lock(mutex_);
  return entries_.size() - taken_;
}

void ProcessQueue::mark_started(std::span<const MessageView> messages, std::int64_t now_ms) {
  const std::scoped_lock lock(mutex_);
  for (const MessageView& m : messages) {
    if (Entry* e = find(m.queue_offset())) {
      e->started_ms = now_ms;
    }
  }
}

std::optional<ProcessQueue::Head> ProcessQueue::head() const {
  const std::scoped_lock lock(mutex_);
  if (entries_.empty()) {
    return std::nullopt;
  }
  return Head{entries_.front().message, entries_.front().started_ms};
}

bool ProcessQueue::contains(std::int64_t queue_offset) const {
  const std::scoped_lock lock(mutex_);
  return find(queue_offset) != nullptr;
}

void ProcessQueue::clear() {
  FrontQueue<Entry> gone;
  {
    const std::scoped_lock lock(mutex_);
    gone.swap(entries_);
    taken_ = 0;
    count_.store(0, std::memory_order_release);
    bytes_.store(0, std::memory_order_release);
  }
}

std::int64_t ProcessQueue::span() const {
  const std::scoped_lock lock(mutex_);
  return entries_.empty() ? 0 : entries_.back().offset - entries_.front().offset;
}

std::int64_t ProcessQueue::min_offset() const {
  const std::scoped_lock lock(mutex_);
  return entries_.empty() ? 0 : entries_.front().offset;
}

std::int64_t ProcessQueue::max_offset() const {
  const std::scoped_lock lock(mutex_);
  return entries_.empty() ? 0 : entries_.back().offset;
}

FlowControl check_flow(const ProcessQueue& queue, const FlowLimits& limits) {
  if (queue.count() > limits.max_messages) {
    return FlowControl::kTooMany;
  }
  if (queue.bytes() / (1024 * 1024) > limits.max_mib) {
    return FlowControl::kTooLarge;
  }
  if (queue.span() > limits.max_span) {
    return FlowControl::kTooWide;
  }
  return FlowControl::kGo;
}

}  // namespace tenon::sdk
