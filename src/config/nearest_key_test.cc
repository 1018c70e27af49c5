#include "config/nearest_key.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "tests/support/config_error.h"

using spillway::testing::error_of;

namespace {

// The key that the error about an unknown one names; empty where it names none.
std::string named_for(const std::string& key) {
  const std::string error = error_of(key + ": 3\n");
  constexpr std::string_view kBefore = "did you mean ";
  const size_t begin = error.find(kBefore);
  if (begin == std::string::npos) return "";
  return error.substr(begin + kBefore.size(), error.find('?', begin) - begin - kBefore.size());
}

}  // namespace

TEST_CASE("abbreviations, plurals and words run together are near what they mean") {
  const std::pair<const char*, const char*> kNear[] = {{"grad_accumulation_steps", "gradient_accumulation_steps"},
                                                       {"grad_accum", "gradient_accumulation_steps"},
                                                       {"special_token", "special_tokens"},
                                                       {"dataset", "datasets"},
                                                       {"num_epoch", "num_epochs"},
                                                       {"epochs", "num_epochs"},
                                                       {"lr", "learning_rate"},
                                                       {"wd", "weight_decay"},
                                                       {"seq_len", "sequence_len"},
                                                       {"max_seq_len", "max_seq_length"},
                                                       {"batchsize", "batch_size"},
                                                       {"learningrate", "learning_rate"},
                                                       {"micro_bs", "micro_batch_size"},
                                                       {"lora_target_module", "lora_target_modules"},
                                                       {"learning_rate_scheduler", "lr_scheduler"},
                                                       {"evaluation_steps", "eval_steps"},
                                                       {"template", "chat_template"},
                                                       {"r", "lora_r"},
                                                       {"dropout", "lora_dropout"},
                                                       {"load_4bit", "load_in_4bit"}};
  for (const auto& [key, meant] : kNear) {
    CAPTURE(std::string(key));
    CHECK(named_for(key) == meant);
  }
}

TEST_CASE("a key that stands elsewhere is near by its last part") {
  CHECK(named_for("bos_token") == "special_tokens.bos_token");
  CHECK(named_for("generation_kwargs.tmperature") == "generation_kwargs.temperature");
  CHECK(named_for("memory.devise") == "memory.device");
  CHECK(named_for("special_tokens.lora_r") == "lora_r");
}

TEST_CASE("slips of the fingers are near, and words that are keys' own are no slips") {
  CHECK(named_for("learnign_rate") == "learning_rate");
  CHECK(named_for("weight_decy") == "weight_decay");
  CHECK(named_for("lora_rr") == "lora_r");
  CHECK(named_for("context_parapllel_size") == "context_parallel_size");
  for (const char* key : {"use_lora", "test_value", "full_finetune", "zzzzzzzz", "generation_kwargs.num_beams"}) {
    CAPTURE(std::string(key));
    CHECK(named_for(key).empty());
  }
}
