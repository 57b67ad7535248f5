// One response under construction, encoded at the end of the connection's output.
#pragma once

#include "processor.h"

#include "tenon/base/endian.h"
#include "tenon/proto/codes.h"
#include "tenon/proto/command.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::namesrv {

class Processor::Answer {
 public:
  std::int32_t code = proto::ResponseCode::kSuccess;
  std::string remark{};
  std::string body{};
  std::vector<std::pair<std::string_view, std::string>> fields{};
  bool has_header = false;  ///< the Java answer has a header object: `"extFields":{}` at least

  void fail(std::int32_t failure, std::string why) {
    code = failure;
    remark = std::move(why);
  }

  void encode(const proto::CommandView& request, std::string& out) const {
    proto::FrameWriter writer(out,
                              {.code = code,
                               .opaque = request.opaque,
                               .flag = proto::kFlagResponse,
                               .kind = request.kind,
                               .remark = remark});
    for (const auto& [key, value] : fields) {
      writer.field(key, value);
    }
    if (has_header && fields.empty()) {
      writer.empty_fields();
    }
    writer.finish(as_bytes(body));
  }
};

}  // namespace tenon::namesrv
