#include "model/layers.h"

#include <utility>

#include "ops/add/add.h"
#include "ops/dropout/dropout.h"
#include "ops/matmul/matmul.h"

namespace spillway {
Layers::Layers(Builder& builder, const ModelOptions& options, const LinearStorage& in_files)
    : builder_(builder), options_(options), in_files_(in_files) {}

ValueId Layers::declare_dropout() {
  if (options_.lora && options_.lora->dropout > 0)
    dropout_seed_ = builder_.input("batch.dropout_seed", {DType::kI64, {1}}, ValueKind::kBatch);
  return dropout_seed_;
}

Parameter Layers::base_parameter(ParameterRole role, const std::string& module, const Shape& shape) const {
  const bool is_bias = role == ParameterRole::kBias || role == ParameterRole::kScoreBias;
  return named_parameter(role, module + (is_bias ? ".bias" : ".weight"), module, shape);
}

// It is trained in full fine-tuning, where that is not for other weights, and where its module is one of
// modules_to_save.
Parameter Layers::named_parameter(ParameterRole role, std::string name, const std::string& module,
                                  const Shape& shape) const {
  const bool in_full = options_.train_base && (options_.unfrozen.empty() || options_.unfrozen.contains(name));
  return {.name = name,
          .module = module,
          .role = role,
          .shape = shape,
          .dtype = options_.dtype,
          .trained = in_full || (options_.lora && is_saved_in_full(*options_.lora, name)),
          .source = {name, shape}};
}

ValueId Layers::constant(std::string name, std::vector<float> content) {
  const Shape shape = {std::ssize(content)};
  return add({.name = std::move(name), .role = ParameterRole::kConstant, .shape = shape, .content = std::move(content)})
      .value();
}

ValueId Layers::linear(const LinearLayer& layer, ValueId x, ValueId residual) {
  Parameter w = base_parameter(ParameterRole::kLinear, layer.module, {layer.out_features, layer.in_features});
  w.source.storage = in_files_.of(layer.module);
  if (!w.trained) w.storage = options_.linear_storage ? options_.linear_storage->of(layer.module) : w.source.storage;
  const Parameter& added = add(std::move(w));
  const StoragePtr storage = added.storage;
  const WeightSpec spec = added.spec();
  const std::vector<ValueId> parts = added.values;
  const ValueId update = adapter_update(layer, x);
  // In bf16 an update that came onto the finished sum would mostly be rounded away, and always one that came onto the
  // residual stream: it goes into the sums of the product, in f32, and only what they give joins the stream.
  const bool joins_late = is_adapted(layer) && residual != kNone;
  const ValueId bias = layer.bias ? weight(ParameterRole::kBias, layer.module, {layer.out_features}) : kNone;
  const ops::LinearOptions added_up{.addend = is_adapted(layer) ? update : residual, .bias = bias};
  const ValueId y = storage->linear(builder_, x, spec, parts, added_up);
  return joins_late ? ops::add(builder_, y, residual) : y;
}

bool Layers::is_adapted(const LinearLayer& layer) const {
  return options_.lora && spillway::is_adapted(*options_.lora, layer.module);
}

// scale * B A dropout(x), where the module has an adapter.
ValueId Layers::adapter_update(const LinearLayer& layer, ValueId x) {
  if (!is_adapted(layer) || options_.adapter_is_off) return kNone;
  const LoraOptions& lora = *options_.lora;
  const ValueId a = lora_weight(layer, ParameterRole::kLoraA);
  const ValueId b = lora_weight(layer, ParameterRole::kLoraB);
  if (dropout_seed_ != kNone) x = ops::dropout(builder_, x, dropout_seed_, lora.dropout, trained_);
  return ops::matmul(builder_, ops::linear(builder_, x, a), b,
                     {.transpose_b = true, .alpha = lora.scale_of(layer.module)});
}

ValueId Layers::lora_weight(const LinearLayer& layer, ParameterRole role) {
  const bool is_a = role == ParameterRole::kLoraA;
  const int64_t r = options_.lora->rank_of(layer.module);
  return add({.name = lora_name(layer.module, is_a ? 'A' : 'B'),
              .module = layer.module,
              .role = role,
              .shape = is_a ? Shape{r, layer.in_features} : Shape{layer.out_features, r},
              .dtype = options_.dtype,
              .trained = true})
      .value();
}

const Parameter& Layers::add(Parameter parameter) {
  parameter.is_copy = options_.copies.contains(parameter.name);
  if (parameter.is_copy) parameter.trained = false;
  const std::string_view prefix = parameter.is_copy ? kCopyPrefix : "";
  const ValueKind kind = parameter.trained ? ValueKind::kTrainableWeight : ValueKind::kFrozenWeight;
  for (const StoragePart& part : parameter.storage->parts(parameter.spec())) {
    parameter.values.push_back(
        builder_.input(fmt::format("{}{}{}", prefix, parameter.name, part.suffix), {part.dtype, part.shape}, kind));
  }
  trained_ += parameter.trained;
  return parameters_[parameters_.add(std::move(parameter))];
}

}  // namespace spillway
