#include "tenon/proto/acl.h"

#include "tenon/base/endian.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tenon::proto {
namespace {

constexpr std::size_t kBlockBytes = 64;
constexpr std::size_t kLengthAt = 56;

/// FIPS 180-4 §6.1. Used for signatures whose algorithm the protocol fixes, not for new things.
class Sha1 {
 public:
  void update(std::string_view bytes) {
    total_ += bytes.size();
    while (!bytes.empty()) {
      const std::size_t n = std::min(bytes.size(), kBlockBytes - filled_);
      std::memcpy(block_.data() + filled_, bytes.data(), n);
      filled_ += n;
      bytes.remove_prefix(n);
      if (filled_ == kBlockBytes) {
        mix();
        filled_ = 0;
      }
    }
  }

  Sha1Digest finish() {
    const std::uint64_t bits = total_ * 8;
    block_[filled_++] = 0x80;
    if (filled_ > kLengthAt) {
      std::fill(
          block_.begin() + static_cast<std::ptrdiff_t>(filled_), block_.end(), std::uint8_t{0});
      mix();
      filled_ = 0;
    }
    std::fill(block_.begin() + static_cast<std::ptrdiff_t>(filled_), block_.end(), std::uint8_t{0});
    store_be(block_.data() + kLengthAt, bits);
    mix();
    Sha1Digest out;
    for (std::size_t i = 0; i < state_.size(); ++i) {
      store_be(out.data() + 4 * i, state_[i]);
    }
    return out;
  }

 private:
  void mix() {
    std::array<std::uint32_t, 80> w;
    for (std::size_t i = 0; i < 16; ++i) {
      w[i] = load_be<std::uint32_t>(block_.data() + 4 * i);
    }
    for (std::size_t i = 16; i < w.size(); ++i) {
      w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    auto [a, b, c, d, e] = state_;
    for (std::size_t i = 0; i < w.size(); ++i) {
      std::uint32_t f = 0;
      std::uint32_t k = 0;
      if (i < 20) {
        f = (b & c) | (~b & d);
        k = 0x5a827999;
      } else if (i < 40) {
        f = b ^ c ^ d;
        k = 0x6ed9eba1;
      } else if (i < 60) {
        f = (b & c) | (b & d) | (c & d);
        k = 0x8f1bbcdc;
      } else {
        f = b ^ c ^ d;
        k = 0xca62c1d6;
      }
      const std::uint32_t next = std::rotl(a, 5) + f + e + k + w[i];
      e = d;
      d = c;
      c = std::rotl(b, 30);
      b = a;
      a = next;
    }
    state_[0] += a;
    state_[1] += b;
    state_[2] += c;
    state_[3] += d;
    state_[4] += e;
  }

  std::array<std::uint32_t, 5> state_{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  std::array<std::uint8_t, kBlockBytes> block_{};
  std::size_t filled_ = 0;
  std::uint64_t total_ = 0;
};

std::string_view text_of(const Sha1Digest& digest) {
  return as_text(digest);
}

}  // namespace

Sha1Digest hmac_sha1(std::string_view key, std::span<const std::string_view> parts) {
  Sha1Digest short_key;
  if (key.size() > kBlockBytes) {
    Sha1 hash;
    hash.update(key);
    short_key = hash.finish();
    key = text_of(short_key);
  }
  std::array<char, kBlockBytes> pad{};
  std::copy(key.begin(), key.end(), pad.begin());
  const auto padded = [&](unsigned char with) {
    std::string out(pad.begin(), pad.end());
    for (char& c : out) {
      c = static_cast<char>(static_cast<unsigned char>(c) ^ with);
    }
    return out;
  };
  Sha1 inner;
  inner.update(padded(0x36));
  for (const std::string_view part : parts) {
    inner.update(part);
  }
  const Sha1Digest digest = inner.finish();
  Sha1 outer;
  outer.update(padded(0x5c));
  outer.update(text_of(digest));
  return outer.finish();
}

std::string base64(std::span<const std::byte> bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (k < n ? std::to_integer<std::uint32_t>(bytes[i + k]) : 0);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out.push_back(k <= n ? kDigits[bits >> (18 - 6 * k) & 63] : '=');
    }
  }
  return out;
}

std::string acl_signature(std::string_view secret_key,
                          std::span<const Field> fields,
                          std::span<const std::byte> body) {
  std::vector<Field> sorted(fields.begin(), fields.end());
  std::sort(
      sorted.begin(), sorted.end(), [](const Field& a, const Field& b) { return a.key < b.key; });
  std::vector<std::string_view> parts;
  parts.reserve(sorted.size() + 1);
  for (const Field& field : sorted) {
    if (field.key != kAclSignature) {
      parts.push_back(field.value);
    }
  }
  parts.push_back(as_text(body));
  const Sha1Digest digest = hmac_sha1(secret_key, parts);
  return base64(digest);
}

}  // namespace tenon::proto
