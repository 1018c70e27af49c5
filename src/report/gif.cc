#include "report/gif.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/base64.h"
#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"

namespace spillway {
namespace {

constexpr int kReds = 6, kGreens = 7, kBlues = 6;
constexpr int kCodeBits = 8;  // of a pixel
constexpr int kMaxBits = 12;  // of a code of LZW

void append_u16(std::string& out, int64_t value) {
  out += static_cast<char>(value & 0xFF);
  out += static_cast<char>(value >> 8 & 0xFF);
}

// The nearest of `levels` evenly spaced values.
int level_of(uint8_t value, int levels) { return (value * (levels - 1) + 127) / 255; }

uint8_t colour_of(const uint8_t* rgb) {
  return static_cast<uint8_t>((level_of(rgb[0], kReds) * kGreens + level_of(rgb[1], kGreens)) * kBlues +
                              level_of(rgb[2], kBlues));
}

void append_palette(std::string& out) {
  for (int i = 0; i < 1 << kCodeBits; ++i) {
    const int blue = i % kBlues, green = i / kBlues % kGreens, red = std::min(i / (kBlues * kGreens), kReds - 1);
    for (const auto& [level, levels] : {std::pair{red, kReds}, {green, kGreens}, {blue, kBlues}})
      out += static_cast<char>(level * 255 / (levels - 1));
  }
}

// Codes of a growing number of bits, the lowest first, in blocks of up to 255 bytes.
class CodeWriter {
 public:
  explicit CodeWriter(std::string& out) : out_(out) {}
  void put(int code, int bits) {
    buffer_ |= static_cast<uint32_t>(code) << filled_;
    filled_ += bits;
    for (; filled_ >= 8; filled_ -= 8, buffer_ >>= 8) put_byte(static_cast<char>(buffer_ & 0xFF));
  }
  void finish() {
    if (filled_ > 0) put_byte(static_cast<char>(buffer_ & 0xFF));
    flush();
    out_ += '\0';
  }

 private:
  void put_byte(char byte) {
    block_ += byte;
    if (block_.size() == 255) flush();
  }
  void flush() {
    if (block_.empty()) return;
    out_ += static_cast<char>(block_.size());
    out_ += block_;
    block_.clear();
  }

  std::string& out_;
  std::string block_;
  uint32_t buffer_ = 0;
  int filled_ = 0;
};

// LZW with codes of variable length (Welch, 1984), as GIF has it.
void append_pixels(const std::vector<uint8_t>& pixels, std::string& out) {
  constexpr int kClear = 1 << kCodeBits, kEnd = kClear + 1;
  out += static_cast<char>(kCodeBits);
  CodeWriter codes(out);
  std::map<std::pair<int, uint8_t>, int> table;  // a code and what follows -> the code of both
  int bits = kCodeBits + 1, next = kEnd + 1, current = -1;
  codes.put(kClear, bits);
  for (const uint8_t pixel : pixels) {
    if (current < 0) {
      current = pixel;
      continue;
    }
    if (const auto found = table.find({current, pixel}); found != table.end()) {
      current = found->second;
      continue;
    }
    codes.put(current, bits);
    if (next < 1 << kMaxBits) {
      if (next == 1 << bits) ++bits;
      table.emplace(std::pair(current, pixel), next++);
    } else {
      codes.put(kClear, bits);
      table.clear();
      bits = kCodeBits + 1;
      next = kEnd + 1;
    }
    current = pixel;
  }
  codes.put(current, bits);
  if (next == 1 << bits && bits < kMaxBits) ++bits;
  codes.put(kEnd, bits);
  codes.finish();
}

}  // namespace

Animation pixels_of(std::span<const float> latents, int64_t frames, int64_t height, int64_t width, int64_t scale) {
  SPILLWAY_CHECK(std::ssize(latents) == 3 * frames * height * width, "{} latents for pixels", latents.size());
  Animation result{.width = width * scale, .height = height * scale};
  const int64_t plane = height * width;
  for (int64_t frame = 0; frame < frames; ++frame) {
    std::vector<uint8_t>& pixels = result.frames.emplace_back();
    reserve(pixels, 3 * plane * scale * scale);
    for (int64_t y = 0; y < result.height; ++y) {
      for (int64_t x = 0; x < result.width; ++x) {
        for (int64_t channel = 0; channel < 3; ++channel) {
          const int64_t at = (channel * frames + frame) * plane + y / scale * width + x / scale;
          const float value = std::clamp(nth(latents, at), -1.0F, 1.0F);
          pixels.push_back(static_cast<uint8_t>(std::lround((value + 1) * 127.5F)));
        }
      }
    }
  }
  return result;
}

Animation strip_of(const Animation& animation, int64_t gap) {
  const auto frames = std::ssize(animation.frames);
  Animation strip{.width = frames * (animation.width + gap) - gap, .height = animation.height};
  constexpr uint8_t kWhite = 255;
  std::vector<uint8_t>& pixels =
      strip.frames.emplace_back(make_vector<uint8_t>(3 * strip.width * strip.height, kWhite));
  for (int64_t frame = 0; frame < frames; ++frame) {
    for (int64_t y = 0; y < strip.height; ++y) {
      const auto from = nth(animation.frames, frame).begin() + 3 * y * animation.width;
      const int64_t to = 3 * (y * strip.width + frame * (animation.width + gap));
      std::copy_n(from, 3 * animation.width, pixels.begin() + to);
    }
  }
  return strip;
}

std::string data_url(std::string_view gif) { return "data:image/gif;base64," + base64(gif); }

std::string gif_of(const Animation& animation, int64_t frames_per_second) {
  constexpr int64_t kMost = 65535;
  SPILLWAY_CHECK(animation.width >= 1 && animation.width <= kMost && animation.height >= 1 &&
                     animation.height <= kMost && !animation.frames.empty(),
                 "a GIF of {} x {}", animation.width, animation.height);
  std::string out = "GIF89a";
  append_u16(out, animation.width);
  append_u16(out, animation.height);
  out += static_cast<char>(0xF7);  // 256 colours of 8 bits
  out += std::string(2, '\0');
  append_palette(out);
  const bool moves = animation.frames.size() > 1;
  if (moves) out += std::string("\x21\xFF\x0BNETSCAPE2.0\x03\x01\x00\x00\x00", 19);  // for ever
  for (const std::vector<uint8_t>& frame : animation.frames) {
    out += std::string("\x21\xF9\x04\x00", 4);
    append_u16(out, moves ? 100 / std::max<int64_t>(1, frames_per_second) : 0);
    out += std::string("\x00\x00\x2C\x00\x00\x00\x00", 7);
    append_u16(out, animation.width);
    append_u16(out, animation.height);
    out += '\0';
    std::vector<uint8_t> colours;
    for (size_t i = 0; i < frame.size(); i += 3) colours.push_back(colour_of(&frame[i]));
    append_pixels(colours, out);
  }
  return out + ';';
}

}  // namespace spillway
