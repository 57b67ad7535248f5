// The three passes of inspect(): the log with the entries of the index beside it, the chains of the
// index, the queues.
#pragma once

#include "tenon/store_tool/inspect.h"
#include "tenon/store_tool/log_walk.h"

#include <string>
#include <utility>
#include <vector>

namespace tenon::store_tool {

/// The entries of all index files in order.
class IndexStream {
 public:
  explicit IndexStream(const Folder& folder);
  bool done() const noexcept { return file_ >= folder_.index().size(); }
  const store_format::IndexItem& head() const noexcept { return item_; }
  const IndexFileView& file() const noexcept { return folder_.index()[file_]; }
  std::uint32_t number() const noexcept { return number_; }
  void advance();
  /// The record of the newest entry.
  std::uint64_t last_phys() const noexcept { return last_phys_; }

 private:
  void load();
  const Folder& folder_;
  std::size_t file_ = 0;
  std::uint32_t number_ = 0;
  std::uint64_t last_phys_ = 0;
  store_format::IndexItem item_{};
};

class Inspector {
 public:
  Inspector(const Folder& folder, const InspectOptions& options);
  Result<Inspection> run();

 private:
  struct Range {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
  };
  struct ExpectedKey {
    std::int32_t hash = 0;
    std::string key{};
    bool seen = false;
  };

  // inspect_log.cpp
  Result<> walk_log();
  void see_record(const Frame& frame);
  void see_queue(const proto::MessageView& m);
  void see_bad(const Frame& frame);
  void choose_cut();
  std::uint64_t recovery_start() const;
  // inspect_index.cpp
  void match_index(const proto::MessageView& m);
  void match_entry(const proto::MessageView& m);
  void foreign_entries(std::uint64_t below);
  void finish_index();
  void check_chains();
  void check_chain(const IndexFileView& view);
  Finding at_entry(std::string_view kind) const;
  // inspect_queue.cpp
  Result<> walk_queues();
  void walk_queue(const QueueFiles& files, QueueState& state);
  void check_unit(const QueueFiles& files,
                  QueueState& state,
                  std::int64_t offset,
                  const store_format::Unit& unit);
  std::string differs(const QueueFiles& files,
                      std::int64_t offset,
                      const store_format::Unit& unit,
                      const proto::MessageView& m) const;
  void check_end(const QueueFiles& files, QueueState& state);
  void missing_queues();
  Finding at_unit(const QueueFiles& files, std::int64_t offset, std::string_view kind) const;

  Severity lag() const noexcept {
    return folder_.abort() || folder_.snapshot() ? Severity::kWarning : Severity::kError;
  }
  bool is_damaged(std::uint64_t pos) const noexcept;
  bool report_progress(std::uint64_t done);
  void add(Finding finding) { findings_.add(std::move(finding)); }
  Finding at_log(std::uint64_t pos, std::string_view kind, Severity severity) const;

  const Folder& folder_;
  const InspectOptions& options_;
  Findings findings_;
  Inspection result_{};
  IndexStream stream_;
  std::vector<Range> damaged_{};         ///< ascending
  std::vector<std::uint64_t> bad_at_{};  ///< where recovery would stop, ascending
  std::uint64_t known_ = 0;              ///< end of the last record that a good unit has
  std::uint64_t unindexed_ = 0;
  std::uint64_t unindexed_from_ = 0;
  std::vector<ExpectedKey> expected_{};
  std::string scratch_{};
  std::uint64_t total_bytes_ = 0;
  bool has_entries_ = false;
  std::uint64_t first_entry_ = 0;
  std::int64_t previous_phys_ = -1;  ///< of the unit before, in the queue at hand
};

}  // namespace tenon::store_tool
