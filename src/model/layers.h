// What models of any family are built of: layers with their weights and adapters. Each appends operations to the Graph,
// and the weights that it needs, and notes these in the table of parameters.
//
// Values of the stream are [T, ...], per token, in the dtype of the options.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "model/model.h"
#include "model/parameters.h"
#include "model/storage.h"
#include "model/weight_names.h"

namespace spillway {

// y = W x + b.
struct LinearLayer {
  std::string module;
  int64_t in_features = 0, out_features = 0;
  bool bias = false;
};

// The options are borrowed. Modules and weights go by the names of a model that stands alone; the table has what
// `names` makes of them.
class Layers {
 public:
  // `in_files`: how the model's files keep the weights of linear layers; the graph keeps them so, too, unless the
  // options say otherwise.
  Layers(Builder& builder, const ModelOptions& options, const LinearStorage& in_files = {},
         const WeightNames& names = {});

  // Declares what adapters with dropout and noise on embeddings read, i64 [1], below 0 for none. Returns kNone where
  // there is neither.
  ValueId declare_dropout();
  // x with noise, where the options ask for it. seq_offsets i32 [sequences + 1].
  ValueId with_noise(ValueId x, ValueId seq_offsets);

  // A weight of the base, "MODULE.weight", or "MODULE.bias".
  ValueId weight(ParameterRole role, const std::string& module, const Shape& shape) {
    return add(base_parameter(role, module, shape)).value();
  }
  // The same, for what differs in more than its name: add() takes it.
  [[nodiscard]] Parameter base_parameter(ParameterRole role, const std::string& module, const Shape& shape) const;
  // The same with a name of its own.
  [[nodiscard]] Parameter named_parameter(ParameterRole role, const std::string& name, const std::string& module,
                                          const Shape& shape) const;
  // Computed from the config, f32.
  ValueId constant(std::string name, std::vector<float> content);
  // residual + W x + b, with the adapter where there is one; residual may be kNone.
  ValueId linear(const LinearLayer& layer, ValueId x, ValueId residual = kNone);

  [[nodiscard]] const WeightNames& names() const { return names_; }
  // Makes the graph's values and notes the parameter.
  const Parameter& add(Parameter parameter);
  // All so far.
  [[nodiscard]] ParameterTable& parameters() { return parameters_; }
  [[nodiscard]] Builder& builder() { return builder_; }

 private:
  // An adapter's factors, and what goes into them.
  struct Adapter {
    ValueId a = kNone, b = kNone, x = kNone;
    double scale = 1;
  };
  [[nodiscard]] bool is_adapted(const LinearLayer& layer) const;
  [[nodiscard]] bool is_dropped() const { return dropout_seed_ != kNone && asks_for_dropout(); }
  [[nodiscard]] bool asks_for_dropout() const { return options_.lora && options_.lora->dropout > 0; }
  // REQUIRES: the layer is adapted, and the adapter not off.
  Adapter adapter(const LinearLayer& layer, ValueId x);
  ValueId lora_weight(const LinearLayer& layer, ParameterRole role);
  ValueId bias_of(const LinearLayer& layer);
  ValueId product(const Parameter& w, ValueId x, const ops::LinearOptions& options = {});
  ValueId product_of_factors(const Adapter& adapter);
  ValueId magnitude_over_norm(const Parameter& w, const Adapter& adapter);
  ValueId decomposed_linear(const LinearLayer& layer, const Parameter& w, ValueId x, ValueId residual);

  Builder& builder_;
  const ModelOptions& options_;
  LinearStorage in_files_;
  WeightNames names_;
  ValueId dropout_seed_ = kNone;
  ParameterTable parameters_;
  int64_t trained_ = 0;  // parameters so far
};

}  // namespace spillway
