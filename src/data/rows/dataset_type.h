// The checks of a dataset's `type`, and of the options that go with it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/dataset_options.h"

namespace spillway::data {

// The type of rows that are clips, for models of video. They are not tokenised (clips/clip_rows.h).
inline constexpr std::string_view kVideoLatents = "video_latents";

// Throws InputError if rows of the objective cannot be made by `config.type`, naming the types that exist.
// `where` is the place of `type` for the message, such as "c.yml:3: datasets.0.type".
void check_dataset_type(const DatasetConfig& config, Objective objective, std::string_view where);

// An option of a dataset's entry that rows of its type do not read.
struct UnreadOption {
  std::string key;           // of the entry, such as "roles_to_train", or "type.field_prompt" of a mapping
  std::string advice;        // the words that make it count, such as "set type: chat_template"; empty: nothing does
  bool is_harmless = false;  // rows of the type do anyway what the value says
};

// Returns the options that rows of `config.type` do not read, whether or not the config gives them; of a mapping only
// those that it has. Empty for clips, which have no table. REQUIRES: check_dataset_type() takes the type.
[[nodiscard]] std::vector<UnreadOption> unread_options(const DatasetConfig& config, Objective objective);

// Returns the rows of a type as messages name them, such as "rows without a type" or "rows of type: alpaca".
[[nodiscard]] std::string rows_named(const DatasetType& type);

}  // namespace spillway::data
