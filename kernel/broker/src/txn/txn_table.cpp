#include "txn/txn_table.h"

#include <algorithm>
#include <functional>

namespace tenon::broker {
namespace {

/// Transactions that were given up and may still be decided.
constexpr std::size_t kGivenUpMax = 100'000;

}  // namespace

void TxnTable::reset(std::int64_t half_floor, std::int64_t op_floor) {
  *this = TxnTable{};
  floor_ = half_floor;
  next_op_ = op_floor;
}

void TxnTable::op_read(std::int64_t op_offset, const std::vector<std::int64_t>& halves) {
  std::int64_t highest = -1;
  for (const std::int64_t half : halves) {
    highest = std::max(highest, half);
    if (half >= floor_) {
      done_.insert(half);
    }
  }
  op_written(op_offset, highest);
}

void TxnTable::half_read(std::int64_t offset, std::int64_t root, std::string_view uniq_key) {
  if (root != offset) {
    copies_read_.emplace_back(offset, root);
  } else if (!uniq_key.empty() && undecided(offset)) {
    aliases_[std::hash<std::string_view>{}(uniq_key)] = root;
  }
}

void TxnTable::linked() {
  std::unordered_set<std::int64_t> decided;
  for (const auto& [offset, root] : copies_read_) {
    if (done_.contains(offset) || (root >= floor_ && done_.contains(root))) {
      decided.insert(root);
    }
  }
  // A copy makes every earlier record of its transaction done; a decision makes all of them done.
  for (const auto& [offset, root] : copies_read_) {
    if (root >= floor_) {
      done_.insert(root);
    }
    if (decided.contains(root)) {
      done_.insert(offset);
      continue;
    }
    const auto [at, first] = known_.try_emplace(root, Known{offset, 0});
    if (!first) {
      done_.insert(at->second.latest);
      at->second.latest = offset;
    }
  }
  copies_read_ = {};
  done(floor_ - 1);
}

std::optional<std::int64_t> TxnTable::latest(std::int64_t root) const {
  const auto known = known_.find(root);
  if (known != known_.end()) {
    return known->second.latest;
  }
  if (undecided(root) || given_up_.contains(root)) {
    return root;
  }
  return std::nullopt;
}

std::int64_t TxnTable::root_of(std::int64_t root, std::string_view uniq_key) const {
  if (aliases_.empty() || uniq_key.empty() || latest(root)) {
    return root;
  }
  const auto alias = aliases_.find(std::hash<std::string_view>{}(uniq_key));
  return alias == aliases_.end() ? root : alias->second;
}

void TxnTable::done(std::int64_t offset) {
  if (offset >= floor_) {
    done_.insert(offset);
  }
  floor_ = done_.next_gap(floor_);
  done_.erase_below(floor_);
}

void TxnTable::resolve(std::int64_t root, std::int64_t latest) {
  known_.erase(root);
  given_up_.erase(root);
  done(latest);
}

void TxnTable::give_up(std::int64_t root, std::int64_t latest) {
  resolve(root, latest);
  given_up_.insert(root);
  given_up_order_.push_back(root);
  if (given_up_order_.size() > kGivenUpMax) {
    given_up_.erase(given_up_order_.front());
    given_up_order_.pop_front();
  }
}

void TxnTable::moved(std::int64_t root, std::int64_t from, std::int64_t to) {
  Known& known = known_[root];
  known.latest = to;
  ++known.visits;
  done(from);
}

std::uint32_t TxnTable::visit(std::int64_t root, std::int64_t latest) {
  Known& known = known_.try_emplace(root, Known{latest, 0}).first->second;
  return known.visits++;
}

std::uint32_t TxnTable::visits(std::int64_t root) const {
  const auto known = known_.find(root);
  return known == known_.end() ? 0 : known->second.visits;
}

void TxnTable::drop_below(std::int64_t offset) {
  if (offset <= floor_) {
    return;
  }
  std::erase_if(known_, [&](const auto& entry) { return entry.second.latest < offset; });
  floor_ = done_.next_gap(offset);
  done_.erase_below(floor_);
}

void TxnTable::op_written(std::int64_t op_offset, std::int64_t highest_half) {
  next_op_ = std::max(next_op_, op_offset + 1);
  ops_.push_back({op_offset, highest_half});
}

std::int64_t TxnTable::op_floor() {
  while (!ops_.empty() && ops_.front().highest_half < floor_) {
    ops_.pop_front();
  }
  return ops_.empty() ? next_op_ : ops_.front().offset;
}

}  // namespace tenon::broker
