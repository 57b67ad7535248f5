#include "md5.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <string>

namespace tenon::allocator {
namespace {

constexpr std::array<int, 16> kShifts = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};

/// floor(2^32 · |sin(i + 1)|), RFC 1321 §3.4.
std::array<std::uint32_t, 64> make_sines() {
  std::array<std::uint32_t, 64> out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] =
        static_cast<std::uint32_t>(std::floor(std::abs(std::sin(double(i + 1))) * 4294967296.0));
  }
  return out;
}

using State = std::array<std::uint32_t, 4>;

void mix(State& state, const char* block) {
  static const std::array<std::uint32_t, 64> sines = make_sines();
  std::array<std::uint32_t, 16> words{};
  std::memcpy(words.data(), block, 64);  // little-endian, as the ABI demands
  auto [a, b, c, d] = state;
  for (std::uint32_t i = 0; i < 64; ++i) {
    std::uint32_t f = 0, word = 0;
    switch (i / 16) {
      case 0:
        f = (b & c) | (~b & d);
        word = i;
        break;
      case 1:
        f = (d & b) | (~d & c);
        word = 5 * i + 1;
        break;
      case 2:
        f = b ^ c ^ d;
        word = 3 * i + 5;
        break;
      default:
        f = c ^ (b | ~d);
        word = 7 * i;
    }
    const std::uint32_t sum = a + f + sines[i] + words[word % 16];
    a = d;
    d = c;
    c = b;
    b += std::rotl(sum, kShifts[i / 16 * 4 + i % 4]);
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
}

}  // namespace

std::array<std::uint8_t, 16> md5(std::string_view text) {
  std::string padded(text);
  padded.push_back('\x80');
  padded.resize((padded.size() + 8 + 63) / 64 * 64 - 8);
  const std::uint64_t bits = std::uint64_t{text.size()} * 8;
  padded.append(reinterpret_cast<const char*>(&bits), sizeof bits);
  State state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  for (std::size_t at = 0; at < padded.size(); at += 64) {
    mix(state, padded.data() + at);
  }
  std::array<std::uint8_t, 16> out{};
  std::memcpy(out.data(), state.data(), out.size());
  return out;
}

}  // namespace tenon::allocator
