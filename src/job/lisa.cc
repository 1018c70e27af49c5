#include "job/lisa.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "config/values.h"

namespace spillway::train {
namespace {

constexpr std::string_view kCountKey = "lisa_n_layers";

void check_job(const Job& job) {
  if (job.model->text() == nullptr)
    throw input_error(kCountKey, "expected a model of text, got one of clips; remove it");
  if (job.graph.optimizer->step_state != nullptr)
    throw input_error(kCountKey, "expected an optimizer that keeps its numbers weight by weight, got {}; {}",
                      config::print_value(job.config.optimizer.optimizer),
                      "write optimizer: adamw_torch, or remove lisa_n_layers");
}

// Returns the elements of the weights of each layer.
std::vector<int64_t> elems_of_layers(const ParameterTable& parameters, const DrawnLayers& layers, int64_t count) {
  std::vector<int64_t> elems(static_cast<size_t>(count), 0);
  for (const Parameter& p : parameters)
    if (const std::optional<int64_t> layer = layers.layer_of(p.name)) nth(elems, *layer) += p.shape.elems();
  return elems;
}

}  // namespace

DrawnLayers heaviest_layers(const Job& job) {
  check_job(job);
  const config::LisaSettings& lisa = *job.config.model.lisa;
  const ParameterTable parameters = parameters_of(*job.model, job.graph.model);
  const std::string list = layer_list(parameters);
  if (lisa.layers_attribute != list)
    throw input_error("lisa_layers_attribute", "expected the list of this model's layers, {}, got {}; write {}", list,
                      quote(lisa.layers_attribute), list);
  const int64_t count = count_layers(parameters, list);
  if (lisa.layers > count)
    throw input_error(kCountKey, "expected at most the model's {} layers, got {}; lower it", count, lisa.layers);
  DrawnLayers result{.list = list};
  const std::vector<int64_t> elems = elems_of_layers(parameters, result, count);
  for (int64_t layer = count; layer-- > 0;) result.numbers.push_back(layer);
  std::stable_sort(result.numbers.begin(), result.numbers.end(),
                   [&](int64_t a, int64_t b) { return nth(elems, a) > nth(elems, b); });
  result.numbers.erase(result.numbers.begin() + lisa.layers, result.numbers.end());
  std::sort(result.numbers.begin(), result.numbers.end());
  return result;
}

}  // namespace spillway::train
