#include "model/model.h"

#include <utility>

#include "base/error.h"

namespace spillway {

ModelOptions ModelOptions::without_dropout() const {
  ModelOptions options = *this;
  if (options.lora) options.lora->dropout = 0;
  options.neftune_noise_alpha = 0;
  return options;
}

CachedModelGraph Model::build_cached(Builder&, const ModelOptions&, int64_t, CacheUse) const {
  report_bug(__FILE__, __LINE__, "build_cached", "a model without text generates none");
}

ModelPtr Model::with_vocab_size(int64_t) const {
  report_bug(__FILE__, __LINE__, "with_vocab_size", "a model without text has no vocabulary");
}

ModelPtr Model::with_score(const ScoreHead&, std::optional<int64_t>) const {
  report_bug(__FILE__, __LINE__, "with_score", "a model without text scores none");
}

ParameterTable parameters_of(const Model& model, ModelOptions options) {
  options.tokens = options.max_sequences = 1;
  Graph graph;
  Builder builder(graph);
  ParameterTable result = model.build(builder, options).parameters;
  result.forget_values();
  return result;
}

void check_predicts_tokens(const TextModel& text, std::string_view where) {
  if (text.score)
    throw input_error(where, "expected a model that predicts tokens, got one that scores texts; name another");
}

const TextModel& text_of(const Model& model, std::string_view where) {
  if (const TextModel* text = model.text()) return *text;
  throw input_error(where, "expected a model that reads text, got one that does not; name another");
}

}  // namespace spillway
