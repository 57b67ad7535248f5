// Header of SEND_MESSAGE_V2(310), SEND_BATCH_MESSAGE(320) and SEND_REPLY_MESSAGE_V2(325), written straight into the send buffer
// (spec: client §4.5, remoting §1.3, §1.4).
#pragma once

#include "tenon/sdk/client.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tenon::sdk {

/// What does not change between messages of one producer to one broker and topic.
struct SendHeaderFixed {
  SendHeaderFixed(HeaderEncoding encoding,
                  std::string_view group,
                  std::string_view topic,
                  std::string_view create_key,
                  int default_queues,
                  std::string_view broker);
  HeaderEncoding encoding;
  std::string fields{};  ///< encoded entries, ready to be copied
};

struct SendHeader {
  std::int32_t queue_id = 0;
  std::int32_t sys_flag = 0;
  std::int64_t born_ms = 0;
  std::int32_t flag = 0;
  std::string_view properties{};
  std::int32_t reconsume_times = 0;
  std::int32_t max_reconsume_times = -1;  ///< -1: not written
  bool batch = false;
  bool oneway = false;
  bool reply = false;  ///< SEND_REPLY_MESSAGE_V2(325)

  std::int32_t code() const noexcept;
};

/// Appends the whole frame.
void encode_send(std::string& out,
                 std::int32_t opaque,
                 const SendHeaderFixed& fixed,
                 const SendHeader& header,
                 std::span<const std::byte> body);

}  // namespace tenon::sdk
