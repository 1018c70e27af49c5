// A safetensors file with one row of a video dataset.
#pragma once

#include <filesystem>
#include <memory>

#include "data/clips/clip_files.h"

namespace spillway::data {

// Opens a file with the tensors `latents`, `text_embedding` and so on (clip_names.h), F32, F16, BF16 or F64. Ignores
// other tensors.
[[nodiscard]] std::unique_ptr<ClipFile> make_safetensors_clip(const std::filesystem::path& path);

}  // namespace spillway::data
