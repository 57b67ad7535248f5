// A message that consumers get if and only if a local transaction commits: transact (name servers from NAMESRV_ADDR)
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>

#include <tenon/sdk.h>

using namespace std::chrono_literals;

namespace {

/// Stands for the database of the program, which every member of the group sees.
class Database {
 public:
  bool book(const std::string& order, bool covered) {
    const std::scoped_lock lock(mutex_);
    booked_[order] = covered;
    return covered;
  }
  bool booked(const std::string& order) {
    const std::scoped_lock lock(mutex_);
    return booked_[order];
  }

 private:
  std::mutex mutex_;
  std::map<std::string, bool> booked_;
};

// [listener]
struct Ledger {
  std::shared_ptr<Database> database;

  // Runs when the broker has the message and before anybody sees it.
  tenon::TxState execute(const tenon::Message& message, const tenon::Receipt&) {
    const bool booked = database->book(message.keys[0], message.body != "not covered");
    return booked ? tenon::TxState::kCommit : tenon::TxState::kRollback;
  }
  // The broker asks when it did not hear of the end, maybe another member of the group, so the
  // answer comes from the database and not from this process.
  tenon::TxState check(const tenon::MessageView& message) {
    return database->booked(std::string(message.keys())) ? tenon::TxState::kCommit
                                                         : tenon::TxState::kRollback;
  }
};
// [/listener]

}  // namespace

int main() {
  auto client = tenon::Client::connect().value();
  auto database = std::make_shared<Database>();

  // [transaction]
  auto producer = tenon::TransactionProducer::open(
                      client, {.producer = {.group = "payments"}}, Ledger{database})
                      .value();
  auto paid = producer.send({.topic = "Payments", .body = "paid", .keys = {"o-17"}});
  auto broke = producer.send({.topic = "Payments", .body = "not covered", .keys = {"o-18"}});
  if (!paid || !broke) {
    return 1;
  }
  std::printf("o-17 %s, o-18 %s\n",
              paid->local == tenon::TxState::kCommit ? "committed" : "rolled back",
              broke->local == tenon::TxState::kCommit ? "committed" : "rolled back");
  // [/transaction]

  std::counting_semaphore<> arrived(0);
  bool wrong = false;
  auto consumer =
      tenon::PushConsumer::concurrent(
          client,
          {.group = "delivery", .subscriptions = {{"Payments", {}}}, .start = tenon::FromFirst{}},
          [&](std::span<const tenon::MessageView> batch) {
            wrong = wrong || batch[0].body() != "paid";
            arrived.release();
            return tenon::Ack::success();
          })
          .value();
  const bool got = arrived.try_acquire_for(20s);
  return got && consumer.close() && !wrong && paid->local == tenon::TxState::kCommit &&
                 broke->local == tenon::TxState::kRollback
             ? 0
             : 1;
}
