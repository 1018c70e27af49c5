#include "model/decoder/decoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "model/decoder/append_layer.h"
#include "model/decoder/architecture.h"
#include "model/decoder/experts.h"
#include "model/decoder/parts.h"
#include "ops/attention/attention.h"
#include "ops/attention/cached_attention.h"
#include "ops/attention/shared_attention.h"
#include "ops/cache_append/cache_append.h"
#include "ops/causal_conv/causal_conv.h"
#include "ops/copy_rows/copy_rows.h"
#include "ops/embedding/embedding.h"
#include "ops/gated_delta_rule/gated_delta_rule.h"
#include "ops/matmul/matmul.h"
#include "ops/pointwise/pointwise.h"
#include "ops/selective_scan/selective_scan.h"
#include "ops/shared_states/shared_states.h"

namespace spillway {
namespace {

std::string layer_name(int64_t layer) { return fmt::format("layer {}", layer); }

// Appends embedding, layers, final norm and the scale of the logits. Returns kNone where `mixing` ends it.
ValueId append_layers(Builder& builder, const DecoderConfig& config, const ModelOptions& options, DecoderParts& parts,
                      ValueId ids, const TokenMixing& mixing) {
  ValueId stream = parts.embed(ids);
  parts.add_layer_inputs(ids, stream);
  for (int64_t layer = 0; layer < std::ssize(config.layers) && stream != kNone; ++layer) {
    builder.begin_block(options.prefix + layer_name(layer));
    stream = append_layer(parts, nth(config.layers, layer), layer, stream, mixing);
    builder.end_block();
  }
  return stream == kNone ? kNone
                         : parts.scaled_for_head(parts.norm(stream, std::string(config.architecture->final_norm)));
}

ops::AttentionOptions attention_options(const Attention& attention, const ModelOptions& options) {
  return {.heads = attention.heads,
          .kv_heads = attention.kv_heads,
          .head_size = attention.head_dim,
          .sliding_window = attention.window,
          .scale = attention.scale,
          .sequence_len = options.sequence_len,
          .soft_cap = attention.soft_cap};
}

// The states of layers as generation has them: each is a cache, "cache.layers.0.key".
class States {
 public:
  States(Builder& builder, const ModelOptions& options, const CachedModelGraph& inputs)
      : builder_(builder), options_(options), inputs_(inputs) {}

  // Declares a state of a layer as the runs before left it.
  [[nodiscard]] ValueId declare(int64_t layer, const LayerState& state) {
    const int64_t rows = state.rows == StateRows::kPerToken ? inputs_.rows : options_.max_sequences;
    const std::string name = fmt::format("cache.layers.{}.{}", layer, state.name);
    const DType dtype = state.dtype.value_or(options_.dtype);
    return builder_.input(name, {dtype, {rows, state.width}}, ValueKind::kCache);
  }
  // Notes what this run makes of a state, for the copies, and returns it.
  ValueId note(int64_t layer, const LayerState& state, ValueId latest) {
    latest_.push_back({.layer = layer, .rows = state.rows, .value = latest});
    return latest;
  }

  // Appends rows of new tokens to the states of a layer that have such rows, in their order, and returns these states
  // after that.
  [[nodiscard]] std::vector<ValueId> append(const DecoderLayer& layer, int64_t index,
                                            const std::vector<ValueId>& rows) {
    std::vector<ValueId> states;
    for (const LayerState& state : layer.states()) {
      if (state.rows != StateRows::kPerToken) continue;
      const ValueId cache = declare(index, state);
      states.push_back(note(index, state, ops::cache_append(builder_, cache, rows[states.size()], inputs_.own)));
    }
    return states;
  }

  // Returns what this run has made so far of the states of a layer that have a row for each token, in their order.
  [[nodiscard]] std::vector<ValueId> latest_of(int64_t layer) const {
    std::vector<ValueId> states;
    for (const Latest& state : latest_)
      if (state.layer == layer && state.rows == StateRows::kPerToken) states.push_back(state.value);
    return states;
  }

  // Appends the section in which rows of all states that have such rows become what other rows are.
  [[nodiscard]] SectionId append_copies(StateRows rows) {
    const bool are_of_tokens = rows == StateRows::kPerToken;
    const SectionId section = builder_.begin_section({.name = are_of_tokens ? "copy" : "copy_sequences"});
    for (const Latest& state : latest_) {
      if (state.rows != rows) continue;
      builder_.begin_block(layer_name(state.layer));
      if (are_of_tokens) {
        (void)ops::cache_append(builder_, state.value, ops::embedding(builder_, inputs_.first, state.value),
                                inputs_.own);
      } else {
        (void)ops::copy_rows(builder_, state.value, inputs_.copied_slots, inputs_.slots);
      }
      builder_.end_block();
    }
    return section;
  }

