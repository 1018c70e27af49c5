// The check of a dataset's `type`.
#pragma once

#include <string_view>

#include "data/dataset_options.h"

namespace spillway::data {

// The type of rows that are clips, for models of video. They are not tokenised (clips/clip_rows.h).
inline constexpr std::string_view kVideoLatents = "video_latents";

// Throws InputError if rows of the objective cannot be made by `config.type`, naming the types that exist.
// `where` is the place of `type` for the message, such as "c.yml:3: datasets.0.type".
void check_dataset_type(const DatasetConfig& config, Objective objective, std::string_view where);

}  // namespace spillway::data
