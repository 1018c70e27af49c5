// Reads tokenizer.json. The two large members, the vocabulary and the merges, go straight into lists; the rest, a few
// kilobytes, becomes a JSON document.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway::text {

struct TokenizerFile {
  nlohmann::json rest;  // the document without model.vocab and model.merges if these have the shapes below
  // model.vocab in file order: an object, or a list of pieces with scores, whose ids are their places.
  std::vector<std::pair<std::string, int64_t>> vocab;
  std::vector<double> scores;                               // of the pieces of such a list, else empty
  std::vector<std::pair<std::string, std::string>> merges;  // model.merges as pairs or as "left right"
  bool has_vocab = false, has_merges = false;
};

// Throws InputError naming `where` and the byte if it is no JSON, and the member for a vocabulary that maps to anything
// but integers, pieces that have no score, and merges that are no pairs.
[[nodiscard]] TokenizerFile read_tokenizer_file(std::string_view json, std::string_view where);

}  // namespace spillway::text
