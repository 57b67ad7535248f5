// Frames on their way into a socket: what is being written, as a scatter/gather list.
#pragma once

#include "tenon/net/connection.h"

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <sys/uio.h>

namespace tenon::net {

/// An OutFrame whose release runs exactly once, at the latest when it is destroyed.
class QueuedFrame {
 public:
  explicit QueuedFrame(OutFrame&& frame) noexcept
      : frame_(std::move(frame)) {
    frame.release = nullptr;
  }
  QueuedFrame(QueuedFrame&& other) noexcept
      : frame_(std::move(other.frame_)) {
    other.frame_.release = nullptr;
  }
  QueuedFrame& operator=(QueuedFrame&&) = delete;
  QueuedFrame(const QueuedFrame&) = delete;
  QueuedFrame& operator=(const QueuedFrame&) = delete;
  ~QueuedFrame() {
    if (frame_.release) {
      frame_.release();
    }
  }

  std::string& head() noexcept { return frame_.head; }
  const OutFrame& frame() const noexcept { return frame_; }
  /// Nothing but bytes of its own: more bytes may be appended to it.
  bool is_plain() const noexcept { return frame_.pieces.empty() && !frame_.release; }

 private:
  OutFrame frame_;
};

/// Not thread-safe: belongs to whoever is the writer of the connection.
class OutBatch {
 public:
  static constexpr std::size_t kIovMax = 128;

  /// Takes the frames of `queue` and leaves it empty, with the memory of our old list. Only when
  /// empty().
  void take(std::vector<QueuedFrame>& queue);
  void push(QueuedFrame&& frame);
  bool empty() const noexcept { return next_ == frames_.size(); }

  /// Describes up to kIovMax pieces that are still to be written.
  /// @return number of entries filled in; 0 only if nothing is left
  std::size_t describe(std::span<iovec> out) const noexcept;

  /// `written` bytes are gone. Frames that are gone altogether are released.
  void advance(std::size_t written);

  /// A string for reuse from a finished plain frame, if one was large enough to be worth it.
  std::string take_spare() noexcept { return std::exchange(spare_, std::string{}); }

  /// Drops everything; releases run.
  void clear();

 private:
  void finish_frame();

  std::vector<QueuedFrame> frames_{};
  std::size_t next_ = 0;   ///< first frame that is not written completely
  std::size_t piece_ = 0;  ///< 0 is the head
  std::size_t offset_ = 0;
  std::string spare_{};
};

}  // namespace tenon::net
