// Body compression (spec: remoting §9.3).
#include "tenon/base/endian.h"
#include "tenon/proto/message.h"

#include <fmt/format.h>
#include <lz4frame.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <limits>
#include <memory>

namespace tenon::proto {
namespace {

constexpr std::size_t kChunkBytes = 64 * 1024;

Error corrupt(std::string_view what, std::string_view why) {
  return Error{Errc::kCorrupt, fmt::format("{} body: {}", what, why)};
}

Error too_large(std::size_t max_bytes) {
  return Error{Errc::kLimit, fmt::format("body inflates to more than {} bytes", max_bytes)};
}

/// Output of a streaming decoder: grows by doubling, up to one byte more than the limit, so that
/// "exactly the limit" and "beyond" can be told apart.
class Output {
 public:
  Output(std::size_t input_bytes, std::size_t max_bytes)
      : hard_max_(max_bytes == std::numeric_limits<std::size_t>::max() ? max_bytes : max_bytes + 1),
        max_(max_bytes) {
    text_.resize(std::min(hard_max_, std::max(kChunkBytes, input_bytes * 2)));
  }
  char* free_begin() noexcept { return text_.data() + used_; }
  std::size_t free_bytes() const noexcept { return text_.size() - used_; }
  void commit(std::size_t n) noexcept { used_ += n; }
  bool over_limit() const noexcept { return used_ > max_; }
  void grow_if_full() {
    if (free_bytes() == 0 && text_.size() < hard_max_) {
      text_.resize(std::min(hard_max_, text_.size() * 2));
    }
  }
  std::string take() && {
    text_.resize(used_);
    return std::move(text_);
  }

 private:
  std::string text_{};
  std::size_t used_ = 0;
  std::size_t hard_max_;
  std::size_t max_;
};

Result<std::string> deflate_zlib(std::span<const std::byte> body, int level) {
  uLongf bytes = ::compressBound(static_cast<uLong>(body.size()));
  std::string out(bytes, '\0');
  const int status = ::compress2(reinterpret_cast<Bytef*>(out.data()),
                                 &bytes,
                                 reinterpret_cast<const Bytef*>(body.data()),
                                 static_cast<uLong>(body.size()),
                                 level);
  if (status != Z_OK) {
    return Error{Errc::kInvalid, fmt::format("zlib refuses, level {} status {}", level, status)};
  }
  out.resize(bytes);
  return out;
}

Result<std::string> inflate_zlib(std::span<const std::byte> body, std::size_t max_bytes) {
  z_stream stream{};
  if (::inflateInit(&stream) != Z_OK) {
    return Error{Errc::kNoMemory, "zlib cannot start"};
  }
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, ::inflateEnd);
  // zlib takes the input as non-const for historical reasons and does not write to it.
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(body.data()));
  stream.avail_in = static_cast<uInt>(body.size());
  Output out(body.size(), max_bytes);
  for (;;) {
    const auto room = static_cast<uInt>(
        std::min<std::size_t>(out.free_bytes(), std::numeric_limits<uInt>::max()));
    stream.next_out = reinterpret_cast<Bytef*>(out.free_begin());
    stream.avail_out = room;
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    out.commit(room - stream.avail_out);
    if (out.over_limit()) {
      return too_large(max_bytes);
    }
    if (status == Z_STREAM_END) {
      return std::move(out).take();
    }
    if (status != Z_OK) {
      return corrupt("zlib", status == Z_BUF_ERROR ? "truncated" : "malformed");
    }
    out.grow_if_full();
  }
}

Result<std::string> deflate_lz4(std::span<const std::byte> body, int level) {
  LZ4F_preferences_t preferences{};
  preferences.compressionLevel = level;
  preferences.frameInfo.contentSize = body.size();
  std::string out(::LZ4F_compressFrameBound(body.size(), &preferences), '\0');
  const std::size_t n =
      ::LZ4F_compressFrame(out.data(), out.size(), body.data(), body.size(), &preferences);
  if (::LZ4F_isError(n) != 0) {
    return Error{Errc::kInternal, fmt::format("LZ4: {}", ::LZ4F_getErrorName(n))};
  }
  out.resize(n);
  return out;
}

