#include "model/layers.h"

#include <algorithm>
#include <utility>

#include "base/math.h"
#include "ops/adapted_norm/adapted_norm.h"
#include "ops/add/add.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding_noise/embedding_noise.h"
#include "ops/fake_quantise/fake_quantise.h"
#include "ops/matmul/matmul.h"
#include "ops/pointwise/pointwise.h"
#include "ops/scale_columns/scale_columns.h"

namespace spillway {

Layers::Layers(Builder& builder, const ModelOptions& options, const LinearStorage& in_files, const WeightNames& names)
    : builder_(builder), options_(options), in_files_(in_files), names_(names) {
  if (names_.is_part) parameters_.set_own_beginnings(names_.beginnings());
}

ValueId Layers::declare_dropout(ValueId own_offsets) {
  own_offsets_ = own_offsets;
  if (asks_for_dropout() || options_.neftune_noise_alpha > 0)
    dropout_seed_ = builder_.input("batch.dropout_seed", {DType::kI64, {1}}, ValueKind::kBatch);
  return dropout_seed_;
}

ops::SharedStream Layers::add_shared_stream() {
  const int64_t ranks = options_.context_ranks;
  return {ranks, builder_.add_axis({.name = "tokens of all ranks",
                                    .capacity = ranks * options_.own_tokens(),
                                    .of = kTokenAxis,
                                    .per_token = ranks})};
}

ValueId Layers::with_noise(ValueId x, ValueId seq_offsets) {
  constexpr int64_t kStream = -1;  // those of dropout are numbers of parameters
  const double alpha = options_.neftune_noise_alpha;
  if (dropout_seed_ == kNone || alpha == 0) return x;
  return ops::embedding_noise(builder_, x, dropout_seed_, seq_offsets, alpha, options_.neftune_length, kStream);
}

ValueId Layers::declare_fake_quantisation() {
  if (options_.fake_quantisation && options_.fake_quantisation->after_steps > 0)
    fake_quantises_ = builder_.input("batch.fake_quantises", {DType::kI64, {1}}, ValueKind::kBatch);
  return fake_quantises_;
}

ValueId Layers::fake_quantised(ValueId x, const std::vector<FakeFormat>& formats) {
  for (const FakeFormat format : formats) {
    x = ops::fake_quantise(builder_, x,
                           {.format = format, .group = options_.fake_quantisation->group, .enabled = fake_quantises_});
  }
  return x;
}

ValueId Layers::fake_quantised_weight(ValueId weight) {
  return options_.fake_quantisation ? fake_quantised(weight, options_.fake_quantisation->weights) : weight;
}

ValueId Layers::fake_quantised_input(ValueId x) {
  if (!options_.fake_quantisation) return x;
  const auto [at, is_new] = fake_inputs_.try_emplace(x, kNone);
  if (is_new) at->second = fake_quantised(x, options_.fake_quantisation->inputs);
  return at->second;
}

Parameter Layers::base_parameter(ParameterRole role, const std::string& module, const Shape& shape) const {
  const bool is_bias = role == ParameterRole::kBias || role == ParameterRole::kScoreBias;
  return named_parameter(role, module + (is_bias ? ".bias" : ".weight"), module, shape);
}

// It is trained in full fine-tuning, where that is not for other weights, and where its module is one of
// modules_to_save.
Parameter Layers::named_parameter(ParameterRole role, const std::string& alone, const std::string& module,
                                  const Shape& shape) const {
  const std::string name = names_.path(alone), in_files = names_.in_files(alone);
  const bool in_full = options_.train_base && (options_.unfrozen.empty() || options_.unfrozen.contains(name));
  return {.name = name,
          .module = names_.path(module),
          .role = role,
          .shape = shape,
          .dtype = options_.dtype,
          .trained = in_full || (options_.lora && is_saved_in_full(*options_.lora, name)),
          .name_in_files = in_files,
          .source = {in_files, shape}};
}

Parameter Layers::buffer_parameter(const std::string& name, const std::string& module, const Shape& shape) const {
  Parameter buffer = named_parameter(ParameterRole::kBuffer, name, module, shape);
  buffer.dtype = DType::kF32;
  buffer.trained = false;
  return buffer;
}

ValueId Layers::buffer(const std::string& name, const std::string& module, const Shape& shape, FreshContent fresh) {
  Parameter buffer = buffer_parameter(name, module, shape);
  buffer.fresh = fresh;
  return add(std::move(buffer)).value();
}

ValueId Layers::constant(std::string name, std::vector<float> content) {
  const Shape shape = {std::ssize(content)};
  return add({.name = std::move(name), .role = ParameterRole::kConstant, .shape = shape, .content = std::move(content)})
      .value();
}

ops::RowTiles Layers::tiles_of(const ValueType& x) {
  if (options_.mlp_tiles == 1 || !x.follows_axis()) return {.count = 1};
  const std::string name = builder_.graph().axis(x.axis).name;
  const int64_t rows = x.shape[0];
  const int64_t wanted = options_.mlp_tiles > 0 ? options_.mlp_tiles : div_ceil(rows, x.shape[1]);
  // Tiles of whole kTileRows may be fewer.
  const int64_t count = div_ceil(rows, spillway::rows_of({.tiles = std::min(wanted, kMaxMlpTiles)}, rows));
  if (count == 1) return {.count = 1};
  Axis tile{.name = fmt::format("{} of a tile", name), .of = x.axis, .tiles = count};
  tile.capacity = spillway::rows_of(tile, rows);
  return {count, builder_.add_axis(std::move(tile))};
}

ValueId Layers::by_tiles(const std::vector<ValueId>& values, const AppendRows& append) {
  const ValueType type = builder_.type(values.front());  // a copy: the graph grows
  const ops::RowTiles tiles = tiles_of(type);
  if (tiles.count == 1) return append(values);
  std::vector<std::vector<ValueId>> rows(static_cast<size_t>(tiles.count));
  for (const ValueId value : values) {
    const std::vector<ValueId> parts = ops::split_rows(builder_, value, tiles);
    for (size_t i = 0; i < parts.size(); ++i) rows[i].push_back(parts[i]);
  }
  std::vector<ValueId> results(rows.size());
  for (size_t i = rows.size(); i-- > 0;) {
    tile_ = static_cast<int64_t>(i);
    results[i] = append(rows[i]);
  }
  tile_.reset();
  return ops::join_rows(builder_, results, type.axis);
}

ValueId Layers::linear(const LinearLayer& layer, ValueId x, ValueId residual) {
  Parameter w = base_parameter(ParameterRole::kLinear, layer.module, {layer.out_features, layer.in_features});
  w.source.storage = in_files_.of(names_.in_files(layer.module));
  if (!w.trained) w.storage = options_.linear_storage ? options_.linear_storage->of(w.module) : w.source.storage;
  w.takes_adapter = layer.takes_adapter;
  w.tensor = layer.tensor;
  if (layer.starts_as_zeros) w.fresh = FreshContent::kZeros;
  if (layer.fresh_bound > 0) {
    w.fresh = FreshContent::kUniform;
    w.fresh_range = {-layer.fresh_bound, layer.fresh_bound};
  }
  w.loads_with_adapter = is_adapted(layer) && options_.lora->starts_from_weights();
  w.merges_adapter = is_adapted(layer) && options_.lora->restarts;
  const Parameter added = add(std::move(w));  // a copy: the table grows
  if (is_adapted(layer) && options_.lora->dora) return decomposed_linear(layer, added, x, residual);
  ops::ProductTail update;
  if (is_adapted(layer) && !options_.adapter_is_off) update = update_of(adapter(layer, x));
  // In bf16 an update that came onto the finished sum would mostly be rounded away, and always one that came onto the
  // residual stream: it goes into the sums of the product, in f32, and only what they give joins the stream.
  const bool joins_late = is_adapted(layer) && residual != kNone;
  const ValueId bias = bias_of(layer);
  const ValueId y = product(added, x, {.addend = joins_late ? kNone : residual, .bias = bias, .tail = update});
  return joins_late ? ops::add(builder_, y, residual) : y;
}

ValueId Layers::bias_of(const LinearLayer& layer) {
  return layer.bias ? weight(ParameterRole::kBias, layer.module, {layer.out_features}) : kNone;
}

ValueId Layers::product(const Parameter& w, ValueId x, const ops::LinearOptions& options) {
  if (!options_.fake_quantisation) return w.storage->linear(builder_, x, w.spec(), w.values, options);
  const ValueId input = fake_quantised_input(x);
  return ops::linear(builder_, input, fake_quantised_weight(w.value()), options);
}

bool Layers::is_adapted(const LinearLayer& layer) const {
  return options_.lora && layer.takes_adapter && spillway::is_adapted(*options_.lora, names_.path(layer.module));
}

Layers::Adapter Layers::adapter(const LinearLayer& layer, ValueId x) {
  const LoraOptions& lora = *options_.lora;
  Adapter result;
  result.x = x;
  result.scale = lora.scale_of(names_.path(layer.module));
  result.a = lora_weight(layer, ParameterRole::kLoraA);
  result.b = lora_weight(layer, ParameterRole::kLoraB);
  if (is_dropped()) {
    const int64_t stream = dropout_streams_.try_emplace(layer.module, trained_).first->second;
    const ValueId offsets = builder_.type(x).follows_axis() ? own_offsets_ : kNone;  // all ranks have what follows none
    result.x = ops::dropout(builder_, x, dropout_seed_, lora.dropout, stream, {offsets, tile_.value_or(0)});
  }
  return result;
}

// scale * B A x.
ops::ProductTail Layers::update_of(const Adapter& adapter) {
  return {.a = ops::linear(builder_, adapter.x, adapter.a), .b = adapter.b, .alpha = adapter.scale};
}

// DoRA (Liu et al., 2024) as PEFT computes it: residual + k (W + s B A) x + b, with k = m / |W + s B A| by row, whose
// norms are constants to gradients. With dropout, (k - 1) W takes what is dropped, too, and W alone all of x.
ValueId Layers::decomposed_linear(const LinearLayer& layer, const Parameter& w, ValueId x, ValueId residual) {
  if (options_.adapter_is_off) {
    const ValueId bias = bias_of(layer), y = product(w, x);
    if (bias == kNone && residual == kNone) return y;
    return ops::scale_columns(builder_, y, kNone, {.bias = bias, .addend = residual});
  }
  const Adapter factors = adapter(layer, x);
  const ValueId k = magnitude_over_norm(w, factors);
  const ValueId bias = bias_of(layer);
  const ops::ProductTail update = update_of(factors);
  if (!is_dropped()) {
    const ValueId y = product(w, x, {.tail = update});
    return ops::scale_columns(builder_, y, k, {.bias = bias, .addend = residual});
  }
  // The small terms first, so that they are not rounded away.
  const ValueId factors_x = ops::matmul(builder_, update.a, update.b, {.transpose_b = true, .alpha = update.alpha});
  ValueId more = ops::scale_columns(builder_, factors_x, k);
  more = ops::scale_columns(builder_, product(w, factors.x), k, {.shift = -1, .addend = more});
  const ValueId y = product(w, x, {.addend = more, .bias = bias});
  return residual == kNone ? y : ops::add(builder_, y, residual);
}

// f32 [out_features]. W + s B A is never made: its rows' norms follow from those of W, which do not change, and
// products of r rows.
ValueId Layers::magnitude_over_norm(const Parameter& w, const Adapter& adapter) {
  const Shape rows = {w.shape[0]};
  const ValueId magnitude = add({.name = magnitude_name(w.module),
                                 .module = w.module,
                                 .role = ParameterRole::kMagnitude,
                                 .shape = rows,
                                 .trained = true})
                                .value();
  const ValueId squares =
      add({.name = row_squares_name(w.name), .module = w.module, .role = ParameterRole::kRowSquares, .shape = rows})
          .value();
  const ValueId of_a = ops::matmul(builder_, adapter.a, adapter.a, {.transpose_b = true, .out_dtype = DType::kF32});
  const ValueId half = ops::matmul(builder_, of_a, adapter.b, {.transpose_b = true, .alpha = adapter.scale / 2});
  const ValueId overlap = product(w, adapter.a, {.addend = half, .out_dtype = DType::kF32});
  const ValueId norm = ops::adapted_norm(builder_, squares, overlap, adapter.b, adapter.scale);
  return ops::pointwise::div(builder_, magnitude, norm);
}

ValueId Layers::lora_weight(const LinearLayer& layer, ParameterRole role) {
  const std::string module = names_.path(layer.module);
  const bool is_a = role == ParameterRole::kLoraA;
  const int64_t r = options_.lora->rank_of(module);
  const Shape shape = is_a ? Shape{r, layer.in_features} : Shape{layer.out_features, r};
  if (options_.lora->changes_base()) {
    (void)add({.name = start_name(module, is_a ? 'A' : 'B'),
               .module = module,
               .role = ParameterRole::kLoraStart,
               .shape = shape});
  }
  return add({.name = lora_name(module, is_a ? 'A' : 'B'),
              .module = module,
              .role = role,
              .shape = shape,
              .dtype = options_.dtype,
              .trained = true})
      .value();
}

Layers::Factors Layers::factors(const MixtureTensor& tensor) {
  if (!options_.lora || options_.adapter_is_off || !is_adapted_tensor(*options_.lora, tensor.name)) return {};
  const int64_t ranks = options_.lora->rank_of(tensor.name) * tensor.experts;
  const auto add_factor = [&](char factor, const Shape& shape) {
    return add({.name = tensor_factor_name(*options_.lora, tensor.name, factor),
                .module = tensor.name,
                .role = factor == 'A' ? ParameterRole::kLoraA : ParameterRole::kLoraB,
                .shape = shape,
                .dtype = options_.dtype,
                .trained = true})
        .value();
  };
  const ValueId a = add_factor('A', {ranks, tensor.shape[1]}), b = add_factor('B', {tensor.shape[0], ranks});
  return {.a = a, .b = b, .scale = options_.lora->scale_of(tensor.name)};
}

const Parameter& Layers::add(Parameter parameter) {
  if (tile_) {
    if (const Parameter* known = parameters_.find(parameter.name)) return *known;
  }
  parameter.is_copy = options_.copies.contains(parameter.name);
  if (parameter.is_copy) parameter.trained = false;
  const std::string& prefix = parameter.is_copy ? options_.copy_prefix : options_.prefix;
  const ValueKind kind = parameter.trained ? ValueKind::kTrainableWeight : ValueKind::kFrozenWeight;
  std::string_view part = parameter.is_table ? kTablePart : std::string_view();
  if (parameter.role == ParameterRole::kExpert && options_.experts_apart) part = kExpertPart;
  if (parameter.is_copy && !options_.copy_part.empty()) part = options_.copy_part;
  for (const StoragePart& storage : parameter.storage->parts(parameter.spec())) {
    parameter.values.push_back(builder_.input(fmt::format("{}{}{}", prefix, parameter.name, storage.suffix),
                                              {storage.dtype, storage.shape}, kind, part));
  }
  trained_ += parameter.trained;
  return parameters_[parameters_.add(std::move(parameter))];
}

}  // namespace spillway
