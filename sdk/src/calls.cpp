#include "calls.h"

#include "errors.h"

#include <future>
#include <memory>
#include <utility>

namespace tenon::sdk {

proto::Command make_request(proto::RequestCode::Value code) {
  proto::Command c;
  c.code = code;
  c.language = proto::Language::kCpp;
  return c;
}

void Calls::start(std::string_view address,
                  proto::Command command,
                  std::chrono::milliseconds timeout,
                  CommandCallback done) {
  const net::RpcEncoder encode = [&command](std::string& out, std::int32_t opaque) {
    command.opaque = opaque;
    command.encode(out);
  };
  rpc_.call(address,
            encode,
            timeout,
            [done = std::move(done),
             address = std::string(address)](tenon::Result<net::RpcAnswer> answer) {
              if (answer.has_error()) {
                done(from_call(answer.error(), address));
              } else {
                done(proto::Command::from(*answer.value().command));
              }
            });
}

Result<proto::Command> Calls::ask(std::string_view address,
                                  proto::Command command,
                                  std::chrono::milliseconds timeout) {
  auto promise = std::make_shared<std::promise<Result<proto::Command>>>();
  auto future = promise->get_future();
  start(address, std::move(command), timeout, [promise](Result<proto::Command> r) {
    promise->set_value(std::move(r));
  });
  return future.get();
}

Result<proto::Command> Calls::ask_ok(std::string_view address,
                                     proto::Command command,
                                     std::chrono::milliseconds timeout) {
  auto answer = ask(address, std::move(command), timeout);
  if (answer && answer->code != proto::ResponseCode::kSuccess) {
    return from_answer(answer->code, answer->remark, address);
  }
  return answer;
}

void Calls::oneway(std::string_view address, proto::Command command) {
  command.flag |= proto::kFlagOneway;
  rpc_.oneway(address, [&command](std::string& out, std::int32_t opaque) {
    command.opaque = opaque;
    command.encode(out);
  });
}

}  // namespace tenon::sdk
