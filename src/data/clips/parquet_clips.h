// Rows of a Parquet file as FastVideo's preprocessing writes it.
#pragma once

#include <filesystem>
#include <memory>

#include "data/clips/clip_files.h"

namespace spillway::data {

// Columns NAME_bytes, NAME_shape and NAME_dtype for vae_latent, text_embedding and so on (clip_names.h), and timestep.
// A shape that is empty or null stands for a tensor that is not there. The columns of bytes are not read for headers().
// Throws InputError for a file that is none, or lacks a column.
[[nodiscard]] std::unique_ptr<ClipFile> make_parquet_clips(const std::filesystem::path& path, PageCursors& cursors);

}  // namespace spillway::data
