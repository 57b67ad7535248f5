// A check plug-in of an outsider, against the public headers only: a file says what becomes of
// undecided transactions. One word a line, the unique key of the message and what to do:
//
//   0123456789ABCDEF commit      (the broker must allow it: transaction_commit_exhausted)
//   0123456789ABCDF0 drop
//   0123456789ABCDF1 check
//
// The first line that fits counts; a transaction without a line is left alone. The file is read anew
// in every round.
#include "tenon/plugin.hpp"

#include <chrono>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

namespace {

struct TxnFile {
  static constexpr tenon::plugin::About kAbout{.id = "org.example.txn-file",
                                               .version = "1.0.0",
                                               .name = "a file decides about transactions"};
  static constexpr tenon_config_key kKeys[] = {
      tenon::plugin::key("file", TENON_TYPE_STRING, "", "lines of unique key and word"),
      tenon::plugin::key("interval", TENON_TYPE_DURATION, "1s", "between two rounds")};
  using Interfaces = tenon::plugin::Offers<tenon::plugin::TxnCheck>;

  explicit TxnFile(tenon::plugin::Host& host)
      : file(host.config().require<std::string>("file")),
        interval(host.config().get("interval", std::chrono::milliseconds(1'000))) {}

  std::int64_t next_round(std::int64_t now_ms) noexcept { return now_ms + interval.count(); }

  tenon_status decide(const tenon_txn_round*,
                      const tenon_half* first,
                      std::size_t stride,
                      std::size_t n,
                      tenon_half_verdict* out,
                      std::size_t out_stride,
                      tenon_error*) {
    const std::map<std::string, std::string> words = read();
    for (std::size_t i = 0; i < n; ++i) {
      const auto word = words.find(key_of(*TENON_AT(tenon_half, first, stride, i)));
      std::uint32_t action = TENON_TXN_SKIP;
      if (word != words.end()) {
        action = word->second == "check" ? TENON_TXN_CHECK : TENON_TXN_EXHAUSTED;
      }
      TENON_AT_MUT(tenon_half_verdict, out, out_stride, i)->action = action;
    }
    return TENON_OK;
  }

  std::uint32_t exhausted(const tenon_half* half) {
    const std::map<std::string, std::string> words = read();
    const auto word = words.find(key_of(*half));
    if (word == words.end()) {
      return TENON_EXHAUSTED_KEEP;
    }
    return word->second == "commit" ? TENON_EXHAUSTED_COMMIT : TENON_EXHAUSTED_DROP;
  }

 private:
  static std::string key_of(const tenon_half& half) {
    tenon_str value{};
    if (tenon_prop_find(half.properties, tenon::plugin::str("UNIQ_KEY"), &value) == 0) {
      return {};
    }
    return std::string(tenon::plugin::text(value));
  }
  std::map<std::string, std::string> read() const {
    std::map<std::string, std::string> words;
    std::ifstream in(file);
    std::string key;
    std::string word;
    while (in >> key >> word) {
      words.emplace(key, word);
    }
    return words;
  }

  std::string file;
  std::chrono::milliseconds interval;
};

}  // namespace

TENON_PLUGINS(TxnFile);
