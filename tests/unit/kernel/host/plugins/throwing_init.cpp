// Compiled as C++14, where function types say nothing about exceptions: its entry throws.
#include "tenon/abi/entry.h"

#include <stdexcept>

namespace {
tenon_status init(tenon_str, tenon_error*) {
  throw std::runtime_error("the disk is made of cheese");
}
const void* get_factory(const char*) {
  return nullptr;
}
}  // namespace

const tenon_entry tenon_plugin_entry = {TENON_ENTRY_MAGIC,
                                        sizeof(tenon_entry),
                                        TENON_ABI_MAJOR,
                                        TENON_ABI_MINOR,
                                        init,
                                        nullptr,
                                        get_factory,
                                        nullptr};
