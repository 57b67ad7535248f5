// No allocation per send on the handler path in the steady state: operator new is counted per
// thread while the router takes decoded sends, as an I/O thread hands them over.
#include "broker_rig.h"
#include "counting_new.h"
#include "processors/router.h"

#include <doctest/doctest.h>

#include <future>
#include <string>
#include <vector>

using namespace tenon;
using namespace tenon::broker;
using namespace tenon::broker::test;

namespace {

/// A connection that keeps what is written.
class MemoryConnection final : public net::Connection {
 public:
  explicit MemoryConnection(net::IoThread& thread)
      : Connection(1),
        thread_(thread) {
    peer_ = proto::parse_host_addr("127.0.0.1:4711").value();
    out_.reserve(1 << 20);
  }
  net::IoThread& io_thread() noexcept override { return thread_; }
  std::string& out() noexcept override { return out_; }
  void flush() override {}
  void send(net::OutFrame frame) override {
    if (frame.release) {
      frame.release();
    }
  }
  void close(net::CloseReason) override {}
  std::size_t queued_bytes() const noexcept override { return 0; }

 private:
  net::IoThread& thread_;
  std::string out_{};
};

}  // namespace

TEST_SUITE("broker/alloc") {
  TEST_CASE("sends in the steady state allocate nothing") {
    BrokerConfig config = test_config("");
    config.fast_failure = false;  // a slow build must not look like overload
    Rig rig(config);
    REQUIRE(rig.log->activate().has_value());
    REQUIRE(rig.topics.create_for_send("T", "TBW102", 4, 0) != nullptr);
    Router router(rig.services, *rig.pool);
    auto connection = std::make_shared<MemoryConnection>(rig.pool->at(0));
    const net::ConnectionPtr as_base = connection;

    constexpr int kBatch = 32;
    std::vector<std::string> frames(kBatch);
    std::vector<proto::CommandView> commands(kBatch);
    for (int i = 0; i < kBatch; ++i) {
      auto command = send_command({.queue_id = i % 4,
                                   .body = std::string(128, 'x'),
                                   .properties = "KEYS\x01key\x02TAGS\x01tag\x02UNIQ_KEY\x01"
                                                 "0123456789\x02WAIT\x01true"});
      command.opaque = i;
      command.kind = i % 2 == 0 ? proto::HeaderKind::kJson : proto::HeaderKind::kRocketMq;
      command.encode(frames[static_cast<std::size_t>(i)]);
      auto& frame = frames[static_cast<std::size_t>(i)];
      REQUIRE(proto::decode_command({reinterpret_cast<std::byte*>(frame.data()), frame.size()},
                                    commands[static_cast<std::size_t>(i)])
                  .has_value());
    }
    const net::BufferRef keep;
    const auto round = [&] {
      connection->out().clear();
      router.on_commands(as_base, commands, keep, true);
    };
    constexpr int kRounds = 200;
    std::promise<std::uint64_t> done;
    rig.pool->at(0).post([&] {
      for (int i = 0; i < 20; ++i) {
        round();  // warms scratch memory, handles and queue files
      }
      const std::uint64_t before = tenon::test::allocations_of_thread();
      for (int i = 0; i < kRounds; ++i) {
        round();
      }
      done.set_value(tenon::test::allocations_of_thread() - before);
    });
    const std::uint64_t counted = done.get_future().get();
    rig.pool->stop();  // before the router goes
    CHECK_MESSAGE(connection->out().size() > kBatch * 100, "answers are missing");
    CHECK(rig.stats.totals().put_count == (20 + kRounds) * kBatch);
    CHECK_MESSAGE(counted == 0, counted << " allocations in " << kRounds * kBatch << " sends");
  }
}
