// No allocation per send on the handler path in the steady state: operator new is counted per
// thread while the router takes decoded sends, as an I/O thread hands them over.
#include "append/log.h"
#include "broker_harness.h"
#include "processors/router.h"
#include "services.h"

#include "tenon/net/io_pool.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <new>
#include <string>
#include <vector>

namespace {
thread_local std::uint64_t allocations = 0;
}

// GCC sees the free() of memory from the replaced operator new and calls it a mismatch.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes)) {
    return p;
  }
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
#pragma GCC diagnostic pop

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

/// Queue files that last for the whole test: a new one is not the steady state.
ConfigNode large_queue_files() {
  ConfigNode options = small_store_options();
  ConfigNode bytes;
  bytes.value = std::int64_t{6'000'000};
  options.set("queue_file_bytes", bytes);
  return options;
}

/// The services around a router, without ports.
struct Rig {
  TempFolder folder{};
  ConfigNode options = large_queue_files();
  std::unique_ptr<host::PluginRegistry> registry = test_registry();
  BrokerConfig config = test_config(folder.path());
  const Clock& clock = system_clock();
  Advertised advertised{
      proto::parse_host_addr("127.0.0.1:10911").value(), "127.0.0.1", "127.0.0.1:10911"};
  DelayLevels levels = DelayLevels::parse(config.message_delay_level).value();
  std::unique_ptr<Log> log = open_log();
  FlushWaiters flush_waiters{};
  Topics topics{config, clock};
  Groups groups{config, clock};
  Offsets offsets{config.store_root};
  Filters filters{};
  ConsumerFilters consumer_filters{config, clock, filters};
  Consumers consumers{consumer_filters};
  Producers producers{};
  QueueLocks locks{60'000};
  PullEngine pulls{config, *log};
  HoldTable holds{[](std::vector<ParkedPtr>&) {}};
  Workers workers{config};
  Stats stats{0};
  DelayService delay{config, clock, levels, *log, topics};
  std::unique_ptr<net::IoPool> pool = net::IoPool::start({.threads = 1}).value();
  std::unique_ptr<net::ReverseCalls> calls = net::ReverseCalls::create();
  Services services{config,
                    clock,
                    advertised,
                    levels,
                    *log,
                    flush_waiters,
                    topics,
                    groups,
                    offsets,
                    filters,
                    consumer_filters,
                    consumers,
                    producers,
                    locks,
                    pulls,
                    holds,
                    workers,
                    stats,
                    delay,
                    *calls};

  std::unique_ptr<Log> open_log() {
    PluginSlot slot{"tenon.store.file", &options};
    auto opened = Log::open(config, *registry, slot, clock, levels, {});
    REQUIRE(opened.has_value());
    return std::move(opened).value();
  }
  ~Rig() {
    workers.stop();
    pool->stop();
    log->close();
  }
};

}  // namespace

TEST_SUITE("broker/alloc") {
  TEST_CASE("sends in the steady state allocate nothing") {
    Rig rig;
    rig.log->add(static_cast<ArrivalListener&>(rig.holds));
    rig.log->add(static_cast<DurableListener&>(rig.flush_waiters));
    REQUIRE(rig.topics.load().has_value());
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
    for (int i = 0; i < 20; ++i) {
      round();  // warms scratch memory, handles and queue files
    }
    const std::uint64_t before = allocations;
    constexpr int kRounds = 200;
    for (int i = 0; i < kRounds; ++i) {
      round();
    }
    const std::uint64_t counted = allocations - before;
    CHECK_MESSAGE(connection->out().size() > kBatch * 100, "answers are missing");
    CHECK(rig.stats.totals().put_count == (20 + kRounds) * kBatch);
    CHECK_MESSAGE(counted == 0, counted << " allocations in " << kRounds * kBatch << " sends");
  }
}
