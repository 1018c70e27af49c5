// A safetensors file that is a row of a video dataset.
#pragma once

#include <filesystem>
#include <memory>

#include "data/clips/clip_files.h"

namespace spillway::data {

// Tensors `latents`, `text_embedding` and so on (clip_names.h), F32, F16, BF16 or F64. Other tensors are not looked at.
[[nodiscard]] std::unique_ptr<ClipFile> make_safetensors_clip(const std::filesystem::path& path);

}  // namespace spillway::data
