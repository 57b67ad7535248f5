#include "servers/broker_node.h"

#include "tenon/base/log.h"

#include <algorithm>
#include <string>

namespace tenon::app {

Result<std::unique_ptr<BrokerNode>> BrokerNode::start(BrokerProgram program, StopSignal& stop) {
  std::unique_ptr<BrokerNode> node(new BrokerNode(std::move(program)));
  BrokerProgram& own = node->program_;
  host::RegistryOptions options;
  options.search_path.assign(own.plugins.search_path.begin(), own.plugins.search_path.end());
  options.insecure = own.plugins.insecure;
  node->registry_ = host::PluginRegistry::create(std::move(options));
  const auto left_out = [&](const config::Slot& slot) {
    if (slot.required) {
      return false;
    }
    const auto found = node->registry_->describe(slot.id_or_path());
    if (!found) {
      log_warn("host", "plug-in left out where={} reason=\"{}\"", slot.where, found.error().detail);
    }
    return !found.has_value();
  };
  std::erase_if(own.filters, left_out);
  if (left_out(own.txn_check)) {
    own.txn_check = {};
  }
  broker::BrokerHooks hooks;
  hooks.on_fault = [&stop](std::string_view what) { stop.request(what); };
  TENON_TRY(node->broker_,
            broker::Broker::start(own.broker, *node->registry_, own.slots(), std::move(hooks)));
  return node;
}

}  // namespace tenon::app
