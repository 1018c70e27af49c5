// Names of a row's tensors in files.
#pragma once

#include <string_view>

namespace spillway::data {

// Names in safetensors files.
inline constexpr std::string_view kLatents = "latents", kTextEmbedding = "text_embedding",
                                  kClipFeature = "clip_feature", kFirstFrame = "first_frame_latent", kNoise = "noise",
                                  kTimestep = "timestep";
// The caption, in both formats: a column, and an entry in the metadata of the header.
inline constexpr const char* kCaption = "caption";
// The value of `latents` in the metadata of the header for latents in normalised units.
inline constexpr const char* kNormalised = "normalized";
// The name in place of `latents` in Parquet files, whose columns are NAME_bytes, NAME_shape, NAME_dtype.
inline constexpr std::string_view kVaeLatent = "vae_latent";

}  // namespace spillway::data
