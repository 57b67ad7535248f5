#include "send_op.h"

namespace tenon::sdk::detail {

std::size_t pick_round_robin(const TopicInfo& info,
                             std::atomic<std::uint32_t>& counter,
                             std::int64_t last_broker) {
  const std::size_t n = info.publish.size();
  if (last_broker >= 0) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t at = counter.fetch_add(1, std::memory_order_relaxed) % n;
      if (info.publish[at].broker != static_cast<std::uint64_t>(last_broker)) {
        return at;
      }
    }
  }
  return counter.fetch_add(1, std::memory_order_relaxed) % n;
}

void SendOp::reset() {
  done.reset();
  topic.clear();
  shown_topic.clear();
  body = std::string();
  properties.clear();
  id.clear();
  sharding_key.clear();
  extra_properties.clear();
  extra_flags = 0;
  deferred.reset();
  header = SendHeader();
  fixed_queue = false;
  by_key = false;
  fixed_broker.clear();
  attempts = 0;
  may_switch = false;
  told = false;
  seen = false;
  outcome_unknown = false;
  slot.reset();
  last_broker.clear();
  brokers_sent.clear();
}

SendOp* SendOpPool::acquire() {
  const std::scoped_lock lock(mutex_);
  if (free_ == nullptr) {
    slabs_.push_back(std::make_unique<SendOp[]>(kSlab));
    for (std::size_t i = 0; i < kSlab; ++i) {
      SendOp& op = slabs_.back()[i];
      op.next_free = free_;
      free_ = &op;
    }
  }
  SendOp* op = free_;
  free_ = op->next_free;
  return op;
}

void SendOpPool::release(SendOp* op) {
  const std::scoped_lock lock(mutex_);
  op->next_free = free_;
  free_ = op;
}

}  // namespace tenon::sdk::detail
