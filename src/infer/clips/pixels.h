// Models whose latents are pixels, as in the moving-shapes example: vae/config.json beside the transformer says
// `"latents": "pixels"`. Pixels are in [-1, 1] before the latents are normalised.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "base/json_field.h"
#include "data/clips/clip.h"

namespace spillway::infer {

// The mean and the standard deviation of a VAE's latents, from its config.json: one number per channel.
struct LatentNumbers {
  std::vector<float> mean, deviation;
};
[[nodiscard]] LatentNumbers read_latent_numbers(const JsonField& vae);

struct Pixels {
  std::vector<float> mean, deviation;  // of the latents, a number a channel: what normalising them takes away

  // Returns [3, frames, height, width] for latents in normalised units.
  [[nodiscard]] std::vector<float> of(std::span<const float> latents, const data::ClipShape& shape) const;
};

// Reads the statistics of the model whose transformer is in `folder`; returns nothing if a VAE makes its latents.
// Throws InputError unless there are three channels.
[[nodiscard]] std::optional<Pixels> read_pixels(const std::filesystem::path& folder);

}  // namespace spillway::infer