Result<std::string> inflate_lz4(std::span<const std::byte> body, std::size_t max_bytes) {
  LZ4F_dctx* raw = nullptr;
  if (::LZ4F_isError(::LZ4F_createDecompressionContext(&raw, LZ4F_VERSION)) != 0) {
    return Error{Errc::kNoMemory, "LZ4 cannot start"};
  }
  const std::unique_ptr<LZ4F_dctx, LZ4F_errorCode_t (*)(LZ4F_dctx*)> context(
      raw, ::LZ4F_freeDecompressionContext);
  Output out(body.size(), max_bytes);
  for (;;) {
    std::size_t produced = out.free_bytes();
    std::size_t consumed = body.size();
    const std::size_t hint = ::LZ4F_decompress(
        context.get(), out.free_begin(), &produced, body.data(), &consumed, nullptr);
    if (::LZ4F_isError(hint) != 0) {
      return corrupt("LZ4", ::LZ4F_getErrorName(hint));
    }
    out.commit(produced);
    body = body.subspan(consumed);
    if (out.over_limit()) {
      return too_large(max_bytes);
    }
    if (hint == 0) {
      return std::move(out).take();
    }
    if (produced == 0 && consumed == 0 && out.free_bytes() != 0) {
      return corrupt("LZ4", "truncated");
    }
    out.grow_if_full();
  }
}

Result<std::string> deflate_zstd(std::span<const std::byte> body, int level) {
  std::string out(::ZSTD_compressBound(body.size()), '\0');
  const std::size_t n = ::ZSTD_compress(out.data(), out.size(), body.data(), body.size(), level);
  if (::ZSTD_isError(n) != 0) {
    return Error{Errc::kInternal, fmt::format("Zstandard: {}", ::ZSTD_getErrorName(n))};
  }
  out.resize(n);
  return out;
}

Result<std::string> inflate_zstd(std::span<const std::byte> body, std::size_t max_bytes) {
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(::ZSTD_createDCtx(),
                                                                        ::ZSTD_freeDCtx);
  if (context == nullptr) {
    return Error{Errc::kNoMemory, "Zstandard cannot start"};
  }
  ZSTD_inBuffer in{body.data(), body.size(), 0};
  Output out(body.size(), max_bytes);
  for (;;) {
    ZSTD_outBuffer room{out.free_begin(), out.free_bytes(), 0};
    const std::size_t before = in.pos;
    const std::size_t hint = ::ZSTD_decompressStream(context.get(), &room, &in);
    if (::ZSTD_isError(hint) != 0) {
      return corrupt("Zstandard", ::ZSTD_getErrorName(hint));
    }
    out.commit(room.pos);
    if (out.over_limit()) {
      return too_large(max_bytes);
    }
    if (hint == 0) {
      return std::move(out).take();
    }
    if (room.pos == 0 && in.pos == before && out.free_bytes() != 0) {
      return corrupt("Zstandard", "truncated");
    }
    out.grow_if_full();
  }
}

}  // namespace

Result<std::string> compress(std::span<const std::byte> body, Compression how, int level) {
  switch (how) {
    case Compression::kZlib:
      return deflate_zlib(body, level);
    case Compression::kLz4:
      return deflate_lz4(body, level);
    case Compression::kZstd:
      return deflate_zstd(body, level);
  }
  return Error{Errc::kUnsupported, "unknown compression"};
}

Result<std::string> decompress(std::span<const std::byte> body,
                               std::int32_t sys_flag,
                               std::size_t max_bytes) {
  if ((sys_flag & sys_flag::kCompressed) == 0) {
    if (body.size() > max_bytes) {
      return Error{Errc::kLimit,
                   fmt::format("body of {} bytes, the limit is {}", body.size(), max_bytes)};
    }
    return std::string(as_text(body));
  }
  switch (sys_flag & sys_flag::kCompressionMask) {
    case sys_flag::kCompressionLz4:
      return inflate_lz4(body, max_bytes);
    case sys_flag::kCompressionZstd:
      return inflate_zstd(body, max_bytes);
    case 0:
    case sys_flag::kCompressionZlib:
      return inflate_zlib(body, max_bytes);
    default:
      return Error{
          Errc::kUnsupported,
          fmt::format("compression type {}", (sys_flag & sys_flag::kCompressionMask) >> 8)};
  }
}

}  // namespace tenon::proto
