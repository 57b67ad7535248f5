// The state of transactions and the texts of their records, without a broker.
#include "txn/txn_table.h"

#include "../../../support/seed.h"
#include "txn/half.h"
#include "txn/offset_set.h"

#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

using namespace tenon;
using namespace tenon::broker;

TEST_SUITE("broker/txn_table") {
  TEST_CASE("an offset set says the same as a set of numbers") {
    std::mt19937 random(tenon::test::seed_of_run());
    OffsetSet set;
    std::set<std::int64_t> model;
    for (int i = 0; i < 4000; ++i) {
      const std::int64_t offset = static_cast<std::int64_t>(random() % 300);
      if (random() % 50 == 0) {
        set.erase_below(offset);
        model.erase(model.begin(), model.lower_bound(offset));
      } else {
        set.insert(offset);
        model.insert(offset);
      }
      const std::int64_t asked = static_cast<std::int64_t>(random() % 300);
      std::int64_t gap = asked;
      while (model.contains(gap)) {
        ++gap;
      }
      REQUIRE(set.contains(asked) == model.contains(asked));
      REQUIRE(set.next_gap(asked) == gap);
    }
    std::size_t runs = 0;
    for (const std::int64_t offset : model) {
      runs += model.contains(offset - 1) ? 0 : 1;
    }
    CHECK(set.runs() == runs);
  }

  TEST_CASE("the floor follows decisions, whatever their order") {
    TxnTable t;
    t.reset(10, 5);
    t.linked();
    CHECK(t.floor() == 10);
    CHECK(t.latest(12) == 12);
    t.op_written(5, 12);
    t.resolve(12, 12);
    CHECK_FALSE(t.latest(12).has_value());
    CHECK(t.floor() == 10);
    CHECK(t.op_floor() == 5);
    t.op_written(6, 11);
    t.resolve(11, 11);
    t.op_written(7, 10);
    t.resolve(10, 10);
    CHECK(t.floor() == 13);
    CHECK(t.op_floor() == 8);
    CHECK_FALSE(t.latest(10).has_value());  // below the floor: decided
    CHECK(t.next_undecided(0) == 13);
  }

  TEST_CASE("a copy stands for its transaction until it is decided") {
    TxnTable t;
    t.reset(0, 0);
    t.linked();
    t.moved(3, 3, 8);
    t.moved(3, 8, 9);
    CHECK_FALSE(t.undecided(3));
    CHECK_FALSE(t.undecided(8));
    CHECK(t.undecided(9));
    CHECK(t.latest(3) == 9);
    t.resolve(3, 9);
    CHECK_FALSE(t.undecided(9));
    CHECK_FALSE(t.latest(3).has_value());
  }

  TEST_CASE("what was given up is decided once, late") {
    TxnTable t;
    t.reset(0, 0);
    t.linked();
    t.give_up(0, 0);
    CHECK(t.floor() == 1);
    CHECK(t.latest(0) == 0);
    t.resolve(0, 0);
    CHECK_FALSE(t.latest(0).has_value());
  }

  TEST_CASE("copies are linked to their originals when a store is read") {
    TxnTable t;
    // Saved: 20. Copies of 4 at 20 and 23, of 21 at 24; 22 was decided; 25 is a decided copy of 6.
    t.reset(20, 7);
    t.op_read(7, {22, 25});
    t.half_read(20, 4, {});
    t.half_read(21, 21, {});
    t.half_read(22, 22, {});
    t.half_read(23, 4, {});
    t.half_read(24, 21, {});
    t.half_read(25, 6, {});
    t.half_read(26, 6, {});
    t.half_read(27, 27, "UNLINKED");
    t.linked();
    CHECK(t.floor() == 23);
    CHECK(t.latest(4) == 23);
    CHECK(t.latest(21) == 24);
    CHECK_FALSE(t.latest(6).has_value());
    CHECK_FALSE(t.undecided(26));
    CHECK(t.op_floor() == 7);
    // Java's copy without a link: its original is known by the unique key.
    CHECK(t.root_of(2, "UNLINKED") == 27);
    CHECK(t.root_of(2, "OTHER") == 2);
    t.resolve(27, 27);
    CHECK_FALSE(t.latest(t.root_of(2, "UNLINKED")).has_value());
  }

  TEST_CASE("op records are read in the forms of 4.x and 5.x") {  // broker §23.51, store §26.23
    std::vector<std::int64_t> out;
    CHECK(parse_op_body("17", out));
    CHECK(parse_op_body("18,19,2000000000000,", out));
    CHECK(parse_op_body(",,20,,", out));
    CHECK(out == std::vector<std::int64_t>{17, 18, 19, 2'000'000'000'000, 20});
    CHECK_FALSE(parse_op_body("x,21,-3,9223372036854775807", out));
    CHECK(out.back() == 21);
    const std::vector<std::int64_t> one{7};
    const std::vector<std::int64_t> three{7, 8, 9};
    CHECK(op_body(one, false) == "7");
    CHECK(op_body(three, true) == "7,8,9,");
  }

  TEST_CASE("properties of a copy, of the committed message and of a fresh start") {
    const auto text = [](std::string_view name, std::string_view value) {
      return std::string(name) + '\x01' + std::string(value) + '\x02';
    };
    const std::string properties = text("REAL_TOPIC", "T") + text("REAL_QID", "3") +
                                   text("PGROUP", "PG") + text("UNIQ_KEY", "U") +
                                   text("CHECK_IMMUNITY_TIME_IN_SECONDS", "120") +
                                   text("TRANSACTION_CHECK_TIMES", "2") +
                                   text("TRAN_PREPARED_QUEUE_OFFSET", "5") + "WAIT\x01true";
    proto::MessageView record;
    record.topic = kHalfTopic;
    record.queue_offset = 40;
    record.properties = properties;
    const auto half = read_half(record);
    REQUIRE(half.has_value());
    CHECK(half->root == 5);
    CHECK(half->checks == 2);
    CHECK(half->immunity_s == 120);
    CHECK(half->real_queue_id == 3);
    CHECK(half->is_copy());
    const std::string copy = copy_properties(*half, 3);
    CHECK(proto::find_property(copy, "TRANSACTION_CHECK_TIMES") == "3");
    CHECK(proto::find_property(copy, "TRAN_PREPARED_QUEUE_OFFSET") == "5");
    CHECK(proto::find_property(copy, "WAIT") == "true");
    const std::string commit = commit_properties(*half);
    CHECK_FALSE(proto::find_property(commit, "TRAN_PREPARED_QUEUE_OFFSET").has_value());
    CHECK(proto::find_property(commit, "TRANSACTION_CHECK_TIMES") == "2");
    const std::string fresh = fresh_properties(properties);
    CHECK(proto::find_property(fresh, "TRANSACTION_CHECK_TIMES") == "0");
    CHECK_FALSE(proto::find_property(fresh, "TRAN_PREPARED_QUEUE_OFFSET").has_value());
  }

  TEST_CASE("a link forward, a broken count and a broken immunity are not believed") {
    const std::string properties =
        "REAL_TOPIC\x01T\x02REAL_QID\x01"
        "0\x02TRANSACTION_CHECK_TIMES\x01-4\x02TRAN_PREPARED_QUEUE_OFFSET\x01"
        "41\x02"
        "CHECK_IMMUNITY_TIME_IN_SECONDS\x01soon";
    proto::MessageView record;
    record.topic = kHalfTopic;
    record.queue_offset = 40;
    record.properties = properties;
    const auto half = read_half(record);
    REQUIRE(half.has_value());
    CHECK(half->root == 40);
    CHECK(half->checks == 0);
    CHECK(half->immunity_s == -1);
    record.topic = "T";
    CHECK_FALSE(read_half(record).has_value());
  }
}
