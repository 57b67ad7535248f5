// A file store in a folder of its own whose files are so small that some tens of messages roll them.
#pragma once

#include "../../../support/store_harness.h"

#include <doctest/doctest.h>

#include <memory>

extern "C" const tenon_entry tenon_entry_store_file;

namespace tenon::test {

struct SmallStore {
  SmallStore()
      : host(root.path()) {
    host.set("commitlog_file", 4096);
    host.set("queue_file_bytes", 160);  // 8 units
    host.set("index_slots", 10);
    host.set("index_items", 40);
  }
  /// Ends the store that runs, and starts another one.
  tenon_status try_open() {
    store.reset();
    store = std::make_unique<StoreInstance>(tenon_entry_store_file, "tenon.store.file", host);
    return store->start();
  }
  void open() { REQUIRE_MESSAGE(try_open() == TENON_OK, store->error()); }

  TempFolder root;
  FakeHost host;
  std::unique_ptr<StoreInstance> store;
};

}  // namespace tenon::test
