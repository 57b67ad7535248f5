#include "out_batch.h"

#include "tenon/base/check.h"
#include "tenon/base/endian.h"

namespace tenon::net {
namespace {

constexpr std::size_t kSpareMinBytes = 512;
constexpr std::size_t kSpareMaxBytes = 256u * 1024;

std::span<const std::byte> piece_of(const OutFrame& frame, std::size_t index) noexcept {
  return index == 0 ? as_bytes(frame.head) : frame.pieces[index - 1];
}

}  // namespace

std::size_t OutFrame::bytes() const noexcept {
  std::size_t sum = head.size();
  for (const auto& piece : pieces) {
    sum += piece.size();
  }
  return sum;
}

void OutBatch::take(std::vector<QueuedFrame>& queue) {
  TENON_DCHECK(empty(), "frames would be overtaken");
  frames_.clear();
  next_ = 0;
  frames_.swap(queue);
}

void OutBatch::push(QueuedFrame&& frame) {
  if (empty()) {
    clear();
  }
  frames_.push_back(std::move(frame));
}

std::size_t OutBatch::describe(std::span<iovec> out) const noexcept {
  std::size_t count = 0;
  std::size_t offset = offset_;
  std::size_t piece = piece_;
  for (std::size_t i = next_; i < frames_.size() && count < out.size(); ++i, piece = 0) {
    const OutFrame& frame = frames_[i].frame();
    for (; piece <= frame.pieces.size() && count < out.size(); ++piece, offset = 0) {
      const auto bytes = piece_of(frame, piece).subspan(offset);
      if (!bytes.empty()) {
        out[count++] = {const_cast<std::byte*>(bytes.data()), bytes.size()};
      }
    }
  }
  return count;
}

void OutBatch::advance(std::size_t written) {
  while (next_ < frames_.size()) {
    const OutFrame& frame = frames_[next_].frame();
    for (; piece_ <= frame.pieces.size(); ++piece_, offset_ = 0) {
      const std::size_t left = piece_of(frame, piece_).size() - offset_;
      if (written < left) {
        offset_ += written;
        return;
      }
      written -= left;
    }
    finish_frame();
  }
  TENON_DCHECK(written == 0, "{} bytes written beyond the batch", written);
}

void OutBatch::finish_frame() {
  QueuedFrame done = std::move(frames_[next_]);
  ++next_;
  piece_ = 0;
  offset_ = 0;
  if (done.is_plain() && done.head().capacity() >= kSpareMinBytes &&
      done.head().capacity() <= kSpareMaxBytes) {
    spare_ = std::move(done.head());
    spare_.clear();
  }
}

void OutBatch::clear() {
  frames_.clear();
  next_ = 0;
  piece_ = 0;
  offset_ = 0;
}

}  // namespace tenon::net
