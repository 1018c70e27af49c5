#include "model/dit/wan.h"

#include <cmath>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "io/file.h"
#include "model/config_overrides.h"
#include "model/layers.h"
#include "ops/activation/activation.h"
#include "ops/add/add.h"
#include "ops/add_row/add_row.h"
#include "ops/attention/attention.h"
#include "ops/axial_rope/axial_rope.h"
#include "ops/cast/cast.h"
#include "ops/gated_add/gated_add.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/matmul/matmul.h"
#include "ops/repeat_columns/repeat_columns.h"
#include "ops/rms_norm/rms_norm.h"

namespace spillway {
namespace {

// The parts of a block's modulation, in the order of its table; the head's has the first two.
enum Part : int64_t { kShift, kScale, kGate, kFfnShift, kFfnScale, kFfnGate, kParts };
constexpr int64_t kHeadParts = 2;
constexpr double kImageEps = 1e-5;  // of the image embedder's norms

// The values that describe clips, in addition to the stream. Offsets are i32 [C + 1].
struct Conditions {
  ValueId positions = kNone;                     // of the stream
  ValueId clips = kNone, own_clips = kNone;      // in the whole stream, and in the rows of it that this rank has
  ValueId timestep = kNone;                      // f32 [C, D]
  ValueId modulation = kNone;                    // f32 [C, kParts * D]
  ValueId text = kNone, text_offsets = kNone;    // [C * text_tokens, D]
  ValueId image = kNone, image_offsets = kNone;  // [C * kImageTokens, D]; absent in a model that reads none
};

// Appends a Wan transformer. All references are borrowed.
class WanBuilder {
 public:
  WanBuilder(Builder& builder, const WanConfig& config, const ModelOptions& options)
      : b_(builder), config_(config), options_(options), layers_(builder, options) {}

  ModelGraph run();

 private:
  [[nodiscard]] int64_t width() const { return config_.width(); }
  [[nodiscard]] ValueType of_clips() const { return {DType::kI32, {options_.max_sequences + 1}}; }
  ValueId column(const Column& c, const ValueType& type) {
    return add_column(b_, c, type, result_.columns, options_.stream);
  }
  // W x + b of a layer outside of the blocks, computed in the dtype of x, and given in `out`.
  ValueId project(const std::string& module, int64_t out_features, ValueId x, std::optional<DType> out = {});
  // A weight that is f32 whatever the stream is.
  ValueId exact(Parameter parameter) {
    parameter.dtype = DType::kF32;
    return layers_.add(std::move(parameter)).value();
  }
  // scale_shift_table of a block, or the model's own.
  ValueId table(const std::string& prefix, int64_t parts);
  ValueId norm(const std::string& module, ValueId x, double eps);

  Conditions conditions();
  ValueId embed_patches();
  ValueId embed_image(ValueId image);
  ValueId block(const std::string& prefix, const Conditions& seen, ValueId h);
  ValueId attend_to_clip(const std::string& prefix, const Conditions& seen, ValueId x);
  ValueId attend_to_text(const std::string& prefix, const Conditions& seen, ValueId x);
  ValueId head(const Conditions& seen, ValueId h);

  ValueId linear(const std::string& module, ValueId x, ValueId residual = kNone) {
    return layers_.linear({.module = module, .in_features = width(), .out_features = width(), .bias = true}, x,
                          residual);
  }
  // RMS norm across the heads of linear(x).
  ValueId normal_heads(const std::string& prefix, const char* projection, const char* norm, ValueId x) {
    const ValueId weight = layers_.weight(ParameterRole::kNorm, prefix + norm, {width()});
    return ops::rms_norm(b_, linear(prefix + projection, x), weight, config_.eps);
  }
  [[nodiscard]] ops::AttentionOptions attention_options(int64_t key_sequence_len) const {
    return {.heads = config_.num_attention_heads,
            .kv_heads = config_.num_attention_heads,
            .head_size = config_.attention_head_dim,
            .scale = 1 / std::sqrt(static_cast<double>(config_.attention_head_dim)),
            .sequence_len = options_.sequence_len,
            .causal = false,
            .key_sequence_len = key_sequence_len};
  }

