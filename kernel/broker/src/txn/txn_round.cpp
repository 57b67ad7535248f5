// One look at every undecided transaction: the plug-in decides, the service copies, asks and gives up
// (spec: broker §13.3 to §13.5; plug-in ABI §17).
#include "append/put.h"
#include "txn/txn_service.h"

#include "tenon/base/log.h"

#include <array>
#include <span>
#include <utility>

namespace tenon::broker {
namespace {

/// A record that is left where it is holds the saved position back. One that lies further behind the
/// end is copied to it, uncharged, so that a start has a bounded stretch to read.
constexpr std::int64_t kStretchMax = 1'000'000;

}  // namespace

void TxnService::check_round() {
  Round round;
  round.start_ms = d_.clock.wall_ms();
  const tenon_queue queue = d_.log.queue_of(*half_topic_, 0);
  const tenon_queue_bounds bounds = d_.log.bounds(queue);
  round.end = bounds.max_offset;
  QueueSlice slice;
  Records records(d_.log);
  std::int64_t at = bounds.min_offset;
  while (!round.stop && !stopping_.load()) {
    {
      const std::scoped_lock lock(mutex_);
      table_.drop_below(bounds.min_offset);
      at = table_.next_undecided(at);
    }
    if (at >= round.end || !read_entries(d_.log, queue, at, slice)) {
      break;
    }
    check_slice(round, slice, records);
    at = slice.first + static_cast<std::int64_t>(slice.n);
  }
  again_soon_ = round.again_soon;
  if (round.asked + round.given_up > 0) {
    log_debug("broker",
              "undecided transactions checked asked={} left={} given_up={} took_ms={}",
              round.asked,
              round.kept,
              round.given_up,
              d_.clock.wall_ms() - round.start_ms);
  }
}

void TxnService::check_slice(Round& round, const QueueSlice& slice, Records& records) {
  std::array<tenon_extent, QueueSlice::kMax> extents{};
  std::array<std::int64_t, QueueSlice::kMax> offsets{};
  std::size_t n = 0;
  {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = 0; i < slice.n; ++i) {
      const std::int64_t offset = slice.first + static_cast<std::int64_t>(i);
      if (offset < round.end && table_.undecided(offset)) {
        offsets[n] = offset;
        extents[n++] = {slice.entries[i].phys, slice.entries[i].bytes, 0};
      }
    }
  }
  if (n == 0) {
    return;
  }
  records.fetch({extents.data(), n});
  std::vector<Candidate> candidates;
  std::array<tenon_half, QueueSlice::kMax> halves{};
  for (std::size_t i = 0; i < n; ++i) {
    const auto record = records.record(i);
    const auto half = record ? read_half(*record) : std::optional<Half>{};
    if (!half) {
      log_error("broker", "half record unreadable, passed over queue_offset={}", offsets[i]);
      const std::scoped_lock lock(mutex_);
      table_.resolve(offsets[i], offsets[i]);
      continue;
    }
    const bool group_online = online(round, half->group);
    const std::scoped_lock lock(mutex_);
    halves[candidates.size()] = describe(*half, group_online);
    candidates.push_back({*half, offsets[i], 0, nullptr});
  }
  tenon_txn_round r{};
  r.size = sizeof r;
  r.flags = TENON_ROUND_OP_EXHAUSTED;  // every op record is known at all times
  r.now_ms = d_.clock.wall_ms();
  r.round_start_ms = round.start_ms;
  std::array<tenon_half_verdict, QueueSlice::kMax> verdicts{};
  if (!d_.checker->decide(
          r, {halves.data(), candidates.size()}, {verdicts.data(), candidates.size()})) {
    round.stop = true;
    return;
  }
  std::vector<Candidate> list;
  for (std::size_t i = 0; i < candidates.size() && !round.stop; ++i) {
    judge(round, candidates[i], verdicts[i].action, halves[i]);
    if (candidates[i].action != TENON_TXN_SKIP) {
      list.push_back(std::move(candidates[i]));
    }
  }
  requeue(round, list);
}

bool TxnService::online(Round& round, std::string_view group) const {
  const auto [at, fresh] = round.online.try_emplace(std::string(group), false);
  if (fresh) {
    at->second = check_back_.online(group);
  }
  return at->second;
}

