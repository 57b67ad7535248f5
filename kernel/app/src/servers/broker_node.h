// A broker with its plug-ins, as tenon-broker and `tenon dev` run it.
#pragma once

#include "config/broker_program.h"
#include "support/stop_signal.h"

#include "tenon/base/result.h"
#include "tenon/broker/broker.h"
#include "tenon/host/plugin_registry.h"

#include <memory>

namespace tenon::app {

/// Keeps what the broker looks at alive as long as the broker. Thread: main.
class BrokerNode {
 public:
  /// A fault of the storage makes `stop` wake up. Slots that are not required and cannot be loaded
  /// are left out with a warning.
  static Result<std::unique_ptr<BrokerNode>> start(BrokerProgram program, StopSignal& stop);

  broker::Broker& broker() { return *broker_; }
  void stop() { broker_->stop(); }

 private:
  explicit BrokerNode(BrokerProgram program)
      : program_(std::move(program)) {}

  BrokerProgram program_;
  std::unique_ptr<host::PluginRegistry> registry_;
  std::unique_ptr<broker::Broker> broker_;
};

}  // namespace tenon::app