 private:
  struct Latest {
    int64_t layer;
    StateRows rows;
    ValueId value;
  };

  Builder& builder_;
  const ModelOptions& options_;
  const CachedModelGraph& inputs_;
  std::vector<Latest> latest_;
};

bool has_state_of_sequences(const std::vector<DecoderLayer>& layers) {
  return std::any_of(layers.begin(), layers.end(), [](const DecoderLayer& layer) {
    const std::vector<LayerState> states = layer.states();
    return std::any_of(states.begin(), states.end(),
                       [](const LayerState& state) { return state.rows == StateRows::kPerSequence; });
  });
}

class Decoder final : public TextModel {
 public:
  explicit Decoder(DecoderConfig config) : config_(std::move(config)) {
    vocab_size = config_.vocab_size;
    max_position_embeddings = config_.max_position_embeddings;
    generation = config_.generation;
    score = config_.score;
    if (!score) router_aux_loss_coef = config_.router_aux_loss_coef;
    if (!score) named_router_coef = config_.named_router_coef;
    wrapper = config_.wrapper;
    const NormDefaults& norm = config_.architecture->norm;
    fresh = {config_.initializer_range, norm.starts_as_ones ? 1 : 1 - norm.weight_shift, config_.padding_idx};
  }

  [[nodiscard]] ModelGraph build(Builder& builder, const ModelOptions& options) const override;
  [[nodiscard]] CachedModelGraph build_cached(Builder& builder, const ModelOptions& options, int64_t rows,
                                              CacheUse use) const override;

  [[nodiscard]] std::optional<DType> dtype() const override { return config_.dtype; }
  [[nodiscard]] std::string config_json(const std::filesystem::path& folder) const override {
    return decoder_config_json(folder, config_);
  }
  void check_trains() const override {
    if (config_.untrainable) throw InputError(*config_.untrainable);
  }
  [[nodiscard]] const std::vector<DecoderLayer>& layers() const override { return config_.layers; }

  [[nodiscard]] ModelPtr with_vocab_size(int64_t rows) const override {
    DecoderConfig config = config_;
    config.stored_vocab_size = config.stored_vocab_size.value_or(config.vocab_size);
    config.vocab_size = rows;
    return make_decoder(std::move(config));
  }
  [[nodiscard]] ModelPtr with_own_head() const override {
    if (!config_.tie_word_embeddings || config_.score) return nullptr;
    DecoderConfig config = config_;
    config.tie_word_embeddings = false;
    config.copies_head = true;
    return make_decoder(std::move(config));
  }
  [[nodiscard]] ModelPtr with_score(const ScoreHead& head, std::optional<int64_t> pad_token_id) const override {
    if (!config_.wrapper.empty())
      throw input_error("base_model", "expected a model of text that stands alone to give a score, got {}; {}",
                        config_.wrapper, "name another");
    DecoderConfig config = config_;
    config.has_new_score = config_.score != head || config_.has_new_score;
    config.score = head;
    if (pad_token_id) config.pad_token_id = pad_token_id;
    return make_decoder(std::move(config));
  }

 private:
  // Appends what heads attend to in the states, to which the new tokens' keys and values are appended.
  [[nodiscard]] ValueId attend(Builder& builder, const ModelOptions& options, const CachedModelGraph& inputs,
                               States& states, CacheUse use, int64_t index, const AttentionHeads& heads) const;
  // Appends the convolution of new tokens behind those whose last ones are in the layer's state.
  [[nodiscard]] ValueId convolve(Builder& builder, const CachedModelGraph& inputs, States& states, CacheUse use,
                                 int64_t index, ValueId x, ValueId weight, ValueId bias) const;
  // Appends the gated delta rule of new tokens behind those that are in the layer's state.
  [[nodiscard]] ValueId apply_delta_rule(Builder& builder, const CachedModelGraph& inputs, States& states, CacheUse use,
                                         int64_t index, const std::array<ValueId, 3>& operands) const;
  // Appends the selective scan of new tokens behind those that are in the layer's state.
  [[nodiscard]] ValueId scan(Builder& builder, const CachedModelGraph& inputs, States& states, CacheUse use,
                             int64_t index, const ops::ScanOperands& operands) const;
  // Returns true if a run for prompts ends with what this layer adds to its states: none behind it has any.
  [[nodiscard]] bool ends_with(CacheUse use, int64_t layer) const {
    return use == CacheUse::kPrompt && std::all_of(config_.layers.begin() + layer + 1, config_.layers.end(),
                                                   [](const DecoderLayer& later) { return later.states().empty(); });
  }