/// Sets what is to be done with the record: CHECK or LATER put a copy at the end, SKIP leaves it.
void TxnService::judge(Round& round, Candidate& c, std::uint32_t verdict, const tenon_half& half) {
  c.action = TENON_TXN_SKIP;
  if (verdict == TENON_TXN_EXHAUSTED) {
    const std::uint32_t what = d_.checker->exhausted(half);
    if (what != TENON_EXHAUSTED_KEEP) {
      if (give_up(round, c, what)) {
        d_.checker->resolved(half, TENON_TXN_EXPIRED);
      }
      return;
    }
    verdict = TENON_TXN_CHECK;
  }
  if (verdict == TENON_TXN_CHECK) {
    bool busy = false;
    c.producer = check_back_.next(c.half.group, busy);
    round.again_soon = round.again_soon || busy;
    if (c.producer != nullptr) {
      c.action = TENON_TXN_CHECK;
      return;
    }
    // Nobody to ask: not charged.
  } else if (verdict != TENON_TXN_LATER && verdict != TENON_TXN_SKIP) {
    round.stop = true;
    return;
  }
  ++round.kept;
  if (round.end - c.offset > kStretchMax) {
    c.action = TENON_TXN_LATER;
    return;
  }
  const std::scoped_lock lock(mutex_);
  if (table_.undecided(c.offset)) {
    table_.visit(c.half.root, c.offset);
  }
}

bool TxnService::give_up(Round& round, const Candidate& c, std::uint32_t what) {
  if (what == TENON_EXHAUSTED_COMMIT && !d_.config.transaction_commit_exhausted) {
    log_warn("broker",
             "a check plug-in may not commit by itself, transaction moved aside instead topic={} "
             "group={} half_offset={}",
             c.half.real_topic,
             c.half.group,
             c.offset);
    what = TENON_EXHAUSTED_TOPIC;
  }
  const std::scoped_lock lock(mutex_);
  if (!table_.undecided(c.offset)) {
    return false;
  }
  tenon_status status = 0;
  if (what == TENON_EXHAUSTED_COMMIT) {
    status = store_commit(c.half, c.offset);
  } else {
    if (what != TENON_EXHAUSTED_ROLLBACK && what != TENON_EXHAUSTED_DROP) {
      status = move_aside(c.half);
    }
    status = status < 0 ? status : note_decision(c.offset);
  }
  if (status < 0) {
    log_error("broker",
              "transaction not given up, tried again later half_offset={} status={}",
              c.offset,
              status);
    ++round.kept;
    return false;
  }
  ++round.given_up;
  log_info("broker",
           "transaction given up how={} topic={} group={} half_offset={} checks={}",
           what,
           c.half.real_topic,
           c.half.group,
           c.offset,
           c.half.checks);
  if (what == TENON_EXHAUSTED_TOPIC) {
    table_.give_up(c.half.root, c.offset);
  } else {
    table_.resolve(c.half.root, c.offset);
  }
  return true;
}

/// With all its properties to the topic for given-up transactions (DefaultTransactionalMessageCheckListener).
tenon_status TxnService::move_aside(const Half& half) {
  proto::TopicConfig config;
  config.name = kCheckMaxTopic;
  config.read_queue_count = 1;
  config.write_queue_count = 1;
  const TopicPtr topic = d_.topics.add_if_absent(std::move(config));
  proto::MessageRecord m = record_of(half.record);
  m.properties = half.record.properties;
  return put_message(d_.log, *topic, m).status;
}

void TxnService::requeue(Round& round, std::vector<Candidate>& list) {
  std::vector<std::string> properties(list.size());
  std::vector<proto::MessageRecord> copies(list.size());
  std::vector<tenon_record> records;
  std::vector<std::size_t> taken;
  std::vector<tenon_append_result> results;
  {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Half& half = list[i].half;
      if (!table_.undecided(list[i].offset)) {
        continue;
      }
      const std::uint32_t asked = list[i].action == TENON_TXN_CHECK ? 1 : 0;
      properties[i] = copy_properties(half, half.checks + asked);
      copies[i] = record_of(half.record);
      copies[i].properties = properties[i];
      records.push_back(to_record(kHalfTopic, 0, copies[i]));
      taken.push_back(i);
    }
    if (records.empty()) {
      return;
    }
    results.resize(records.size());
    d_.log.append(records, results);
    for (std::size_t k = 0; k < taken.size(); ++k) {
      if (results[k].status >= 0) {
        table_.moved(list[taken[k]].half.root, list[taken[k]].offset, results[k].queue_offset);
      }
    }
  }
  for (std::size_t k = 0; k < taken.size(); ++k) {
    const Candidate& c = list[taken[k]];
    if (results[k].status < 0) {
      ++round.kept;
    } else if (c.producer != nullptr) {
      proto::MessageRecord copy = copies[taken[k]];
      copy.queue_offset = results[k].queue_offset;
      copy.phys_offset = static_cast<std::int64_t>(results[k].phys);
      copy.store_ms = results[k].store_ms;
      check_back_.send(c.producer, c.half, copy);
      ++round.asked;
    }
  }
}

}  // namespace tenon::broker
