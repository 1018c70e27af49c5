#include "model/decoder/decoder.h"

#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "model/decoder/architecture.h"
#include "model/decoder/parts.h"
#include "ops/attention/attention.h"
#include "ops/attention/cached_attention.h"
#include "ops/cache_append/cache_append.h"
#include "ops/embedding/embedding.h"
#include "ops/matmul/matmul.h"
#include "ops/pointwise/pointwise.h"

namespace spillway {
namespace {

std::string layer_name(int64_t layer) { return fmt::format("layer {}", layer); }

// Embedding, layers, final norm, scale of the logits.
ValueId append_layers(Builder& builder, const DecoderConfig& config, const ModelOptions& options, DecoderParts& parts,
                      ValueId ids, const Attend& attend) {
  ValueId stream = parts.embed(ids);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    builder.begin_block(options.prefix + layer_name(layer));
    LayerState state{.layer = layer, .stream = stream};
    for (const LayerPart part : config.architecture->layer) {
      part(parts, attend, state);
      if (state.x == kNone) break;
    }
    builder.end_block();
    if (state.x == kNone) return kNone;
    stream = state.stream;
  }
  return parts.scaled_for_head(parts.norm(stream, "model.norm"));
}

ops::AttentionOptions attention_options(const DecoderConfig& config, const ModelOptions& options, int64_t layer) {
  return {.heads = config.num_attention_heads,
          .kv_heads = config.num_key_value_heads,
          .head_size = config.head_dim,
          .sliding_window = nth(config.sliding_window, layer),
          .scale = config.attention_scale,
          .sequence_len = options.sequence_len,
          .soft_cap = config.attention_soft_cap};
}

// Appends the keys and values of new tokens to a layer's caches and attends to them. `caches` are the next versions of
// all caches.
ValueId attend_to_cache(Builder& builder, const DecoderConfig& config, const ModelOptions& options,
                        const CachedModelGraph& inputs, int64_t rows, CacheUse use, int64_t layer,
                        const AttentionHeads& heads, std::vector<ValueId>& caches) {
  const ValueType type{options.dtype, {rows, config.num_key_value_heads * config.head_dim}};
  const auto append = [&](const char* name, ValueId x) {
    const ValueId cache = builder.input(fmt::format("cache.layers.{}.{}", layer, name), type, ValueKind::kCache);
    return caches.emplace_back(ops::cache_append(builder, cache, x, inputs.own));
  };
  const ops::CacheOperands cache{append("key", heads.k), append("value", heads.v), inputs.first, inputs.own};
  const ops::AttentionOptions attention = attention_options(config, options, layer);
  if (use == CacheUse::kDecode) return ops::decode_attention(builder, heads.q, cache, attention);
  if (layer + 1 == config.num_hidden_layers) return kNone;
  return ops::cached_attention(builder, heads.q, cache, attention);
}

// `caches`: those of a layer after each other.
SectionId append_copies(Builder& builder, const CachedModelGraph& inputs, const std::vector<ValueId>& caches) {
  const SectionId section = builder.begin_section({.name = "copy"});
  for (size_t i = 0; i < caches.size(); ++i) {
    builder.begin_block(layer_name(static_cast<int64_t>(i / 2)));
    const ValueId rows = ops::embedding(builder, inputs.first, caches[i]);
    (void)ops::cache_append(builder, caches[i], rows, inputs.own);
    builder.end_block();
  }
  return section;
}

class Decoder final : public Model {
 public:
  explicit Decoder(DecoderConfig config)
      : config_(std::move(config)),
        text_{config_.vocab_size,
              config_.max_position_embeddings,
              config_.repetition_penalty,
              config_.score,
              config_.wrapper,
              {config_.initializer_range, 1 - config_.architecture->norm_weight_shift, config_.pad_token_id}} {}

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
  [[nodiscard]] std::vector<int64_t> attention_windows() const override { return config_.sliding_window; }
  [[nodiscard]] const TextModel* text() const override { return &text_; }

  [[nodiscard]] ModelPtr with_vocab_size(int64_t vocab_size) const override {
    DecoderConfig config = config_;
    config.stored_vocab_size = config.stored_vocab_size.value_or(config.vocab_size);
    config.vocab_size = vocab_size;
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
  DecoderConfig config_;
  TextModel text_;
};

ModelGraph Decoder::build(Builder& builder, const ModelOptions& options) const {
  builder.add_axis("tokens", options.tokens);
  const ValueType per_token{DType::kI32, {options.tokens}, kTokenAxis};
  ModelGraph result;
  const auto column = [&](const Column& c, const ValueType& type) {
    return add_column(builder, c, type, result.columns, options.stream);
  };
  const ValueId ids = column(kIds, per_token), positions = column(kPositions, per_token);
  const ValueId offsets = column(kSeqOffsets, {DType::kI32, {options.max_sequences + 1}});
  Layers layers(builder, options, config_.linear_storage, config_.names);
  result.dropout_seed = layers.declare_dropout();
  DecoderParts parts(layers, config_, {.positions = positions, .seq_offsets = offsets, .longest = options.tokens});
  result.hidden = append_layers(builder, config_, options, parts, ids, [&](int64_t layer, const AttentionHeads& heads) {
    return ops::attention(builder, heads.q, heads.k, heads.v, offsets, attention_options(config_, options, layer));
  });
  result.head = parts.head();
  result.head_bias = parts.head_bias();
  result.logit_cap = config_.score ? 0 : config_.logit_soft_cap;
  result.parameters = layers.parameters();
  return result;
}

CachedModelGraph Decoder::build_cached(Builder& builder, const ModelOptions& options, int64_t rows,
                                       CacheUse use) const {
  builder.add_axis("tokens", options.tokens);
  const ValueType per_token{DType::kI32, {options.tokens}, kTokenAxis};
  CachedModelGraph result;
  result.ids = builder.input("batch.ids", per_token, ValueKind::kBatch);
  result.positions = builder.input("batch.positions", per_token, ValueKind::kBatch);
  result.first = builder.input("batch.first_rows", per_token, ValueKind::kBatch);
  result.own = builder.input("batch.rows", per_token, ValueKind::kBatch);
  Layers layers(builder, options, config_.linear_storage, config_.names);
  DecoderParts parts(layers, config_, {.positions = result.positions, .longest = options.sequence_len});
  std::vector<ValueId> caches;
  const ValueId hidden =
      append_layers(builder, config_, options, parts, result.ids, [&](int64_t layer, const AttentionHeads& heads) {
        return attend_to_cache(builder, config_, options, result, rows, use, layer, heads, caches);
      });
  if (use == CacheUse::kDecode) {
    result.logits = ops::matmul(builder, hidden, parts.head(), {.transpose_b = true, .out_dtype = DType::kF32});
    if (config_.logit_soft_cap > 0)
      result.logits = ops::pointwise::soft_cap(builder, result.logits, config_.logit_soft_cap);
  } else {
    result.copy = append_copies(builder, result, caches);
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
