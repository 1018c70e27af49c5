// Rows of a video dataset: latents that a VAE computed from a clip, with the embedding of its text and the other inputs
// of a model. docs/data/clips.md describes the files.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spillway::data {

// A model's requirements of clips. The names of the diffusers config are in brackets.
struct ClipDemands {
  int64_t channels = 0;                      // of latents [out_channels]
  std::array<int64_t, 3> patch = {1, 2, 2};  // frames, rows and columns of a patch [patch_size]
  int64_t max_positions = 0;                 // along each axis, in patches [rope_max_seq_len]
  int64_t text_width = 0;                    // [text_dim]
  int64_t image_width = 0;                   // of clip_feature [image_dim]; 0: the model reads no image
  int64_t image_channels = 0;                // of first_frame_latent [in_channels - out_channels]; 0: none
  int64_t timestep_size = 256;               // [freq_dim]
};

// Latents [channels, frames, height, width].
struct ClipShape {
  int64_t channels = 0, frames = 0, height = 0, width = 0;

  [[nodiscard]] int64_t elems() const { return channels * frames * height * width; }
  // REQUIRES: the patch divides the shape.
  [[nodiscard]] int64_t patches(const std::array<int64_t, 3>& patch) const {
    return frames / patch[0] * (height / patch[1]) * (width / patch[2]);
  }
  bool operator==(const ClipShape&) const = default;
};

// "[16, 20, 60, 104]"
[[nodiscard]] std::string to_string(const ClipShape& shape);

// The properties of a row without its values.
struct ClipHeader {
  ClipShape latents;           // with the frames that num_latent_t leaves
  int64_t text_rows = 0;       // as stored
  int64_t image_rows = 0;      // of clip_feature; 0: the row has none
  bool is_normalised = false;  // latents need no mean and deviation
  bool has_noise = false, has_timestep = false;
  std::string caption;  // for those who look; the beginning of a long one; perhaps empty
};

// A row's values, in f32 and finite, with the frames that num_latent_t leaves.
struct Clip {
  ClipHeader header;
  std::vector<float> latents;      // [channels, frames, height, width]
  std::vector<float> text;         // [text_rows, text_width]
  std::vector<float> image;        // [image_rows, image_width], or empty
  std::vector<float> first_frame;  // [image_channels, frames, height, width], or empty
  std::vector<float> noise;        // of the latents' shape, in normalised units, or empty
  std::optional<float> timestep;   // 0 to 1000
};

}  // namespace spillway::data
