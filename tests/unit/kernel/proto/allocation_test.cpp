// The steady state of the codecs does not allocate: operator new is counted per thread.
#include "counting_new.h"
#include "hex.h"

#include "tenon/base/endian.h"
#include "tenon/proto/command.h"
#include "tenon/proto/message.h"
#include "tenon/proto/properties.h"

#include <doctest/doctest.h>

#include <vector>

using namespace tenon;
using namespace tenon::proto;

namespace {

std::string send_frame(HeaderKind kind) {
  Command c;
  c.code = RequestCode::kSendMessageV2;
  c.kind = kind;
  c.set("a", "producer_group").set("b", "TopicTest").set("c", "TBW102").set("d", "4");
  c.set("e", "3").set("f", "0").set("g", "1700000000000").set("h", "0");
  c.set("i",
        "UNIQ_KEY\x01"
        "C0A801051E5818B4AAC2117A8B5E0000\x02TAGS\x01TagA\x02WAIT\x01true");
  c.set("j", "0").set("k", "false").set("l", "16").set("m", "false").set("n", "broker-a");
  c.remark = "escaped \"remark\"";
  c.body = std::string(1024, 'x');
  std::string out;
  c.encode(out);
  return out;
}

}  // namespace

TEST_SUITE("proto/allocation") {
  TEST_CASE("decoding a send and encoding its answer allocates nothing") {
    for (const HeaderKind kind : {HeaderKind::kJson, HeaderKind::kRocketMq}) {
      const std::string original = send_frame(kind);
      std::string frame = original;
      std::string answer;
      std::string record;
      CommandView view;
      std::size_t bytes = 0;
      const auto once = [&] {
        frame.assign(original);
        answer.clear();
        if (!decode_command(test::writable(frame), view).has_value()) {
          return;
        }
        MessageRecord m;
        m.topic = *view.field("b");
        m.queue_id = *view.field_int("e");
        m.born_ms = *view.field_long("g");
        m.properties = *view.field("i");
        m.body = view.body;
        record.resize(encoded_message_bytes(m));
        bytes += encode_message(m, reinterpret_cast<std::byte*>(record.data()));
        const auto stored = decode_message(as_bytes(record));
        bytes += static_cast<std::size_t>(tags_code_of(stored.value().properties));
        FrameWriter::Head head;
        head.flag = kFlagResponse;
        head.kind = view.kind;
        head.opaque = view.opaque;
        head.remark = "remark";
        FrameWriter w(answer, head);
        w.field("msgId", "0A01020300002A9F0000011F71FB04CB");
        w.field("queueId", *view.field_int("e"));
        w.field("queueOffset", std::int64_t{1234567});
        w.field_bool("TRACE_ON", true);
        w.finish();
        bytes += answer.size();
      };
      once();  // Buffers grow to their final size.
      REQUIRE(bytes > 1000);
      const std::uint64_t before = test::allocations_of_thread();
      for (int i = 0; i < 1000; ++i) {
        once();
      }
      CHECK(test::allocations_of_thread() - before == 0);
      CHECK(bytes > 1000 * 1000);
    }
  }

  TEST_CASE("the counter counts") {
    const std::uint64_t before = test::allocations_of_thread();
    std::vector<int> v(100);
    CHECK(v.size() == 100);
    CHECK(test::allocations_of_thread() - before >= 1);
  }
}
