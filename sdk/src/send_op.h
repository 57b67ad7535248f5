// One send from the call to its result: message in wire form, attempts, deadline. Pooled, so that
// the steady state does not allocate (architecture: "Client side the same way").
#pragma once

#include "identity.h"
#include "plugins.h"
#include "retry.h"
#include "send_header.h"
#include "topic_info.h"

#include "tenon/sdk/producer.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::sdk::detail {

class ProducerCore;

/// What a producer knows about sending to a topic; replaced as a whole when the route changes.
struct TopicSlot {
  TopicInfoPtr info{};
  std::vector<SendHeaderFixed> heads{};  ///< by broker index
  std::vector<Queue> queues{};           ///< the publish list for selectors
  bool several_brokers = false;          ///< in the publish list
  std::unique_ptr<SelectorPlugin::QueueSet> plugin_set{};
  std::atomic<std::uint32_t> counter{0};
};
using TopicSlotPtr = std::shared_ptr<TopicSlot>;

/// Round robin (spec: client §4.8): on a retry the next queue of another broker, if there is one.
/// @param last_broker  index of the broker of the previous attempt, or -1
std::size_t pick_round_robin(const TopicInfo& info,
                             std::atomic<std::uint32_t>& counter,
                             std::int64_t last_broker);

/// What the SDK itself adds to a message: transactions, requests, replies.
struct SendExtras {
  std::string properties{};  ///< in wire form
  std::int32_t sys_flag = 0;
  bool reply = false;
};

struct SendOp {
  enum State : std::uint8_t { kFree, kActive, kCompleting, kDone };
  /// A message whose queue a callable will choose once the route is known.
  struct Deferred {
    Message message{};
    Selector select{};
  };

  std::atomic<std::uint8_t> state{kFree};
  SendOp* next_free = nullptr;
  ProducerCore* producer = nullptr;
  std::shared_ptr<ProducerCore> keep{};  ///< while in flight
  Producer::Callback done{};

  std::string topic{};        ///< as servers call it
  std::string shown_topic{};  ///< as the program calls it; empty: the same
  std::string body{};
  std::size_t counted_bytes = 0;  ///< of the body as the program gave it
  std::string properties{};
  std::string id{};  ///< UNIQ_KEY; batch: joined by commas
  std::string sharding_key{};
  std::string extra_properties{};  ///< in wire form, behind those of the message
  std::int32_t extra_flags = 0;    ///< of sysFlag
  std::unique_ptr<Deferred> deferred{};
  SendHeader header{};

  SendForm form = SendForm::kBlocking;
  bool fixed_queue = false;
  bool by_key = false;  ///< the queue is chosen by the hash of sharding_key, one attempt
  std::string fixed_broker{};
  int attempts = 0;
  bool may_switch = false;   ///< this attempt gives up when there is no connection for a short time
  bool told = false;         ///< one-way: the caller has returned, `done` is gone
  bool seen = false;         ///< hooks or the trace look at this attempt
  std::int64_t seen_ms = 0;  ///< when it began
  bool outcome_unknown = false;
  std::uint64_t begin_ns = 0;
  std::uint64_t deadline_ns = 0;
  std::uint64_t attempt_ns = 0;
  TopicSlotPtr slot{};
  std::uint32_t broker = 0;    ///< of this attempt, index into slot->info->brokers
  std::string last_broker{};   ///< name, of the previous attempt
  std::string brokers_sent{};  ///< for the error text

  void reset();
};

/// Memory of operations. Thread: any.
class SendOpPool {
 public:
  SendOp* acquire();
  void release(SendOp* op);
  template <class F>
  void for_each(F&& fn) {
    const std::scoped_lock lock(mutex_);
    for (const auto& slab : slabs_) {
      for (std::size_t i = 0; i < kSlab; ++i) {
        fn(slab[i]);
      }
    }
  }

 private:
  static constexpr std::size_t kSlab = 64;
  std::mutex mutex_;
  SendOp* free_ = nullptr;
  std::vector<std::unique_ptr<SendOp[]>> slabs_;
};

}  // namespace tenon::sdk::detail
