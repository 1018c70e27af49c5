// Models whose latents are pixels, as those of the moving-shapes example: vae/config.json beside the transformer says
// `"latents": "pixels"`. A pixel is from -1 to 1 before latents are normalised.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "base/json_field.h"
#include "data/clips/clip.h"

namespace spillway::infer {

// What a VAE's config.json says of its latents, a number a channel.
struct LatentNumbers {
  std::vector<float> mean, deviation;
};
[[nodiscard]] LatentNumbers read_latent_numbers(const JsonField& vae);

struct Pixels {
  std::vector<float> mean, deviation;  // of the latents, a number a channel: what normalising them takes away

  // [3, frames, height, width] from latents in normalised units.
  [[nodiscard]] std::vector<float> of(std::span<const float> latents, const data::ClipShape& shape) const;
};

// `folder` is the transformer's. Nothing where a VAE makes its latents. Throws InputError for a file that says
// otherwise than three channels.
[[nodiscard]] std::optional<Pixels> read_pixels(const std::filesystem::path& folder);

}  // namespace spillway::infer
