#include "model/decoder/decoder.h"

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
#include "ops/embedding/embedding.h"
#include "ops/matmul/matmul.h"
#include "ops/pointwise/pointwise.h"

namespace spillway {
namespace {

std::string layer_name(int64_t layer) { return fmt::format("layer {}", layer); }

// Appends embedding, layers, final norm and the scale of the logits. Returns kNone where `attend` ends it.
ValueId append_layers(Builder& builder, const DecoderConfig& config, const ModelOptions& options, DecoderParts& parts,
                      ValueId ids, const Attend& attend) {
  ValueId stream = parts.embed(ids);
  for (int64_t layer = 0; layer < std::ssize(config.layers) && stream != kNone; ++layer) {
    builder.begin_block(options.prefix + layer_name(layer));
    stream = append_layer(parts, nth(config.layers, layer), layer, stream, attend);
    builder.end_block();
  }
  return stream == kNone ? kNone : parts.scaled_for_head(parts.norm(stream, "model.norm"));
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

// Adds the axis of all rows of a stream that ranks share.
ops::SharedStream shared_stream(Builder& builder, const ModelOptions& options) {
  const int64_t ranks = options.context_ranks;
  if (ranks == 1) return {};
  return {ranks, builder.add_axis("tokens of all ranks", ranks * options.own_tokens(), ranks)};
}

// The states of layers as generation has them: each is a cache of `rows` rows, "cache.layers.0.key".
class States {
 public:
  States(Builder& builder, const ModelOptions& options, const CachedModelGraph& inputs, size_t layers)
      : builder_(builder), options_(options), inputs_(inputs), latest_(layers) {}

  // Appends rows of new tokens to the states of a layer, in their order, and returns the states after that.
  const std::vector<ValueId>& append(const DecoderLayer& layer, int64_t index, const std::vector<ValueId>& rows) {
    std::vector<ValueId>& states = nth(latest_, index);
    for (const LayerState& state : layer.states()) {
      SPILLWAY_CHECK(state.rows == StateRows::kPerToken, "the state {} has no row for each token", state.name);
      const std::string name = fmt::format("cache.layers.{}.{}", index, state.name);
      const ValueType type{options_.dtype, {inputs_.rows, state.width}};
      const ValueId cache = builder_.input(name, type, ValueKind::kCache);
      states.push_back(ops::cache_append(builder_, cache, rows[states.size()], inputs_.own));
    }
    return states;
  }

  // Appends the section in which rows of all states become what other rows are.
  [[nodiscard]] SectionId append_copies() {
    const SectionId section = builder_.begin_section({.name = "copy"});
    for (size_t layer = 0; layer < latest_.size(); ++layer) {
      for (const ValueId state : latest_[layer]) {
        builder_.begin_block(layer_name(static_cast<int64_t>(layer)));
        const ValueId rows = ops::embedding(builder_, inputs_.first, state);
        (void)ops::cache_append(builder_, state, rows, inputs_.own);
        builder_.end_block();
      }
    }
    return section;
  }

 private:
  Builder& builder_;
  const ModelOptions& options_;
  const CachedModelGraph& inputs_;
  std::vector<std::vector<ValueId>> latest_;  // of each layer
};

class Decoder final : public TextModel {
 public:
  explicit Decoder(DecoderConfig config) : config_(std::move(config)) {
    vocab_size = config_.vocab_size;
    max_position_embeddings = config_.max_position_embeddings;
    repetition_penalty = config_.repetition_penalty;
    score = config_.score;
    if (!score) router_aux_loss_coef = config_.router_aux_loss_coef;
    wrapper = config_.wrapper;
    fresh = {config_.initializer_range, 1 - config_.architecture->norm.weight_shift, config_.pad_token_id};
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

  DecoderConfig config_;
};

ModelGraph Decoder::build(Builder& builder, const ModelOptions& options) const {
  const int64_t tokens = options.own_tokens();
  builder.add_axis("tokens", tokens);
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
  const ops::SharedStream shared = shared_stream(builder, options);
  result.hidden = append_layers(builder, config_, options, parts, ids, [&](int64_t layer, const AttentionHeads& heads) {
    const ops::AttentionOptions attention = attention_options(nth(config_.layers, layer).attention, options);
    return is_shared
               ? ops::shared_attention(builder, heads.q, heads.k, heads.v, offsets, attention, shared, heads.sinks)
               : ops::attention(builder, heads.q, heads.k, heads.v, offsets, attention, heads.sinks);
  });
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
  const std::vector<ValueId>& latest = states.append(layer, index, {heads.k, heads.v});
  const ops::CacheOperands cache{latest[0], latest[1], inputs.first, inputs.own};
  const ops::AttentionOptions attention = attention_options(layer.attention, options);
  if (use == CacheUse::kDecode) return ops::decode_attention(builder, heads.q, cache, attention, heads.sinks);
  if (index + 1 == std::ssize(config_.layers)) return kNone;
  return ops::cached_attention(builder, heads.q, cache, attention, heads.sinks);
}

CachedModelGraph Decoder::build_cached(Builder& builder, const ModelOptions& options, int64_t rows,
                                       CacheUse use) const {
  builder.add_axis("tokens", options.tokens);
  const ValueType per_token{DType::kI32, {options.tokens}, kTokenAxis};
  CachedModelGraph result{.rows = rows};
  result.ids = builder.input("batch.ids", per_token, ValueKind::kBatch);
  result.positions = builder.input("batch.positions", per_token, ValueKind::kBatch);
  result.first = builder.input("batch.first_rows", per_token, ValueKind::kBatch);
  result.own = builder.input("batch.rows", per_token, ValueKind::kBatch);
  Layers layers(builder, options, config_.linear_storage, config_.names);
  DecoderParts parts(layers, config_, {.positions = result.positions, .longest = options.sequence_len});
  States states(builder, options, result, config_.layers.size());
  const ValueId hidden =
      append_layers(builder, config_, options, parts, result.ids, [&](int64_t layer, const AttentionHeads& heads) {
        return attend(builder, options, result, states, use, layer, heads);
      });
  if (use == CacheUse::kDecode) {
    result.logits = ops::matmul(builder, layers.fake_quantised_input(hidden), parts.head(),
                                {.transpose_b = true, .out_dtype = DType::kF32});
    if (config_.logit_soft_cap > 0)
      result.logits = ops::pointwise::soft_cap(builder, result.logits, config_.logit_soft_cap);
  } else {
    result.copy = states.append_copies();
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
