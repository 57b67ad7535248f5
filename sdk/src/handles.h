// What the handles of producers and of consumers do when they go away.
#pragma once

#include "client_core.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace tenon::sdk::detail {

/// Cancels what is in flight and leaves the group. Nothing if the handle was moved from.
template <class Core>
void leave_producer(std::shared_ptr<Core>& core, ClientCore* client) {
  if (!core) {
    return;
  }
  const std::string group = core->group();
  core->stop();
  client->remove_producer(group);
  client->unregister(group, {});
  core.reset();
}

/// Ends listener calls, commits and leaves the group. Nothing if the handle was moved from.
template <class Core>
void leave_consumer(std::shared_ptr<Core>& core, std::shared_ptr<ClientCore>& client) {
  if (!core) {
    return;
  }
  if (client->on_own_thread()) {
    // Waiting here for a listener that waits for an answer would be waiting for ourselves.
    std::thread([core = std::move(core), client = std::move(client)]() mutable {
      core->stop();
      core.reset();
    }).detach();
    return;
  }
  core->stop();
  core.reset();
}

/// Move assignment: what the handle held before ends as by its destructor.
template <class Handle, class Core>
void replace_handle(Handle& self,
                    std::shared_ptr<Core>& core,
                    std::shared_ptr<ClientCore>& client,
                    std::shared_ptr<Core>& new_core,
                    std::shared_ptr<ClientCore>& new_client) {
  if (&core == &new_core) {
    return;
  }
  const Handle old(std::move(self));
  client = std::move(new_client);
  core = std::move(new_core);
}

}  // namespace tenon::sdk::detail
