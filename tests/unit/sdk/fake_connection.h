// The broker's end of a connection: requests to a client, and what it answers.
#pragma once

#include "client_core.h"
#include "fake_cluster.h"

#include "tenon/net/connection.h"
#include "tenon/proto/command.h"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace tenon::sdk::test {

/// Collects what a client answers to requests of a broker.
class FakeConnection final : public net::Connection {
 public:
  FakeConnection()
      : Connection(1) {}
  net::IoThread& io_thread() noexcept override { std::abort(); }
  std::string& out() noexcept override { return out_; }
  void flush() override {}
  void send(net::OutFrame frame) override {
    const std::scoped_lock lock(mutex_);
    proto::CommandView view;
    const auto r = proto::decode_command(
        {reinterpret_cast<std::byte*>(frame.head.data()), frame.head.size()}, view);
    REQUIRE(r.has_value());
    answers_.push_back(proto::Command::from(view));
  }
  void close(net::CloseReason) override {}
  std::size_t queued_bytes() const noexcept override { return 0; }
  std::vector<proto::Command> answers() {
    const std::scoped_lock lock(mutex_);
    return answers_;
  }

 private:
  std::mutex mutex_;
  std::string out_;
  std::vector<proto::Command> answers_;
};

/// Hands a request to the client. @return its answer; code -1 if it gives none
inline proto::Command ask(detail::ClientCore& client,
                          proto::Command request,
                          std::chrono::milliseconds patience = std::chrono::seconds(10)) {
  const auto connection = std::make_shared<FakeConnection>();
  auto frame = std::make_shared<std::string>();
  request.encode(*frame);
  proto::CommandView view;
  REQUIRE(proto::decode_command({reinterpret_cast<std::byte*>(frame->data()), frame->size()}, view)
              .has_value());
  client.on_commands(connection, std::span(&view, 1), frame);
  if (request.code == proto::RequestCode::kConsumeMessageDirectly ||
      request.code == proto::RequestCode::kCheckTransactionState) {
    static_cast<void>(eventually([&] { return !connection->answers().empty(); }, patience));
  }
  const auto answers = connection->answers();
  return answers.empty() ? proto::Command{.code = -1} : answers.front();
}

}  // namespace tenon::sdk::test
