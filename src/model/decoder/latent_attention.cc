#include "model/decoder/latent_attention.h"

#include <vector>

#include "ops/repeat_columns/repeat_columns.h"
#include "ops/split_columns/split_columns.h"

namespace spillway {
namespace {

constexpr double kInnerEps = 1e-6;  // of the norms of latent rows, whatever config.json says

// Appends the heads of one layer. All references are borrowed.
class LatentBuilder {
 public:
  LatentBuilder(DecoderParts& parts, const Attention& attention, const std::string& prefix)
      : parts_(parts), attention_(attention), latent_(*attention.latent), module_(prefix + "self_attn.") {}

  [[nodiscard]] AttentionHeads heads(ValueId x) {
    const int64_t heads = attention_.heads, plain = attention_.head_dim - latent_.rotated;
    const std::vector<ValueId> q = ops::split_columns(builder(), queries(x), {plain, latent_.rotated}, heads);
    const ValueId common = project("kv_a_proj_with_mqa", parts_.config().hidden_size,
                                   latent_.key_rank + latent_.rotated, x, attention_.qkv_bias);
    const std::vector<ValueId> latent = ops::split_columns(builder(), common, {latent_.key_rank, latent_.rotated});
    const ValueId row = parts_.norm(latent[0], module_ + "kv_a_layernorm", latent_.key_rank, kInnerEps);
    const ValueId of_heads = project("kv_b_proj", latent_.key_rank, heads * (plain + latent_.value_dim), row);
    const std::vector<ValueId> kv = ops::split_columns(builder(), of_heads, {plain, latent_.value_dim}, heads);
    AttentionHeads rotated{.q = q[1], .k = latent[1]};
    parts_.rotate(rotated, *attention_.rope);
    const ValueId shared = ops::repeat_columns(builder(), rotated.k, heads);
    const ValueId still = parts_.grown(q[0], plain, *attention_.rope);
    return {.q = ops::join_columns(builder(), {still, rotated.q}, {plain, latent_.rotated}, heads),
            .k = ops::join_columns(builder(), {kv[0], shared}, {plain, latent_.rotated}, heads),
            .v = widened(kv[1])};
  }

 private:
  [[nodiscard]] Builder& builder() { return parts_.layers().builder(); }

  [[nodiscard]] ValueId project(std::string_view name, int64_t in, int64_t out, ValueId x, bool bias = false) {
    return parts_.layers().linear(
        {.module = module_ + std::string(name), .in_features = in, .out_features = out, .bias = bias}, x);
  }

  [[nodiscard]] ValueId queries(ValueId x) {
    const int64_t hidden = parts_.config().hidden_size, width = attention_.query_width();
    if (latent_.query_rank == 0) return project("q_proj", hidden, width, x);
    const ValueId row = project("q_a_proj", hidden, latent_.query_rank, x, attention_.qkv_bias);
    return project("q_b_proj", latent_.query_rank, width,
                   parts_.norm(row, module_ + "q_a_layernorm", latent_.query_rank, kInnerEps));
  }

  // Returns values with zeros behind those of each head.
  [[nodiscard]] ValueId widened(ValueId v) {
    const int64_t missing = attention_.head_dim - latent_.value_dim;
    if (missing == 0) return v;
    return ops::join_columns(builder(), {v, kNone}, {latent_.value_dim, missing}, attention_.heads);
  }

  DecoderParts& parts_;
  const Attention& attention_;
  const LatentHeads& latent_;
  std::string module_;
};

}  // namespace

AttentionHeads append_latent_heads(DecoderParts& parts, const Attention& attention, const std::string& prefix,
                                   ValueId x) {
  return LatentBuilder(parts, attention, prefix).heads(x);
}

ValueId narrow_to_values(Builder& builder, const Attention& attention, ValueId attended) {
  const int64_t values = attention.latent->value_dim, rest = attention.head_dim - values;
  return rest == 0 ? attended : ops::split_columns(builder, attended, {values, rest}, attention.heads)[0];
}

}  // namespace spillway
