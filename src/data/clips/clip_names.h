// Names of a row's tensors in files.
#pragma once

#include <string_view>

namespace spillway::data {

// In safetensors files.
inline constexpr std::string_view kLatents = "latents", kTextEmbedding = "text_embedding",
                                  kClipFeature = "clip_feature", kFirstFrame = "first_frame_latent", kNoise = "noise",
                                  kTimestep = "timestep";
// Of either: a column, and an entry of the header's metadata.
inline constexpr const char* kCaption = "caption";
// What the header's metadata says under `latents` where those are in normalised units.
inline constexpr const char* kNormalised = "normalized";
// In Parquet: NAME_bytes, NAME_shape, NAME_dtype, with this in the place of `latents`.
inline constexpr std::string_view kVaeLatent = "vae_latent";

}  // namespace spillway::data
