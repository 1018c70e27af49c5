// Makes the tokenizer files of a Hugging Face folder from a GGUF file's metadata.
//
// GGUF keeps the vocabulary, the merges or scores, the kind of each token and the name of the pre-tokenizer; the rest
// of tokenizer.json follows from those names, as in the tokenizers of the original models.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf.h"

namespace spillway {

// The kinds of tokens, with the numbers of the format.
enum GgufTokenKind : int32_t {
  kGgufNormal = 1,
  kGgufUnknown = 2,
  kGgufControl = 3,
  kGgufUserDefined = 4,
  kGgufUnused = 5,
  kGgufByte = 6,
};

struct GgufTokenizerFiles {
  nlohmann::ordered_json tokenizer;         // tokenizer.json
  nlohmann::ordered_json tokenizer_config;  // tokenizer_config.json
  int64_t tokens = 0;                       // of the vocabulary, without those that fill up the embedding
  // Ids for config.json and generation_config.json; generation ends at any of eos.
  std::optional<int64_t> bos, pad;
  std::vector<int64_t> eos;
};

// Throws InputError if the file has no tokenizer, one of an unsupported kind (named), or a corrupt one.
[[nodiscard]] GgufTokenizerFiles convert_gguf_tokenizer(const GgufFile& file);

// The parts of tokenizer.json that a byte-level pre-tokenizer (`tokenizer.ggml.pre`) stands for.
struct GgufPreTokenizer {
  nlohmann::ordered_json pre_tokenizer, normalizer;  // of tokenizer.json; null where there is none
  bool ignore_merges = false;                        // whole words of the vocabulary are looked up before any merge
  bool add_bos = false;                              // where tokenizer.ggml.add_bos_token does not say
};
// Returns the pre-tokenizer of a name; nothing if the name is unknown.
[[nodiscard]] std::optional<GgufPreTokenizer> gguf_pre_tokenizer(std::string_view name);
// Returns a name for each different pre-tokenizer, in the order of preference.
[[nodiscard]] std::vector<std::string> gguf_pre_tokenizer_families();
// Returns the known names, for messages.
[[nodiscard]] std::string gguf_pre_tokenizer_names();

// Returns the merges of a SentencePiece BPE vocabulary, which only stores a score for each piece, as "left right": all
// pairs of pieces that form a piece, the best score first (as Hugging Face converts such models). `usable[i]` says that
// piece i is text, rather than a control token or a single byte.
[[nodiscard]] std::vector<std::string> merges_from_scores(const std::vector<std::string>& pieces,
                                                          const std::vector<double>& scores,
                                                          const std::vector<bool>& usable);

}  // namespace spillway
