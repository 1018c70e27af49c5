#include "job/online/value_model.h"

#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace spillway::train {
namespace {

constexpr const char* kValueModelKey = "value_model_path";

ModelPtr with_one_score(const ModelPtr& model, const std::string& folder) {
  const TextModel& text = text_of(*model, kValueModelKey);
  if (text.score && text.score->is_of_tokens)
    throw input_error(kValueModelKey,
                      "expected a classifier of one label, or a model of text, got {} that scores steps; name "
                      "another",
                      quote(folder));
  return text.with_score(ScoreHead{}, std::nullopt);
}

}  // namespace

void expect_ids_of_policy(std::string_view where, const Model& model, const std::string& folder, int64_t vocab_size) {
  if (const int64_t tokens = model.text()->vocab_size; tokens < vocab_size)
    throw input_error(where,
                      "expected a model of at least {} tokens, since it reads the ids of base_model, got {} in {}; "
                      "name one with the same tokenizer",
                      vocab_size, tokens, quote(folder));
}

ValueModel value_model(const config::Config& config, const Model& policy, const ModelOptions& options) {
  const std::string& folder = config.online->ppo.value_model;
  ValueModel result{.folder = folder, .model = with_one_score(read_model(folder), folder), .options = options};
  result.model->check_trains();
  expect_ids_of_policy(kValueModelKey, *result.model, folder, text_of(policy, "base_model").vocab_size);
  result.options.prefix = "value.";
  result.options.train_base = true;
  result.options.unfrozen.clear();
  result.options.lora.reset();
  result.options.linear_storage.reset();
  return result;
}

}  // namespace spillway::train
