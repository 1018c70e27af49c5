// Rows of Parquet files in the format of FastVideo's preprocessing.
#pragma once

#include <filesystem>
#include <memory>

#include "data/clips/clip_files.h"

namespace spillway::data {

// Opens a file with the columns NAME_bytes, NAME_shape and NAME_dtype for vae_latent, text_embedding and so on
// (clip_names.h), and timestep. An empty or null shape means that the tensor is missing. headers() does not read the
// columns of bytes. Throws InputError for any other file, and if a column is missing.
[[nodiscard]] std::unique_ptr<ClipFile> make_parquet_clips(const std::filesystem::path& path, PageCursors& cursors);

}  // namespace spillway::data
