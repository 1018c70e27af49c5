#include "model/model.h"

#include <utility>

#include "base/error.h"

namespace spillway {

ModelOptions ModelOptions::without_dropout() const {
  ModelOptions options = *this;
  if (options.lora) options.lora->dropout = 0;
  options.neftune_noise_alpha = options.router_aux_loss_coef = 0;
  options.reports_expert_load = false;
  if (options.fake_quantisation) options.fake_quantisation->after_steps = 0;
  return options;
}

ParameterTable parameters_of(const Model& model, ModelOptions options) {
  options.tokens = options.max_sequences = options.context_ranks = 1;
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
