#include "infer/inference_model.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "infer/linear_storage.h"
#include "model/adapter.h"
#include "model/decoder/layer.h"
#include "model/layout.h"
#include "model/quantised/base_format.h"

namespace spillway::infer {
namespace {

// Returns the dtype of the model's files by one of their weights: for text models the embedding, which is the first;
// for models of clips a linear layer of a block, since some of their other weights are always f32.
DType stored_dtype(const Model& model, const ParameterTable& parameters, const SafetensorsFolder& folder) {
  const auto telling = std::find_if(parameters.begin(), parameters.end(), [&](const Parameter& p) {
    return p.is_of_model() && (!model.video() || p.role == ParameterRole::kLinear);
  });
  return folder.find(telling->source.name)->dtype().value_or(DType::kBF16);
}

// Returns what weights of `stored` are computed in: no kernel computes in f16, and bf16 is the nearest with its speed.
DType compute_dtype(DType stored) { return stored == DType::kF32 ? DType::kF32 : DType::kBF16; }

InferenceModel read(const ModelPtr& model, const std::filesystem::path& folder, const std::filesystem::path& adapter,
                    const config::Config* config) {
  const ParameterTable stored = parameters_of(*model);
  InferenceModel result{.model = model, .options = {}, .base = open_model_weights(folder, stored), .factors = {}};
  ModelOptions& options = result.options;
  const DType dtype = stored_dtype(*model, stored, result.base);
  options.dtype = compute_dtype(dtype);
  if (config != nullptr) {
    options.dtype = config->model.bf16 ? DType::kBF16 : DType::kF32;
  } else if (dtype == DType::kF16) {
    log_info("the weights of {} are float16; they are rounded to bfloat16, which has 3 bits less", folder.string());
  }
  if (config != nullptr && config->model.qat && adapter.empty()) {
    options.fake_quantisation = fake_quantisation_of(*config->model.qat);
    options.fake_quantisation->after_steps = 0;
  }
  if (!adapter.empty()) {
    options.lora = read_adapter_options(adapter);
    options = options.without_dropout();
    result.model = fit_to_adapter(model, *options.lora, adapter);
  }
  ParameterTable parameters = parameters_of(*result.model, options);
  // This comes after the adapter, since LoftQ's bits apply to the layers that it adapts.
  if (config != nullptr) options.linear_storage = linear_storage(*config, parameters, options.dtype);
  if (adapter.empty()) return result;
  if (options.linear_storage) parameters = parameters_of(*result.model, options);
  result.factors = open_adapter_weights(adapter, parameters, *options.lora);
  if (const auto change = find_base_change(adapter, parameters))
    log_warning("{}. `spillway merge --base quantised` makes the model that was trained", change->text(adapter));
  return result;
}

}  // namespace

void InferenceModel::stream_experts() { options.experts_apart = options.streams_experts = has_mixture(*model); }

DType files_dtype(const Model& model, const std::filesystem::path& folder) {
  if (!has_weights(folder)) return model.dtype() == DType::kF32 ? DType::kF32 : DType::kBF16;
  const ParameterTable parameters = parameters_of(model);
  return compute_dtype(stored_dtype(model, parameters, open_model_weights(folder, parameters)));
}

InferenceModel read_inference_model(const std::filesystem::path& folder, const std::filesystem::path& adapter,
                                    const config::Config* config) {
  const ModelPtr model = read_model(folder, config == nullptr ? "" : config->model.config_overrides);
  check_predicts_tokens(text_of(*model, folder.string()), folder.string());
  InferenceModel result = read(model, folder, adapter, config);
  check_predicts_tokens(text_of(*result.model, adapter.string()), adapter.string());
  return result;
}

InferenceModel read_video_model(const std::filesystem::path& folder, const std::filesystem::path& adapter) {
  const ModelPtr model = read_model(folder);
  if (!model->video())
    throw input_error(folder.string(), "expected a video transformer in diffusers' layout, got a model of text; {}",
                      "name another");
  return read(model, folder, adapter, nullptr);
}

void InferenceModel::load(const ParameterTable& parameters, ValueStore& store) const {
  load_base_weights(parameters, base, store);
  if (factors) load_adapter_weights(parameters, *factors, store);
}

}  // namespace spillway::infer
