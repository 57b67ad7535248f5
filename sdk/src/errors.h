// From the libraries' errors and the servers' answers to the SDK's Error.
#pragma once

#include "tenon/base/result.h"
#include "tenon/proto/command.h"
#include "tenon/sdk/result.h"

#include <string>
#include <string_view>

namespace tenon::sdk {

inline Error make_error(Errc code, std::string remark, std::string_view broker = {}) {
  Error e;
  e.code = make_error_code(code);
  e.remark = std::move(remark);
  e.broker = std::string(broker);
  return e;
}

/// Failure of a remote call: what net::RpcCallback documents.
Error from_call(const tenon::Error& e, std::string_view broker);
/// An answer with a code other than success.
Error from_answer(std::int32_t code, std::string_view remark, std::string_view broker);
/// Anything else: plug-in host, codecs.
Error from_base(const tenon::Error& e, Errc code);

}  // namespace tenon::sdk
