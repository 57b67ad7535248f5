// Calls with owned commands over net::RpcClient: the control plane of the SDK. Sends and pulls use
// the RpcClient directly.
#pragma once

#include "tenon/net/rpc_client.h"
#include "tenon/proto/command.h"
#include "tenon/sdk/result.h"

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace tenon::sdk {

using CommandCallback = std::function<void(Result<proto::Command>)>;

/// A request of ours: language CPP, JSON header (spec: client §3.7).
proto::Command make_request(proto::RequestCode::Value code);

/// Thread: any.
class Calls {
 public:
  explicit Calls(net::RpcClient& rpc) noexcept
      : rpc_(rpc) {}

  /// The answer may carry any response code. `done` runs on an I/O thread, exactly once.
  void start(std::string_view address,
             proto::Command command,
             std::chrono::milliseconds timeout,
             CommandCallback done);
  /// Blocks; not on an I/O thread.
  Result<proto::Command> ask(std::string_view address,
                             proto::Command command,
                             std::chrono::milliseconds timeout);
  /// As ask(), but a response code other than 0 is an Error.
  Result<proto::Command> ask_ok(std::string_view address,
                                proto::Command command,
                                std::chrono::milliseconds timeout);
  void oneway(std::string_view address, proto::Command command);

  net::RpcClient& rpc() noexcept { return rpc_; }

 private:
  net::RpcClient& rpc_;
};

}  // namespace tenon::sdk
