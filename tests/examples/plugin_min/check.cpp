// Loads the example as a client does and asks it for queues: check FILE.
#include "tenon/host/plugin_registry.h"

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FILE.tenon.so\n", argv[0]);
    return 2;
  }
  tenon::host::RegistryOptions options;
  options.side = TENON_SIDE_CLIENT;
  options.use_environment = false;
  auto registry = tenon::host::PluginRegistry::create(options);
  auto instance = registry->create(argv[1], {});
  if (!instance || !instance.value()->init() || !instance.value()->activate()) {
    std::fprintf(
        stderr, "%s\n", instance ? "init or activate failed" : instance.error().detail.c_str());
    return 1;
  }
  auto selector = instance.value()->interface<tenon_selector>(TENON_QUEUE_SELECTOR_IID);
  if (!selector) {
    std::fprintf(stderr, "%s\n", selector.error().detail.c_str());
    return 1;
  }
  using tenon::host::abi_str;
  const tenon_queue_ref queues[] = {
      {abi_str("broker-a"), 0, 0}, {abi_str("broker-a"), 1, 0}, {abi_str("broker-b"), 0, 0}};
  const tenon_queue_set set{sizeof set, 3, 1, abi_str("topic"), queues, sizeof queues[0], nullptr};
  tenon_select how{};
  how.size = sizeof how;
  const int first = selector.value()->select(selector.value().self, &set, &how);
  how.attempt = 1;
  how.last_broker = abi_str("broker-b");
  const int second = selector.value()->select(selector.value().self, &set, &how);
  std::printf("%s: first attempt queue %d, second attempt queue %d\n",
              instance.value()->id().c_str(),
              first,
              second);
  return first == 2 && second == 1 ? 0 : 1;
}
