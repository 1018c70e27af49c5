// Whether a dataset's `type` exists.
#pragma once

#include <string_view>

#include "data/dataset_options.h"

namespace spillway::data {

// Rows that are clips, for models of video; what reads them is not a tokenizer (clips/clip_rows.h).
inline constexpr std::string_view kVideoLatents = "video_latents";

// Throws InputError where rows of the objective cannot be made by `config.type`, naming the types that there are.
void check_dataset_type(const DatasetConfig& config, Objective objective);

}  // namespace spillway::data
