#include "job/reference.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "infer/linear_storage.h"

namespace spillway::train {
namespace {

constexpr const char* kReferenceKey = "ref_model";

// Reads the model in the folder that a key names. Throws InputError unless the vocabularies are equal: the reference
// reads the ids of the policy's tokenizer, and their log-probabilities are compared.
ModelPtr with_vocabulary_of(const Model& model, const config::Config& config, const char* key,
                            const std::string& folder) {
  ModelPtr other = read_model(folder);
  const TextModel& text = text_of(*other, key);
  check_predicts_tokens(text, key);
  const int64_t wanted = text_of(model, "base_model").vocab_size;
  if (text.vocab_size == wanted) return other;
  // Tokens that are added to the model are also added to its reference.
  if (text.vocab_size ==
      text_of(*read_model(config.model.base_model, config.model.config_overrides), "base_model").vocab_size)
    return text.with_vocab_size(wanted);
  throw input_error(key, "expected a model with a vocabulary of {}, as {} has, got {} in {}; name another", wanted,
                    quote(config.model.base_model), text.vocab_size, quote(folder));
}

// Linear layers are stored like those of the base: quantised if the config says so, unless the files have codes.
std::optional<LinearStorage> storage_of(const config::Config& config, const ParameterTable& parameters, DType dtype) {
  const bool has_codes = std::any_of(parameters.begin(), parameters.end(),
                                     [](const Parameter& p) { return p.source.storage->is_coded(); });
  if (has_codes) return {};
  return infer::linear_storage(config, parameters, dtype);
}

// Returns another model as the reference, frozen, with a copy of each of its weights.
ReferenceOptions other_model(const config::Config& config, const Model& model, const ModelOptions& options,
                             const char* key, const std::string& folder) {
  ReferenceOptions result{.model = options, .other = with_vocabulary_of(model, config, key, folder)};
  result.model->train_base = false;
  result.model->unfrozen.clear();
  result.model->lora.reset();
  result.model->linear_storage.reset();
  result.model->linear_storage = storage_of(config, parameters_of(*result.other, *result.model), options.dtype);
  for (const Parameter& p : parameters_of(*result.other, *result.model)) result.model->copies.insert(p.name);
  return result;
}

// Throws InputError unless sync_ref_model can mix the weights with their copies.
void check_shapes(const config::Config& config, const ParameterTable& model, const ParameterTable& other) {
  for (const Parameter& p : model) {
    if (!p.is_of_model()) continue;
    const Parameter* copy = other.find(p.name);
    if (copy != nullptr && copy->shape == p.shape) continue;
    throw input_error(kReferenceKey,
                      "expected {} as {}, as {} has it, got {} in {}; name another, or remove sync_ref_model", p.name,
                      to_string(p.shape), quote(config.model.base_model),
                      copy == nullptr ? "none" : to_string(copy->shape), quote(config.preference->ref_model));
  }
}

}  // namespace

ModelOptions policy_at_first(const config::Config& config, const Model& model, ModelOptions options) {
  for (const Parameter& p : parameters_of(model, options)) {
    if (p.trained) options.copies.insert(p.name);
  }
  // With B zero, the adapter has no effect.
  options.adapter_is_off = config.adapter && config.adapter->model_dir.empty() && !options.lora->starts_from_weights();
  return options;
}

ReferenceOptions reference_options(const config::Config& config, const Model& model, const ModelOptions& options) {
  const config::PreferenceSettings& preference = *config.preference;
  const std::string& folder = preference.ref_model;
  ReferenceOptions result = folder.empty() ? ReferenceOptions{.model = policy_at_first(config, model, options)}
                                           : other_model(config, model, options, kReferenceKey, folder);
  result.is_precomputed = preference.precompute_ref_log_probs;
  result.is_synced = preference.sync.has_value();
  if (result.other && result.is_synced)
    check_shapes(config, parameters_of(model, options), parameters_of(*result.other, *result.model));
  return result;
}

ReferenceOptions teacher_options(const config::Config& config, const Model& model, const ModelOptions& options) {
  return other_model(config, model, options, "teacher_model_name_or_path",
                     config.distillation->teacher_model_name_or_path);
}

std::filesystem::path reference_folder(const config::Config& config) {
  if (config.distillation) return config.distillation->teacher_model_name_or_path;
  const bool is_other = config.preference && !config.preference->ref_model.empty();
  return is_other ? config.preference->ref_model : config.model.base_model;
}

}  // namespace spillway::train
