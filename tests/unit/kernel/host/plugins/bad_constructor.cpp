// Static constructors that crash, throw or hang, one per build.
#include "tenon/abi/entry.h"

#include <csignal>
#include <stdexcept>

#include <unistd.h>

namespace {

struct Bad {
  Bad() {
#if defined(BAD_CRASH)
    std::raise(SIGSEGV);
#elif defined(BAD_THROW)
    throw std::runtime_error("boom in a constructor");
#elif defined(BAD_HANG)
    for (;;) {
      ::pause();
    }
#elif defined(BAD_EXIT)
    ::_exit(3);
#endif
  }
};
const Bad bad;

const void* get_factory(const char*) noexcept {
  return nullptr;
}

}  // namespace

const tenon_entry tenon_plugin_entry = {TENON_ENTRY_MAGIC,
                                        sizeof(tenon_entry),
                                        TENON_ABI_MAJOR,
                                        TENON_ABI_MINOR,
                                        nullptr,
                                        nullptr,
                                        get_factory,
                                        nullptr};
