// Reads the roles of special tokens and the chat templates from the files beside tokenizer.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_field.h"
#include "text/chat_template_files.h"

namespace spillway::text {

struct SpecialTokens {
  std::optional<std::string> bos, eos, pad, unk;
  ChatTemplateSources chat_templates;

  // Sets the roles that tokenizer_config.json or special_tokens_map.json has, in place of an earlier file's, and the
  // templates if no earlier file had any. Throws InputError for members of the wrong type.
  void add(const JsonField& config);
};

// Returns the tokens that end generation as the texts of a folder's generation_config.json and config.json say, each
// empty if there is no such file: "eos_token_id", one id or a list, of the former, or, without it, of the latter or its
// text_config, from which transformers then makes it. Throws InputError with `folder` for files that are no such.
[[nodiscard]] std::vector<int32_t> read_stop_ids(const std::string& generation_config, const std::string& config,
                                                 const std::filesystem::path& folder);

// Parses one of these small files. Throws InputError with `where` if it is no JSON object.
[[nodiscard]] nlohmann::json parse_config(std::string_view text, std::string_view where);

}  // namespace spillway::text
