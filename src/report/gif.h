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

// Converts latents that are pixels, f32 [3, frames, height, width] from -1 to 1; clamps them. Each pixel becomes
// `scale` x `scale` pixels.
[[nodiscard]] Animation pixels_of(std::span<const float> latents, int64_t frames, int64_t height, int64_t width,
                                  int64_t scale = 1);
// Returns one frame with all frames side by side, with `gap` white columns between them.
[[nodiscard]] Animation strip_of(const Animation& animation, int64_t gap = 2);

// Returns a URL that embeds the picture in a page: "data:image/gif;base64,...".
[[nodiscard]] std::string data_url(std::string_view gif);

// Returns the bytes of a GIF that repeats forever, in 252 colours (6 of red, 7 of green, 6 of blue). REQUIRES: 1 to
// 65535 pixels each way, and at least one frame.
[[nodiscard]] std::string gif_of(const Animation& animation, int64_t frames_per_second = 8);

}  // namespace spillway
