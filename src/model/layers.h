// The layers from which models of any family are built, with their weights and adapters. Each appends its operations
// and weights to the Graph, and adds the weights to the table of parameters.
//
// Values of the stream are [T, ...], per token, in the dtype of the options.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "model/model.h"
#include "model/parameters.h"
#include "model/storage.h"
#include "model/weight_names.h"
#include "ops/attention/shared_attention.h"
#include "ops/split_rows/split_rows.h"

namespace spillway {

// y = W x + b.
struct LinearLayer {
  std::string module;
  int64_t in_features = 0, out_features = 0;
  bool bias = false;
  bool takes_adapter = true;
  double fresh_bound = 0;        // above 0: W of a new model is uniform within it
  bool starts_as_zeros = false;  // W of a new model is 0
  MixtureTensor tensor{};        // of a mixture's weight
};

// Borrows the options. Modules and weights have the names of a stand-alone model; the table has them mapped by `names`.
class Layers {
 public:
  // `in_files` is the storage of linear layers in the model's files; the graph uses the same, unless the options say
  // otherwise.
  Layers(Builder& builder, const ModelOptions& options, const LinearStorage& in_files = {},
         const WeightNames& names = {});

  // Declares the seed that dropout of adapters and noise on embeddings read, i64 [1], below 0 for none. Returns kNone
  // if there is neither. `own_offsets`: of sequences, counted from this rank's first row of a stream that ranks share
  // (kOwnOffsets), whose rows draw what they draw on one rank.
  ValueId declare_dropout(ValueId own_offsets = kNone);
  // Adds the axis of all rows of the stream. REQUIRES: ranks share it (ModelOptions::context_ranks).
  [[nodiscard]] ops::SharedStream add_shared_stream();
  // Returns x with noise added, if the options ask for it. seq_offsets is i32 [sequences + 1].
  ValueId with_noise(ValueId x, ValueId seq_offsets);

  // Declares what says whether a training step has fake quantisation, i64 [1]. Returns kNone if all have it, or none.
  ValueId declare_fake_quantisation();
  // Return a weight, and the input of a linear layer, as fake quantisation has them; themselves without it.
  ValueId fake_quantised_weight(ValueId weight);
  ValueId fake_quantised_input(ValueId x);

  // Adds a weight of the base, "MODULE.weight" or "MODULE.bias".
  ValueId weight(ParameterRole role, const std::string& module, const Shape& shape) {
    return add(base_parameter(role, module, shape)).value();
  }
  // Returns a parameter for add(), for weights that differ in more than their name.
  [[nodiscard]] Parameter base_parameter(ParameterRole role, const std::string& module, const Shape& shape) const;
  // The same with its own name.
  [[nodiscard]] Parameter named_parameter(ParameterRole role, const std::string& name, const std::string& module,
                                          const Shape& shape) const;
  // Returns a buffer of the model's files, which no training changes, in f32, for add().
  [[nodiscard]] Parameter buffer_parameter(const std::string& name, const std::string& module,
                                           const Shape& shape) const;
  // Adds one. `fresh`: of a new model.
  ValueId buffer(const std::string& name, const std::string& module, const Shape& shape,
                 FreshContent fresh = FreshContent::kZeros);
  // Adds a constant that is computed from the config, f32.
  ValueId constant(std::string name, std::vector<float> content);
  // Appends the operations that compute rows from the same rows of several values, and returns them.
  using AppendRows = std::function<ValueId(const std::vector<ValueId>& rows)>;
  // Returns append(values), computed for one tile of rows after the other as ModelOptions::mlp_tiles says. The last
  // tile comes first, so that the backward pass takes the first one first, and gradients of weights are sums in the
  // order of the tokens. REQUIRES: append() takes each row by itself; the values are [T, D] and follow one axis.
  ValueId by_tiles(const std::vector<ValueId>& values, const AppendRows& append);
  // Returns residual + W x + b, plus the adapter's product if there is one; residual may be kNone.
  ValueId linear(const LinearLayer& layer, ValueId x, ValueId residual = kNone);

  // An adapter's factors, and the scale of their product.
  struct Factors {
    ValueId a = kNone, b = kNone;
    double scale = 1;
  };
  // Adds the factors of an adapter on a tensor of a mixture. Returns none where it has no adapter, or one that is off.
  Factors factors(const MixtureTensor& tensor);

  [[nodiscard]] const WeightNames& names() const { return names_; }
  [[nodiscard]] const LinearStorage& in_files() const { return in_files_; }
  // Declares the values of a parameter in the graph and adds it to the table.
  const Parameter& add(Parameter parameter);
  // The parameters added so far.
  [[nodiscard]] ParameterTable& parameters() { return parameters_; }
  [[nodiscard]] Builder& builder() { return builder_; }
  [[nodiscard]] const ModelOptions& options() const { return options_; }

 private:
  // An adapter's factors and their input.
  struct Adapter : Factors {
    ValueId x = kNone;
  };
  [[nodiscard]] bool is_adapted(const LinearLayer& layer) const;
  [[nodiscard]] bool is_dropped() const { return dropout_seed_ != kNone && asks_for_dropout(); }
  [[nodiscard]] bool asks_for_dropout() const { return options_.lora && options_.lora->dropout > 0; }
  // REQUIRES: the layer is adapted, and the adapter is not off.
  Adapter adapter(const LinearLayer& layer, ValueId x);
  // Returns the tiles of the rows of x [T, D]; one where they are not cut.
  [[nodiscard]] ops::RowTiles tiles_of(const ValueType& x);
  ValueId fake_quantised(ValueId x, const std::vector<FakeFormat>& formats);
  ValueId lora_weight(const LinearLayer& layer, ParameterRole role);
  ValueId bias_of(const LinearLayer& layer);
  ValueId product(const Parameter& w, ValueId x, const ops::LinearOptions& options = {});
  ops::ProductTail update_of(const Adapter& adapter);
  ValueId magnitude_over_norm(const Parameter& w, const Adapter& adapter);
  ValueId decomposed_linear(const LinearLayer& layer, const Parameter& w, ValueId x, ValueId residual);

  Builder& builder_;
  const ModelOptions& options_;
  LinearStorage in_files_;
  WeightNames names_;
  ValueId dropout_seed_ = kNone, own_offsets_ = kNone, fake_quantises_ = kNone;
  std::map<ValueId, ValueId> fake_inputs_;  // by input: several layers read one
  ParameterTable parameters_;
  int64_t trained_ = 0;  // parameters so far
  // The tile that operations are appended for; all of them read the same parameters, and draw from the same streams of
  // random numbers, by module.
  std::optional<int64_t> tile_;
  std::map<std::string, int64_t, std::less<>> dropout_streams_;
};

}  // namespace spillway