  Builder& b_;
  const WanConfig& config_;
  const ModelOptions& options_;
  Layers layers_;
  ops::SharedStream shared_;  // where ranks share it
  ModelGraph result_;
};

ModelGraph WanBuilder::run() {
  b_.add_axis({.name = "tokens", .capacity = options_.own_tokens()});
  const bool is_shared = options_.context_ranks > 1;
  result_.dropout_seed = layers_.declare_dropout(is_shared ? column(kOwnOffsets, of_clips()) : kNone);
  const Conditions seen = conditions();
  if (is_shared) shared_ = layers_.add_shared_stream();
  b_.begin_block(options_.prefix + "patch_embedding");
  ValueId h = embed_patches();
  b_.end_block();
  for (int64_t i = 0; i < config_.num_layers; ++i) {
    const std::string module = fmt::format("blocks.{}", i);
    b_.begin_block(options_.prefix + module);
    h = block(module + ".", seen, h);
    b_.end_block();
  }
  b_.begin_block(options_.prefix + "proj_out");
  result_.hidden = head(seen, h);
  b_.end_block();
  result_.parameters = layers_.parameters();
  return std::move(result_);
}

ValueId WanBuilder::project(const std::string& module, int64_t out_features, ValueId x, std::optional<DType> out) {
  const DType dtype = b_.type(x).dtype;
  const auto add = [&](ParameterRole role, const Shape& shape) {
    Parameter p = layers_.base_parameter(role, module, shape);
    p.dtype = dtype;
    return layers_.add(std::move(p)).value();
  };
  const ValueId w = add(ParameterRole::kProjection, {out_features, b_.type(x).shape[1]});
  const ValueId bias = add(ParameterRole::kBias, {out_features});
  return ops::matmul(b_, x, w, {.transpose_b = true, .bias = bias, .out_dtype = out.value_or(dtype)});
}

ValueId WanBuilder::table(const std::string& prefix, int64_t parts) {
  Parameter p =
      layers_.named_parameter(ParameterRole::kModulation, prefix + "scale_shift_table", prefix, {parts * width()});
  p.source.shape = {1, parts, width()};
  return exact(std::move(p));
}

ValueId WanBuilder::norm(const std::string& module, ValueId x, double eps) {
  const int64_t columns = b_.type(x).shape[1];
  const ValueId weight = exact(layers_.base_parameter(ParameterRole::kNorm, module, {columns}));
  const ValueId bias = exact(layers_.base_parameter(ParameterRole::kBias, module, {columns}));
  return ops::layer_norm(b_, x, weight, bias, eps);
}

Conditions WanBuilder::conditions() {
  const int64_t clips = options_.max_sequences;
  const ValueType offsets = of_clips();
  const std::string prefix = "condition_embedder.";
  Conditions seen;
  seen.positions = column(kPatchPositions, {DType::kI32, {options_.own_tokens(), 3}, kTokenAxis});
  seen.clips = column(kSeqOffsets, offsets);
  seen.own_clips = options_.context_ranks > 1 ? column(kOwnBorders, offsets) : seen.clips;
  const ValueId timestep = column(kTimestepEmbedding, {DType::kF32, {clips, config_.freq_dim}});
  const ValueId first = ops::silu(b_, project(prefix + "time_embedder.linear_1", width(), timestep));
  seen.timestep = project(prefix + "time_embedder.linear_2", width(), first);
  seen.modulation = project(prefix + "time_proj", kParts * width(),
                            ops::cast(b_, ops::silu(b_, seen.timestep), options_.dtype), DType::kF32);

  const ValueId text = column(kText, {DType::kF32, {clips * options_.text_tokens, config_.text_dim}});
  seen.text_offsets = column(kTextOffsets, offsets);
  seen.text = project(
      prefix + "text_embedder.linear_2", width(),
      ops::gelu_tanh(b_, project(prefix + "text_embedder.linear_1", width(), ops::cast(b_, text, options_.dtype))));

  if (config_.image_dim == 0) return seen;
  seen.image = embed_image(column(kImage, {DType::kF32, {clips * kImageTokens, config_.image_dim}}));
  seen.image_offsets = column(kImageOffsets, offsets);
  return seen;
}

ValueId WanBuilder::embed_image(ValueId image) {
  const std::string prefix = "condition_embedder.image_embedder.";
  const ValueId x = norm(prefix + "norm1", ops::cast(b_, image, options_.dtype), kImageEps);
  const ValueId first = ops::gelu(b_, project(prefix + "ff.net.0.proj", config_.image_dim, x));
  return norm(prefix + "norm2", project(prefix + "ff.net.2", width(), first), kImageEps);
}

// A convolution whose kernel is as large as its stride.
ValueId WanBuilder::embed_patches() {
  const int64_t elems = config_.in_channels * config_.patch_elems();
  const ValueId patches = column(kPatches, {DType::kF32, {options_.own_tokens(), elems}, kTokenAxis});
  const std::array<int64_t, 3>& patch = config_.patch_size;
  Parameter w = layers_.base_parameter(ParameterRole::kProjection, "patch_embedding", {width(), elems});
  w.source.shape = {width(), config_.in_channels, patch[0], patch[1], patch[2]};
  const ValueId weight = layers_.add(std::move(w)).value();
  const ValueId bias = layers_.weight(ParameterRole::kBias, "patch_embedding", {width()});
  return ops::linear(b_, ops::cast(b_, patches, options_.dtype), weight, {.bias = bias});
}

ValueId WanBuilder::block(const std::string& prefix, const Conditions& seen, ValueId h) {
  const ops::Modulation modulation{ops::add_row(b_, seen.modulation, table(prefix, kParts)), seen.own_clips};
  ValueId x = ops::modulated_layer_norm(b_, h, modulation, {.scale = kScale, .shift = kShift}, config_.eps);
  h = ops::gated_add(b_, h, attend_to_clip(prefix + "attn1.", seen, x), modulation, kGate);

  x = config_.cross_attn_norm ? norm(prefix + "norm2", h, config_.eps) : h;
  h = linear(prefix + "attn2.to_out.0", attend_to_text(prefix + "attn2.", seen, x), h);

  x = ops::modulated_layer_norm(b_, h, modulation, {.scale = kFfnScale, .shift = kFfnShift}, config_.eps);
  const std::string ffn = prefix + "ffn.net.";
  const LinearLayer up{.module = ffn + "0.proj", .in_features = width(), .out_features = config_.ffn_dim, .bias = true};
  const LinearLayer down{.module = ffn + "2", .in_features = config_.ffn_dim, .out_features = width(), .bias = true};
  x = layers_.by_tiles({x}, [&](const std::vector<ValueId>& rows) {
    return layers_.linear(down, ops::gelu_tanh(b_, layers_.linear(up, rows.front())));
  });
  return ops::gated_add(b_, h, x, modulation, kFfnGate);
}

ValueId WanBuilder::attend_to_clip(const std::string& prefix, const Conditions& seen, ValueId x) {
  const ops::AxisSizes axes = ops::video_axis_sizes(config_.attention_head_dim);
  const ValueId q = ops::axial_rope(b_, normal_heads(prefix, "to_q", "norm_q", x), seen.positions, axes);
  const ValueId k = ops::axial_rope(b_, normal_heads(prefix, "to_k", "norm_k", x), seen.positions, axes);
  const ValueId v = linear(prefix + "to_v", x);
  const ops::AttentionOptions how = attention_options(0);
  return linear(prefix + "to_out.0", options_.context_ranks > 1
                                         ? ops::shared_attention(b_, q, k, v, seen.clips, how, shared_)
                                         : ops::attention(b_, q, k, v, seen.clips, how));
}

// Returns the cross-attention to the text plus, with the same queries, to the image. Ranks that share clips have all
// keys and values of these, which are few, and each its own queries.
ValueId WanBuilder::attend_to_text(const std::string& prefix, const Conditions& seen, ValueId x) {
  const ValueId q = normal_heads(prefix, "to_q", "norm_q", x);
  const ValueId k = normal_heads(prefix, "to_k", "norm_k", seen.text), v = linear(prefix + "to_v", seen.text);
  const ValueId of_text =
      ops::cross_attention(b_, q, k, v, seen.own_clips, seen.text_offsets, attention_options(options_.text_tokens));
  if (seen.image == kNone) return of_text;
  const ValueId image_k = normal_heads(prefix, "add_k_proj", "norm_added_k", seen.image);
  const ValueId image_v = linear(prefix + "add_v_proj", seen.image);
  return ops::add(b_, of_text,
                  ops::cross_attention(b_, q, image_k, image_v, seen.own_clips, seen.image_offsets,
                                       attention_options(kImageTokens)));
}

// The table's rows are shift and scale, to both of which the timestep is added as it is.
ValueId WanBuilder::head(const Conditions& seen, ValueId h) {
  const ValueId rows = ops::add_row(b_, ops::repeat_columns(b_, seen.timestep, kHeadParts), table("", kHeadParts));
  const ValueId x =
      ops::modulated_layer_norm(b_, h, {rows, seen.own_clips}, {.scale = kScale, .shift = kShift}, config_.eps);
  return project("proj_out", config_.out_channels * config_.patch_elems(), x);
}

class Wan final : public Model {
 public:
  Wan(const WanConfig& config, std::string overrides)
      : config_(config),
        overrides_(std::move(overrides)),
        video_{.in_channels = config.in_channels,
               .out_channels = config.out_channels,
               .patch = config.patch_size,
               .max_positions = config.rope_max_seq_len,
               .heads = config.num_attention_heads,
               .text_width = config.text_dim,
               .image_width = config.image_dim,
               .timestep_size = config.freq_dim,
               .lora_targets = {"to_q", "to_k", "to_v", "to_out.0"}} {}

  [[nodiscard]] ModelGraph build(Builder& builder, const ModelOptions& options) const override {
    return WanBuilder(builder, config_, options).run();
  }
  [[nodiscard]] std::optional<DType> dtype() const override { return {}; }
  [[nodiscard]] std::string config_json(const std::filesystem::path& folder) const override {
    const std::filesystem::path path = folder / "config.json";
    return with_overrides(read_file(path, 4 * kMiB), overrides_, path.string());
  }
  [[nodiscard]] const VideoModel* video() const override { return &video_; }

 private:
  WanConfig config_;
  std::string overrides_;
  VideoModel video_;
};

}  // namespace

ModelPtr make_wan(const WanConfig& config, std::string overrides) {
  return std::make_shared<Wan>(config, std::move(overrides));
}

ModelPtr read_wan(const std::filesystem::path& folder, const std::string& overrides) {
  return make_wan(read_wan_config(folder, overrides), overrides);
}

}  // namespace spillway
