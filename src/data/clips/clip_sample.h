// A clip that is ready for training: the inputs of a step, which `spillway preprocess` also writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/clips/clip.h"
#include "data/clips/clip_draws.h"

namespace spillway::data {

struct ClipSample {
  int64_t row = 0;     // of the dataset
  int64_t sample = 0;  // of the run
  ClipShape shape;
  std::vector<float> latents, noise;  // of that shape, in normalised units
  float timestep = 0, sigma = 0;
  bool text_dropped = false;
  int64_t text_len = 0;     // rows of text
  int64_t text_rows = 0;    // of those the ones that are not padding; 0 where the text is dropped
  std::vector<float> text;  // [text_len, text_width]: padded with zeros, or cut; all zeros where it is dropped
  int64_t image_rows = 0;
  std::vector<float> image;        // [image_rows, image_width], or empty
  std::vector<float> first_frame;  // [image_channels, frames, height, width], or empty

  // The size of all values.
  [[nodiscard]] int64_t bytes() const;
};

// Normalises latents as (z - mean) * (1 / std) in f32, unless the row says that they are normalised, and draws what the
// row does not contain. `timestep` replaces the drawn one, but not the row's own. REQUIRES: check_flow_options() has
// passed.
[[nodiscard]] ClipSample prepare_sample(Clip clip, int64_t row, const FlowOptions& options, const FlowTable& table,
                                        int64_t sample, std::optional<float> timestep = {});

// "000017.safetensors"
[[nodiscard]] std::string sample_file_name(int64_t sample);
// Writes the sample as a row of a dataset (clip_rows.h) that gives the same bits again, whatever is drawn. Throws
// MachineError.
void write_sample(const std::filesystem::path& path, const ClipSample& sample);

}  // namespace spillway::data
