#include "model/generation_defaults.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"

using namespace spillway;

namespace {

GenerationDefaults read(std::string text) {
  const JsonDocument document(std::move(text), "generation_config.json");
  return read_generation_defaults(document.root(), 100);
}

}  // namespace

TEST_CASE("tokens that a model never chooses are read, and keys that change answers otherwise are named") {
  const GenerationDefaults plain = read(R"({"eos_token_id": 2, "num_beams": 1, "typical_p": 1.0, "min_length": 0,
    "guidance_scale": null, "stop_strings": [], "forced_bos_token_id": null, "do_sample": true, "top_p": 0.9})");
  CHECK(plain.repetition_penalty == 1);
  CHECK(plain.suppressed.empty());
  CHECK(plain.not_followed.empty());
  const GenerationDefaults all = read(R"({"repetition_penalty": 1.3, "suppress_tokens": [5, 7, -1, 100],
    "no_repeat_ngram_size": 1, "bad_words_ids": [[5]], "forced_bos_token_id": 0, "num_beams": 3})");
  CHECK(all.repetition_penalty == 1.3);
  CHECK(all.suppressed == std::vector<int32_t>{5, 7});  // others are no rows of the logits
  CHECK(all.not_followed ==
        std::vector<std::string>{"bad_words_ids", "forced_bos_token_id", "no_repeat_ngram_size", "num_beams"});
  CHECK_THROWS_AS((void)read(R"({"suppress_tokens": "all"})"), InputError);
}
