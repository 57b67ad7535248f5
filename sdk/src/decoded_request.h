// A request of ours on its way to the connection, for those who add fields to all requests.
#pragma once

#include "tenon/base/check.h"
#include "tenon/net/rpc_client.h"
#include "tenon/proto/command.h"

#include <string>
#include <string_view>
#include <vector>

namespace tenon::sdk::detail {

/// One request, encoded and read again. It is written anew with the number of the call, which nobody
/// looks at before. What fields added here point to must live as long.
class DecodedRequest {
 public:
  explicit DecodedRequest(const net::RpcEncoder& encode) {
    encode(frame_, 0);
    const auto decoded =
        proto::decode_command({reinterpret_cast<std::byte*>(frame_.data()), frame_.size()}, view_);
    TENON_CHECK(decoded.has_value(), "a request of ours cannot be decoded");
    fields_.assign(view_.fields.begin(), view_.fields.end());
  }
  DecodedRequest(const DecodedRequest&) = delete;
  DecodedRequest& operator=(const DecodedRequest&) = delete;

  const proto::CommandView& view() const noexcept { return view_; }
  const std::vector<proto::Field>& fields() const noexcept { return fields_; }
  void add(std::string_view key, std::string_view value) { fields_.push_back({key, value}); }
  void encode(std::string& out, std::int32_t opaque) const {
    proto::FrameWriter::Head head;
    head.code = view_.code;
    head.opaque = opaque;
    head.flag = view_.flag;
    head.kind = view_.kind;
    head.language = view_.language;
    head.version = view_.version;
    head.remark = view_.remark;
    proto::FrameWriter w(out, head);
    for (const proto::Field& field : fields_) {
      w.field(field.key, field.value);
    }
    w.finish(view_.body);
  }

 private:
  std::string frame_{};
  proto::CommandView view_{};
  std::vector<proto::Field> fields_{};
};

}  // namespace tenon::sdk::detail
