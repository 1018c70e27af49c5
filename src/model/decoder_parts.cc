#include "model/decoder_parts.h"

#include "ops/add/add.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/matmul/matmul.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"
#include "ops/swiglu/swiglu.h"

namespace spillway {

DecoderParts::DecoderParts(Builder& builder, const ModelConfig& config, const DecoderOptions& options)
    : builder_(builder), config_(config), options_(options) {
  inv_freq_ =
      builder.input(std::string(kRopeFrequencies), {DType::kF32, {config.head_dim / 2}}, ValueKind::kFrozenWeight);
}

void DecoderParts::set_stream(ValueId positions, ValueId dropout_seed) {
  positions_ = positions;
  dropout_seed_ = dropout_seed;
}

ValueId DecoderParts::embed(ValueId ids) {
  embedding_ = weight(std::string(kEmbedding), {config_.vocab_size, config_.hidden_size});
  return ops::embedding(builder_, ids, embedding_);
}

ValueId DecoderParts::norm(ValueId x, std::string_view name) {
  return ops::rms_norm(builder_, x, weight(std::string(name), {config_.hidden_size}), config_.rms_norm_eps);
}

AttentionHeads DecoderParts::project_heads(int64_t layer, ValueId x) {
  return {.q = linear(layer, Projection::kQuery, x),
          .k = linear(layer, Projection::kKey, x),
          .v = linear(layer, Projection::kValue, x)};
}

void DecoderParts::normalise_heads(int64_t layer, AttentionHeads& heads) {
  const auto normalise = [&](ValueId x, std::string_view name) {
    const ValueId w = weight(fmt::format("{}self_attn.{}.weight", layer_prefix(layer), name), {config_.head_dim});
    return ops::rms_norm(builder_, x, w, config_.rms_norm_eps);
  };
  heads.q = normalise(heads.q, "q_norm");
  heads.k = normalise(heads.k, "k_norm");
}

void DecoderParts::rotate_heads(AttentionHeads& heads) {
  heads.q = ops::rope(builder_, heads.q, positions_, inv_freq_, config_.head_dim);
  heads.k = ops::rope(builder_, heads.k, positions_, inv_freq_, config_.head_dim);
}

ValueId DecoderParts::project_output(int64_t layer, ValueId attended, ValueId residual) {
  return linear(layer, Projection::kOutput, attended, residual);
}

ValueId DecoderParts::mlp(int64_t layer, ValueId x, ValueId residual) {
  const ValueId gate = linear(layer, Projection::kGate, x);
  const ValueId up = linear(layer, Projection::kUp, x);
  return linear(layer, Projection::kDown, ops::swiglu(builder_, gate, up), residual);
}

ValueId DecoderParts::head() {
  return config_.tie_word_embeddings ? embedding_
                                     : weight(std::string(kHead), {config_.vocab_size, config_.hidden_size});
}

ValueId DecoderParts::linear(int64_t layer, Projection projection, ValueId x, ValueId residual) {
  const LinearModule module = linear_module(config_, layer, projection);
  const ValueId w = weight(module.name + ".weight", {module.out_features, module.in_features});
  const ValueId update = adapter_update(module, x);
  // In bf16 an update that came onto the finished sum would mostly be rounded away, and always one that came onto the
  // residual stream: it goes into the sums of the product, in f32, and only what they give joins the stream.
  const bool joins_late = update != kNone && residual != kNone;
  const ValueId bias = module.bias ? weight(module.name + ".bias", {module.out_features}) : kNone;
  const ValueId y = ops::linear(builder_, x, w, {.addend = update != kNone ? update : residual, .bias = bias});
  return joins_late ? ops::add(builder_, y, residual) : y;
}

// scale * B A dropout(x), where the module has an adapter.
ValueId DecoderParts::adapter_update(const LinearModule& module, ValueId x) {
  if (!options_.lora || !is_adapted(*options_.lora, module.name)) return kNone;
  const LoraOptions& lora = *options_.lora;
  const ValueId a = lora_weight(module, 'A', {lora.r, module.in_features});
  const ValueId b = lora_weight(module, 'B', {module.out_features, lora.r});
  if (dropout_seed_ != kNone) {
    x = ops::dropout(builder_, x, dropout_seed_, lora.dropout, static_cast<int64_t>(trainable_.size()));
  }
  return ops::matmul(builder_, ops::linear(builder_, x, a), b, {.transpose_b = true, .alpha = lora.scale()});
}

ValueId DecoderParts::weight(std::string name, const Shape& shape) {
  const bool trains = options_.train_base || (options_.lora && is_saved_in_full(*options_.lora, name));
  const ValueKind kind = trains ? ValueKind::kTrainableWeight : ValueKind::kFrozenWeight;
  const ValueId id = builder_.input(std::move(name), {options_.dtype, shape}, kind);
  weights_.push_back(id);
  if (trains) trainable_.push_back(id);
  return id;
}

ValueId DecoderParts::lora_weight(const LinearModule& module, char factor, const Shape& shape) {
  const ValueId id =
      builder_.input(lora_name(module.name, factor), {options_.dtype, shape}, ValueKind::kTrainableWeight);
  trainable_.push_back(id);
  return id;
}

}  // namespace spillway
