// Transactions: takes decisions (END_TRANSACTION), asks producers about undecided ones, keeps the
// positions of both (spec: broker §13, store §20).
#pragma once

#include "append/log.h"
#include "client/producers.h"
#include "meta/offsets.h"
#include "meta/topics.h"
#include "txn/check_back.h"
#include "txn/half.h"
#include "txn/log_reader.h"
#include "txn/txn_checker.h"
#include "txn/txn_table.h"

#include "tenon/base/clock.h"
#include "tenon/base/result.h"
#include "tenon/broker/config.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

namespace tenon::broker {

/// A producer's decision.
struct EndTransaction {
  std::string_view group{};
  std::int64_t table_offset = 0;  ///< queue offset of the half
  std::int64_t log_offset = 0;    ///< its position in the log
  bool commit = false;
};
enum class EndResult : std::uint8_t {
  kDone,              ///< also when it was decided before
  kNotFound,          ///< no half there
  kGroupWrong,        ///< of another producer group
  kTableOffsetWrong,  ///< the half has another queue offset
  kLogOffsetWrong,
  kPutFailed  ///< the message could not be stored, see status; the transaction stays undecided
};
struct EndAnswer {
  EndResult result = EndResult::kDone;
  tenon_status status = 0;
  bool repeated = false;  ///< it was decided before; nothing was done
};

struct TxnDeps {
  const BrokerConfig& config;
  const Clock& clock;
  const proto::HostAddr& store_host;  ///< of this broker, read after load()
  Log& log;
  Topics& topics;
  Offsets& offsets;
  Producers& producers;
  TxnChecker* checker = nullptr;  ///< null: undecided transactions are never asked about
};

/// Life cycle: load() → start() → stop() → destructor.
class TxnService {
 public:
  explicit TxnService(TxnDeps deps);
  ~TxnService() { stop(); }
  TxnService(const TxnService&) = delete;
  TxnService& operator=(const TxnService&) = delete;

  /// Reads what is undecided from the store, creates the topics. Thread: start; blocks on the disk.
  Result<> load();
  void start();
  void stop();  ///< joins, writes what waits to be written; idempotent

  /// Thread: a worker; may read the disk. The answer says what was wrong.
  EndAnswer end(const EndTransaction& request);
  /// Puts a message back as a new half that was never asked about (RESUME_CHECK_HALF_MESSAGE).
  /// Thread: a worker. @return false if there is none or it cannot be stored
  bool resume(std::int64_t phys);

  /// One look at every undecided transaction. Thread: the service's, or a test without start().
  void check_round();

 private:
  // txn_service.cpp
  std::int64_t plan(std::int64_t from_ms);
  void run(std::int64_t next_ms);
  void tick();
  bool wait(std::int64_t until_ms);
  // txn_recovery.cpp
  using ByPhys = std::unordered_map<std::int64_t, std::int64_t>;  ///< position in the log → root
  Result<> wait_for_index() const;
  void load_ops(std::int64_t from);
  ByPhys load_halves(std::int64_t from, std::int64_t end);
  void find_commits_without_op(const ByPhys& undecided);
  std::uint64_t walk_start(std::uint64_t end) const;
  std::uint64_t walk(std::uint64_t phys, const ByPhys& undecided);
  void save_positions(bool at_once);
  // txn_decide.cpp; with the lock held
  EndAnswer decide(const Half& half, bool commit);
  tenon_status store_commit(const Half& half, std::int64_t latest);
  tenon_status note_decision(std::int64_t latest);
  tenon_status write_ops(const std::vector<std::int64_t>& halves);
  proto::MessageRecord op_record(std::string_view body) const;
  void op_stored(const tenon_append_result& result, std::int64_t highest_half);
  void flush_ops();
  tenon_half describe(const Half& half, bool online) const;
  // txn_round.cpp
  struct Candidate {
    Half half{};
    std::int64_t offset = 0;
    std::uint32_t action = 0;
    net::ConnectionPtr producer{};  ///< whom to ask
  };
  struct Round {
    std::int64_t start_ms = 0;
    std::int64_t end = 0;  ///< the half queue's end when the round began
    bool stop = false;
    bool again_soon = false;
    std::uint64_t asked = 0, kept = 0, given_up = 0;
    std::unordered_map<std::string, bool> online{};  ///< by producer group
  };
  void check_slice(Round& round, const QueueSlice& slice, Records& records);
  bool online(Round& round, std::string_view group) const;
  void judge(Round& round, Candidate& c, std::uint32_t verdict, const tenon_half& half);
  bool give_up(Round& round, const Candidate& c, std::uint32_t what);
  tenon_status move_aside(const Half& half);
  void requeue(Round& round, std::vector<Candidate>& list);

  TxnDeps d_;
  CheckBack check_back_;
  const Topic* half_topic_ = nullptr;
  TopicPtr half_topic_owner_{};

  std::mutex mutex_;  ///< table, op records: held while a decision or a copy is appended
  TxnTable table_{};
  std::vector<std::int64_t> waiting_ops_{};
  std::size_t waiting_bytes_ = 0;
  std::int64_t waiting_since_ms_ = 0;
  std::int64_t newest_op_ms_ = 0;

  struct Positions {
    std::int64_t half = -1;
    std::int64_t op = -1;
    std::uint64_t log_end = 0;
  };
  Positions due_{};    ///< to be saved when the log is durable up to log_end
  Positions saved_{};  ///< thread: the service's
  bool again_soon_ = false;

  std::mutex wait_mutex_;
  std::condition_variable wake_;
  std::atomic<bool> stopping_{false};
  bool loaded_ = false;
  std::thread thread_{};
};

}  // namespace tenon::broker
