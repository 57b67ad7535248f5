// Which role of the plug-in ABI the calling thread has (plug-in ABI §6); what where_am_i() answers.
#pragma once

#include "tenon/abi/host.h"

#include <atomic>
#include <cstdint>

namespace tenon::host {

/// TENON_AT_... bits of the calling thread.
std::uint32_t thread_tags() noexcept;

/// Adds bits to the calling thread for the life of the object, e.g. TENON_AT_IO in a network thread and
/// TENON_AT_APPEND around the append sequence.
class ThreadTag {
 public:
  explicit ThreadTag(std::uint32_t bits) noexcept;
  ~ThreadTag();
  ThreadTag(const ThreadTag&) = delete;
  ThreadTag& operator=(const ThreadTag&) = delete;

 private:
  std::uint32_t before_;
};

/// Makes the calling thread the [control] role, of which there is one in the process: waits for the other one,
/// which may be the control thread running a task of a plug-in. Recursive. Instance and PluginRegistry take it
/// themselves; take it around [control] functions of interfaces.
class ControlScope {
 public:
  ControlScope();
  /// Gives up when the flag is set and wake_waiting() was called; see owns().
  explicit ControlScope(const std::atomic<bool>& give_up);
  ~ControlScope();
  ControlScope(const ControlScope&) = delete;
  ControlScope& operator=(const ControlScope&) = delete;

  bool owns() const noexcept { return owns_; }
  static void wake_waiting() noexcept;

 private:
  bool owns_;
  ThreadTag tag_;
};

}  // namespace tenon::host
