#include "model/generation_defaults.h"

#include <limits>
#include <string_view>

namespace spillway {
namespace {

struct Unfollowed {
  std::string_view key;
  double off = 0;  // the value that changes nothing, beside null, false and an empty list
};

// The keys of transformers' logits processors and kinds of decoding that have no counterpart here.
constexpr Unfollowed kUnfollowed[] = {{"bad_words_ids"},
                                      {"begin_suppress_tokens"},
                                      {"constraints"},
                                      {"diversity_penalty"},
                                      {"dola_layers"},
                                      {"encoder_no_repeat_ngram_size"},
                                      {"encoder_repetition_penalty", 1},
                                      {"epsilon_cutoff"},
                                      {"eta_cutoff"},
                                      {"exponential_decay_length_penalty"},
                                      {"force_words_ids"},
                                      {"forced_bos_token_id", -1},
                                      {"forced_eos_token_id", -1},
                                      {"guidance_scale", 1},
                                      {"min_length"},
                                      {"min_new_tokens"},
                                      {"no_repeat_ngram_size"},
                                      {"num_beams", 1},
                                      {"penalty_alpha"},
                                      {"sequence_bias"},
                                      {"stop_strings"},
                                      {"typical_p", 1},
                                      {"watermarking_config"}};

bool is_off(const JsonField& field, double off) {
  return field.is_null() || (field.is_number() ? field.number() == off : !field.is_in_use());
}

}  // namespace

GenerationDefaults read_generation_defaults(const JsonField& json, int64_t vocab_size) {
  constexpr double kMinPenalty = 1e-3, kMaxPenalty = 1e3;
  GenerationDefaults result{.repetition_penalty = json["repetition_penalty"].real_or(1, kMinPenalty, kMaxPenalty)};
  if (const JsonField tokens = json["suppress_tokens"]; !tokens.is_null()) {
    for (const int64_t id : tokens.integers(-1, std::numeric_limits<int32_t>::max()))
      if (id >= 0 && id < vocab_size) result.suppressed.push_back(static_cast<int32_t>(id));
  }
  for (const Unfollowed& one : kUnfollowed)
    if (!is_off(json[one.key], one.off)) result.not_followed.emplace_back(one.key);
  return result;
}

}  // namespace spillway
