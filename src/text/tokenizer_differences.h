// Finds tokenizers of model folders that other programs read otherwise than their tokenizer.json says.
#pragma once

#include <filesystem>
#include <string>

namespace spillway::text {

// Returns a sentence for a folder whose text becomes other ids in transformers 5, which makes some tokenizers anew of
// their vocabulary. Those are a LlamaTokenizer of a model of type llama: without the space before what follows a
// special token, unless `legacy` is set; and a Qwen2Tokenizer, or any of a model of type qwen2: with Qwen's rules.
// Empty for any other, and where the file has those rules.
[[nodiscard]] std::string other_ids_in_transformers(const std::filesystem::path& folder);

// Returns a sentence for a folder whose tokenizer_config.json says how to take an answer apart (response_template or
// response_schema): TRL's GRPO gives reward functions the parts, and here they get the text. Empty for any other.
[[nodiscard]] std::string other_answers_in_trl(const std::filesystem::path& folder);

}  // namespace spillway::text
