#include "train/inference_model.h"

#include <algorithm>

#include "model/adapter.h"
#include "train/linear_storage.h"

namespace spillway::train {
namespace {

// What the first weight of the files, the embedding, says of all.
DType stored_dtype(const ParameterTable& parameters, const SafetensorsFolder& folder) {
  const auto first =
      std::find_if(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.is_of_model(); });
  return folder.find(first->source.name)->dtype() == DType::kF32 ? DType::kF32 : DType::kBF16;
}

}  // namespace

InferenceModel read_inference_model(const std::filesystem::path& folder, const std::filesystem::path& adapter,
                                    const config::Config* config) {
  ModelPtr model = read_model(folder);
  check_predicts_tokens(text_of(*model, folder.string()), folder.string());
  const ParameterTable stored = parameters_of(*model);
  InferenceModel result{.model = model, .options = {}, .base = open_model_weights(folder, stored), .factors = {}};
  ModelOptions& options = result.options;
  options.dtype = stored_dtype(stored, result.base);
  if (config != nullptr) {
    options.dtype = config->model.bf16 ? DType::kBF16 : DType::kF32;
    options.linear_storage = linear_storage(*config, stored, options.dtype);
  }
  if (!adapter.empty()) {
    options.lora = read_adapter_options(adapter);
    options.lora->dropout = 0;
    result.model = fit_to_adapter(model, *options.lora, adapter);
    result.factors = open_adapter_weights(adapter, parameters_of(*result.model, options), *options.lora);
  }
  return result;
}

void InferenceModel::load(const ParameterTable& parameters, ValueStore& store) const {
  load_base_weights(parameters, base, store);
  if (factors) load_adapter_weights(parameters, *factors, store);
}

}  // namespace spillway::train
