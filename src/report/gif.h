// Animated GIFs (GIF89a, https://www.w3.org/Graphics/GIF/spec-gif89a.txt) of small clips.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

// Frames of one size, in red, green and blue, rows from the top.
struct Animation {
  int64_t width = 0, height = 0;
  std::vector<std::vector<uint8_t>> frames;  // [height, width, 3] each
};

// Latents that are pixels, f32 [3, frames, height, width] from -1 to 1; what is beyond is cut. Each pixel becomes
// `scale` x `scale` of them.
[[nodiscard]] Animation pixels_of(std::span<const float> latents, int64_t frames, int64_t height, int64_t width,
                                  int64_t scale = 1);
// All frames side by side as one, with `gap` white columns between them.
[[nodiscard]] Animation strip_of(const Animation& animation, int64_t gap = 2);

// What a page shows without another file: "data:image/gif;base64,...".
[[nodiscard]] std::string data_url(std::string_view gif);

// The bytes of a GIF that repeats for ever, in 252 colours (6 of red, 7 of green, 6 of blue). REQUIRES: 1 to 65535
// pixels each way, and a frame.
[[nodiscard]] std::string gif_of(const Animation& animation, int64_t frames_per_second = 8);

}  // namespace spillway