  DecoderConfig config_;
};

ModelGraph Decoder::build(Builder& builder, const ModelOptions& options) const {
  const int64_t tokens = options.own_tokens();
  builder.add_axis({.name = "tokens", .capacity = tokens});
  const ValueType per_token{DType::kI32, {tokens}, kTokenAxis};
  ModelGraph result;
  const auto column = [&](const Column& c, const ValueType& type) {
    return add_column(builder, c, type, result.columns, options.stream);
  };
  const ValueId ids = column(kIds, per_token), positions = column(kPositions, per_token);
  const ValueType of_sequences{DType::kI32, {options.max_sequences + 1}};
  const ValueId offsets = column(kSeqOffsets, of_sequences);
  const bool is_shared = options.context_ranks > 1;
  const ValueId own_offsets = is_shared ? column(kOwnOffsets, of_sequences) : kNone;
  Layers layers(builder, options, config_.linear_storage, config_.names);
  result.dropout_seed = layers.declare_dropout(own_offsets);
  result.fake_quantises = layers.declare_fake_quantisation();
  DecoderParts parts(
      layers, config_,
      {.positions = positions, .seq_offsets = is_shared ? own_offsets : offsets, .longest = options.tokens});
  const ops::SharedStream shared = is_shared ? layers.add_shared_stream() : ops::SharedStream();
  std::vector<AttentionHeads> heads_of(config_.layers.size());  // whose keys and values later layers may share
  TokenMixing mixing;
  mixing.attend = [&](int64_t layer, const AttentionHeads& heads) {
    const Attention& attention = nth(config_.layers, layer).attention;
    nth(heads_of, layer) = heads;
    const AttentionHeads& seen = nth(heads_of, attention.keys_of.value_or(layer));
    const ops::AttentionOptions how = attention_options(attention, options);
    return is_shared ? ops::shared_attention(builder, heads.q, seen.k, seen.v, offsets, how, shared, heads.sinks)
                     : ops::attention(builder, heads.q, seen.k, seen.v, offsets, how, heads.sinks);
  };
  mixing.convolve = [&](int64_t, ValueId x, ValueId weight, ValueId bias) {
    return is_shared ? ops::shared_causal_conv(builder, x, weight, bias, offsets, shared)
                     : ops::causal_conv(builder, x, weight, bias, offsets);
  };
  mixing.apply_delta_rule = [&](int64_t layer, ValueId qkv, ValueId decay, ValueId beta) {
    const ops::DeltaHeads& heads = nth(config_.layers, layer).delta->heads;
    return is_shared ? ops::shared_delta_rule(builder, qkv, decay, beta, offsets, heads, shared)
                     : ops::gated_delta_rule(builder, qkv, decay, beta, offsets, heads);
  };
  mixing.scan = [&](int64_t, const ops::ScanOperands& operands) {
    return is_shared ? ops::shared_selective_scan(builder, operands, offsets, shared)
                     : ops::selective_scan(builder, operands, offsets);
  };
  result.hidden = append_layers(builder, config_, options, parts, ids, mixing);
  append_expert_loads(parts, result);
  result.hidden = layers.fake_quantised_input(result.hidden);
  result.head = parts.head();
  result.head_bias = parts.head_bias();
  result.logit_cap = config_.score ? 0 : config_.logit_soft_cap;
  result.parameters = layers.parameters();
  return result;
}

ValueId Decoder::attend(Builder& builder, const ModelOptions& options, const CachedModelGraph& inputs, States& states,
                        CacheUse use, int64_t index, const AttentionHeads& heads) const {
  const DecoderLayer& layer = nth(config_.layers, index);
  const std::optional<int64_t> keys_of = layer.attention.keys_of;
  const std::vector<ValueId> latest =
      keys_of ? states.latest_of(*keys_of) : states.append(layer, index, {heads.k, heads.v});
  const ops::CacheOperands cache{latest[0], latest[1], inputs.first, inputs.own};
  const ops::AttentionOptions attention = attention_options(layer.attention, options);
  if (use == CacheUse::kDecode) return ops::decode_attention(builder, heads.q, cache, attention, heads.sinks);
  if (ends_with(use, index)) return kNone;
  return ops::cached_attention(builder, heads.q, cache, attention, heads.sinks);
}

ValueId Decoder::convolve(Builder& builder, const CachedModelGraph& inputs, States& states, CacheUse use, int64_t index,
                          ValueId x, ValueId weight, ValueId bias) const {
  const DecoderLayer& layer = nth(config_.layers, index);
  const LayerState state = layer.state(kTokensState);
  const ops::CachedConv result = ops::cached_causal_conv(
      builder, x, weight, bias,
      {.rows = states.declare(index, state), .slots = inputs.slots, .positions = inputs.positions});
  (void)states.note(index, state, result.rows);
  return ends_with(use, index) && layer.convolution ? kNone : result.y;
}

ValueId Decoder::apply_delta_rule(Builder& builder, const CachedModelGraph& inputs, States& states, CacheUse use,
                                  int64_t index, const std::array<ValueId, 3>& operands) const {
  const DecoderLayer& layer = nth(config_.layers, index);
  const LayerState state = layer.state(kMatrixState);
  const ops::CachedDelta result = ops::cached_gated_delta_rule(
      builder, operands[0], operands[1], operands[2],
      {.rows = states.declare(index, state), .slots = inputs.slots, .positions = inputs.positions}, layer.delta->heads);
  (void)states.note(index, state, result.rows);
  return ends_with(use, index) ? kNone : result.y;
}

ValueId Decoder::scan(Builder& builder, const CachedModelGraph& inputs, States& states, CacheUse use, int64_t index,
                      const ops::ScanOperands& operands) const {
  const LayerState state = nth(config_.layers, index).state(kScanState);
  const ops::CachedScan result = ops::cached_selective_scan(
      builder, operands, {.rows = states.declare(index, state), .slots = inputs.slots, .positions = inputs.positions});
  (void)states.note(index, state, result.rows);
  return ends_with(use, index) ? kNone : result.y;
}

CachedModelGraph Decoder::build_cached(Builder& builder, const ModelOptions& options, int64_t rows,
                                       CacheUse use) const {
  builder.add_axis({.name = "tokens", .capacity = options.tokens});
  const ValueType per_token{DType::kI32, {options.tokens}, kTokenAxis};
  CachedModelGraph result{.rows = rows};
  result.ids = builder.input("batch.ids", per_token, ValueKind::kBatch);
  result.positions = builder.input("batch.positions", per_token, ValueKind::kBatch);
  result.first = builder.input("batch.first_rows", per_token, ValueKind::kBatch);
  result.own = builder.input("batch.rows", per_token, ValueKind::kBatch);
  if (has_state_of_sequences(config_.layers)) {
    result.slots = builder.input("batch.slots", per_token, ValueKind::kBatch);
    if (use == CacheUse::kPrompt)
      result.copied_slots = builder.input("batch.copied_slots", per_token, ValueKind::kBatch);
  }
  Layers layers(builder, options, config_.linear_storage, config_.names);
  DecoderParts parts(layers, config_, {.positions = result.positions, .longest = options.sequence_len});
  States states(builder, options, result);
  TokenMixing mixing;
  mixing.attend = [&](int64_t layer, const AttentionHeads& heads) {
    return attend(builder, options, result, states, use, layer, heads);
  };
  mixing.convolve = [&](int64_t layer, ValueId x, ValueId weight, ValueId bias) {
    return convolve(builder, result, states, use, layer, x, weight, bias);
  };
  mixing.apply_delta_rule = [&](int64_t layer, ValueId qkv, ValueId decay, ValueId beta) {
    return apply_delta_rule(builder, result, states, use, layer, {qkv, decay, beta});
  };
  mixing.scan = [&](int64_t layer, const ops::ScanOperands& operands) {
    return scan(builder, result, states, use, layer, operands);
  };
  const ValueId hidden = append_layers(builder, config_, options, parts, result.ids, mixing);
  if (use == CacheUse::kDecode) {
    result.logits = ops::matmul(builder, layers.fake_quantised_input(hidden), parts.head(),
                                {.transpose_b = true, .out_dtype = DType::kF32});
    if (config_.logit_soft_cap > 0)
      result.logits = ops::pointwise::soft_cap(builder, result.logits, config_.logit_soft_cap);
  } else {
    result.copy = states.append_copies(StateRows::kPerToken);
    if (result.slots != kNone) result.copy_sequences = states.append_copies(StateRows::kPerSequence);
  }
  result.parameters = layers.parameters();
  return result;
}

}  // namespace

ModelPtr make_decoder(DecoderConfig config) { return std::make_shared<Decoder>(std::move(config)); }

ModelPtr read_decoder(const std::filesystem::path& folder, const std::string& overrides) {
  return make_decoder(read_decoder_config(folder, overrides));
}

}  // namespace spillway
