// Rows of online reinforcement learning: a prompt to answer, and columns that reward functions read.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "data/dataset_options.h"
#include "data/rows/left_out_parts.h"
#include "text/tokenizer.h"

namespace spillway::data {

struct PromptRow {
  std::vector<int32_t> ids;        // with what opens an answer; at least one
  nlohmann::ordered_json prompt;   // text, or a list of messages
  nlohmann::ordered_json columns;  // an object: all other fields of the record
  std::string where;               // for messages: "prompts.jsonl:12"
  LeftOutParts left_out;           // of a list of messages
};

// Makes prompt rows from records with the function MODULE.FUNCTION that the dataset's type names; returns as many, in
// the same order.
using RowTransform = std::function<std::vector<nlohmann::ordered_json>(const std::string& function,
                                                                       std::vector<nlohmann::ordered_json> records)>;

// Throws InputError if `config.type` makes other rows than prompts.
void check_prompt_type(const DatasetConfig& config, std::string_view where);

// Loads the rows of all datasets, one after the other. A text is encoded with or without the special tokens that the
// tokenizer adds; messages are rendered with the chat template of the dataset, else of the config, else of the
// tokenizer. No prompt is cut. With options.deduplicate only the first of equal rows (prompt and columns) stays. Calls
// `transform` for datasets whose type is a function's name, with some of their records at a time. Throws InputError for
// files that are missing or unreadable (with the line), records without a prompt, and prompts without a token; and what
// `transform` throws.
[[nodiscard]] std::vector<PromptRow> load_prompts(std::span<const DatasetConfig> configs, const RowOptions& options,
                                                  const text::Tokenizer& tokenizer, bool adds_special_tokens = true,
                                                  const RowTransform& transform = {});

}  // namespace spillway::data
