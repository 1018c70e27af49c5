// Reads the roles of special tokens and the chat templates from the files beside tokenizer.json.
#pragma once

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

// Returns "eos_token_id" of generation_config.json: one id or a list; empty if it is absent.
[[nodiscard]] std::vector<int32_t> read_stop_ids(const JsonField& generation_config);

// Parses one of these small files. Throws InputError with `where` if it is no JSON object.
[[nodiscard]] nlohmann::json parse_config(std::string_view text, std::string_view where);

}  // namespace spillway::text
