#include "model/decoder/append_layer.h"

#include <string>
#include <utility>
#include <vector>

#include "model/decoder/experts.h"
#include "model/decoder/feed_forward.h"
#include "model/decoder/latent_attention.h"
#include "ops/scale/scale.h"
#include "ops/split_columns/split_columns.h"

namespace spillway {
namespace {

// Appends one layer. All references are borrowed.
class LayerBuilder {
 public:
  LayerBuilder(DecoderParts& parts, const DecoderLayer& layer, int64_t index)
      : parts_(parts), layer_(layer), index_(index), prefix_(layer_prefix(index)) {}

  [[nodiscard]] ValueId append(ValueId stream, const Attend& attend) {
    const ValueId x = norm(stream, layer_.norms.before_attention);
    ValueId attended = attend(index_, heads_of(x));
    if (attended == kNone) return kNone;
    if (layer_.attention.latent) attended = narrow_to_values(builder(), layer_.attention, attended);
    stream = add_branch(output_projection(), attended, stream, layer_.norms.after_attention);
    const ValueId y = layer_.is_parallel ? x : norm(stream, layer_.norms.before_feed_forward);
    return scaled(layer_.mixture ? add_mixture(y, stream) : add_feed_forward(y, stream));
  }

 private:
  [[nodiscard]] Builder& builder() { return parts_.layers().builder(); }

  // Returns x where there is no norm.
  [[nodiscard]] ValueId norm(ValueId x, std::string_view name) {
    return name.empty() ? x : parts_.norm(x, prefix_ + std::string(name));
  }

  // Returns stream + residual_scale * norm(last(x)).
  [[nodiscard]] ValueId add_branch(const LinearLayer& last, ValueId x, ValueId stream, std::string_view norm_after) {
    if (norm_after.empty() && parts_.config().residual_scale == 1) return parts_.layers().linear(last, x, stream);
    return parts_.join(stream, norm(parts_.layers().linear(last, x), norm_after));
  }

  // Returns stream + residual_scale * norm(feed_forward(x)).
  [[nodiscard]] ValueId add_feed_forward(ValueId x, ValueId stream) {
    const FeedForwardPart mlp(parts_, layer_.feed_forward, prefix_ + "mlp");
    return add_branch(mlp.down_projection(), mlp.inner(x), stream, layer_.norms.after_feed_forward);
  }

  // Returns the stream times the layer's scalar, if it has one.
  [[nodiscard]] ValueId scaled(ValueId stream) {
    if (!layer_.has_scalar) return stream;
    const std::string module = prefix_.substr(0, prefix_.size() - 1);
    return ops::scale_by(builder(), stream, parts_.layers().buffer(prefix_ + "layer_scalar", module, {1}));
  }

  // Returns stream + residual_scale * norm(mixture(x)).
  [[nodiscard]] ValueId add_mixture(ValueId x, ValueId stream) {
    const std::string_view norm_after = layer_.norms.after_feed_forward;
    if (norm_after.empty() && parts_.config().residual_scale == 1)
      return append_mixture(parts_, *layer_.mixture, prefix_, x, stream);
    return parts_.join(stream, norm(append_mixture(parts_, *layer_.mixture, prefix_, x, kNone), norm_after));
  }

  [[nodiscard]] LinearLayer attention_projection(std::string_view name, int64_t width) const {
    return {.module = fmt::format("{}self_attn.{}", prefix_, name),
            .in_features = parts_.config().hidden_size,
            .out_features = width,
            .bias = layer_.attention.qkv_bias};
  }

  [[nodiscard]] LinearLayer output_projection() const {
    return {.module = prefix_ + "self_attn.o_proj",
            .in_features = layer_.attention.output_width(),
            .out_features = parts_.config().hidden_size,
            .bias = layer_.attention.output_bias};
  }

  [[nodiscard]] AttentionHeads project_heads(ValueId x) {
    const int64_t queries = layer_.attention.query_width(), keys = layer_.attention.key_width();
    const auto project = [&](std::string_view name, int64_t width) {
      return parts_.layers().linear(attention_projection(name, width), x);
    };
    if (!layer_.attention.is_fused) {
      const ValueId q = project("q_proj", queries), k = project("k_proj", keys);
      return {.q = q, .k = k, .v = layer_.attention.values_are_keys ? k : project("v_proj", keys)};
    }
    const ValueId all = project("qkv_proj", queries + 2 * keys);
    const std::vector<ValueId> parts = ops::split_columns(builder(), all, {queries, keys, keys});
    return {.q = parts[0], .k = parts[1], .v = parts[2]};
  }

  // Returns the heads of x, normalised and rotated.
  [[nodiscard]] AttentionHeads heads_of(ValueId x) {
    const Attention& attention = layer_.attention;
    if (attention.latent) return append_latent_heads(parts_, attention, prefix_, x);
    AttentionHeads heads = project_heads(x);
    if (attention.head_norm) {
      const bool each = *attention.head_norm == HeadNorm::kEachHead;
      const int64_t queries = each ? attention.head_dim : attention.query_width();
      const int64_t keys = each ? attention.head_dim : attention.key_width();
      heads.q = parts_.norm(heads.q, prefix_ + "self_attn.q_norm", queries);
      heads.k = parts_.norm(heads.k, prefix_ + "self_attn.k_norm", keys);
    }
    if (attention.normalises_values) heads.v = parts_.plain_norm(heads.v, attention.head_dim);
    if (attention.rope) parts_.rotate(heads, *attention.rope);
    if (attention.has_sinks) {
      const std::string module = prefix_ + "self_attn";
      heads.sinks =
          parts_.layers()
              .add(parts_.layers().named_parameter(ParameterRole::kSinks, module + ".sinks", module, {attention.heads}))
              .value();
    }
    return heads;
  }

  DecoderParts& parts_;
  const DecoderLayer& layer_;
  int64_t index_;
  std::string prefix_;
};

}  // namespace

ValueId append_layer(DecoderParts& parts, const DecoderLayer& layer, int64_t index, ValueId stream,
                     const Attend& attend) {
  return LayerBuilder(parts, layer, index).append(stream, attend);
}

}  // namespace spillway
