#include "model/decoder/append_layer.h"

#include <string>
#include <utility>
#include <vector>

#include "model/decoder/experts.h"
#include "model/decoder/feed_forward.h"
#include "model/decoder/gated_delta.h"
#include "model/decoder/latent_attention.h"
#include "model/decoder/selective_scan.h"
#include "model/decoder/short_convolution.h"
#include "model/decoder/state_space.h"
#include "ops/add/add.h"
#include "ops/scale/scale.h"
#include "ops/split_columns/split_columns.h"
#include "ops/swiglu/swiglu.h"

namespace spillway {
namespace {

// Appends one layer. All references are borrowed.
class LayerBuilder {
 public:
  LayerBuilder(DecoderParts& parts, const DecoderLayer& layer, int64_t index)
      : parts_(parts), layer_(layer), index_(index), prefix_(layer_prefix(index)) {}

  [[nodiscard]] ValueId append(ValueId stream, const TokenMixing& mixing) {
    ValueId x = kNone;
    if (layer_.mixes_tokens()) {
      x = norm(stream, layer_.norms.before_attention);
      stream = add_mixed(x, stream, mixing);
      if (stream == kNone) return kNone;
    }
    if (!layer_.has_feed_forward && !layer_.mixture) return finished(stream);
    const ValueId y = layer_.is_parallel ? x : norm(stream, layer_.norms.before_feed_forward);
    if (!layer_.mixture) return finished(add_feed_forward(y, stream));
    return finished(layer_.has_feed_forward ? add_both(y, stream) : add_mixture(y, stream));
  }

 private:
  [[nodiscard]] Builder& builder() { return parts_.layers().builder(); }

  // Returns x where there is no norm.
  [[nodiscard]] ValueId norm(ValueId x, std::string_view name) {
    return name.empty() ? x : parts_.norm(x, prefix_ + std::string(name));
  }

  // The last projection of a part, what that takes, or kNone where the states are all that is wanted of it, and the
  // factor of its product.
  struct Branch {
    LinearLayer last;
    ValueId inner = kNone;
    double scale = 1;
  };

  // Returns the stream plus what its tokens take from each other, or kNone where `mixing` returns it. All parts are
  // appended before that, since each has states of its own.
  [[nodiscard]] ValueId add_mixed(ValueId x, ValueId stream, const TokenMixing& mixing) {
    const std::vector<Branch> branches = token_branches(x, mixing);
    ValueId others = kNone;
    for (const Branch& branch : branches) {
      if (branch.inner == kNone) return kNone;
      if (&branch != &branches.back()) others = product(branch, others);
    }
    return add_branch(branches.back(), stream, layer_.norms.after_attention, others);
  }

  // Appends the parts that mix tokens.
  [[nodiscard]] std::vector<Branch> token_branches(ValueId x, const TokenMixing& mixing) {
    const auto convolve = [&](ValueId in, ValueId weight, ValueId bias = kNone) {
      return mixing.convolve(index_, in, weight, bias);
    };
    std::vector<Branch> branches;
    const auto add = [&](const auto& part, double scale, const auto&... functions) {
      branches.push_back({part.out_projection(), part.inner(x, functions...), scale});
    };
    if (layer_.convolution) add(ShortConvolutionPart(parts_, *layer_.convolution, prefix_ + "conv"), 1, convolve);
    if (layer_.delta) {
      const std::string module = prefix_ + std::string(layer_.delta->module);
      const auto apply = [&](ValueId qkv, ValueId decay, ValueId beta) {
        return mixing.apply_delta_rule(index_, qkv, decay, beta);
      };
      layer_.delta->heads.rule == ops::StateRule::kAdds
          ? add(StateSpacePart(parts_, *layer_.delta, module), layer_.delta->scales.output, convolve, apply)
          : add(GatedDeltaPart(parts_, *layer_.delta, module), 1, convolve, apply);
    }
    if (layer_.scan) {
      const std::string module = prefix_ + std::string(layer_.scan->module);
      const auto scan = [&](const ops::ScanOperands& operands) { return mixing.scan(index_, operands); };
      add(SelectiveScanPart(parts_, *layer_.scan, module), 1, convolve, scan);
    }
    if (layer_.has_attention) {
      const ValueId read = ops::scale(builder(), x, layer_.attention.input_scale);
      branches.push_back({output_projection(), attended(heads_of(read), mixing), layer_.attention.output_scale});
    }
    return branches;
  }

  // Returns what the output projection takes, or kNone where `mixing` returns it.
  [[nodiscard]] ValueId attended(const AttentionHeads& heads, const TokenMixing& mixing) {
    ValueId result = mixing.attend(index_, heads);
    if (result == kNone) return kNone;
    if (layer_.attention.latent) result = narrow_to_values(builder(), layer_.attention, result);
    return heads.gate == kNone ? result : ops::glu(builder(), heads.gate, result);
  }

  // Returns the scaled product of a branch, plus `others`, which may be kNone.
  [[nodiscard]] ValueId product(const Branch& branch, ValueId others) {
    if (branch.scale == 1) return parts_.layers().linear(branch.last, branch.inner, others);
    const ValueId scaled = ops::scale(builder(), parts_.layers().linear(branch.last, branch.inner), branch.scale);
    return others == kNone ? scaled : ops::add(builder(), scaled, others);
  }

  // Returns stream + residual_scale * norm(product(branch) + others); `others` may be kNone.
  [[nodiscard]] ValueId add_branch(const Branch& branch, ValueId stream, std::string_view norm_after,
                                   ValueId others = kNone) {
    if (norm_after.empty() && parts_.config().residual_scale == 1 && others == kNone) return product(branch, stream);
    return parts_.join(stream, norm(product(branch, others), norm_after));
  }

  // Returns stream + residual_scale * norm(feed_forward(x)).
  [[nodiscard]] ValueId add_feed_forward(ValueId x, ValueId stream) {
    const FeedForwardPart mlp(parts_, layer_.feed_forward, prefix_ + std::string(layer_.feed_forward.module));
    return parts_.layers().by_tiles({x, stream}, [&](const std::vector<ValueId>& rows) {
      const Branch branch{mlp.down_projection(), mlp.inner(rows[0]), layer_.feed_forward.output_scale};
      return add_branch(branch, rows[1], layer_.norms.after_feed_forward);
    });
  }

  // Returns the stream plus what the layer's own input adds, if it has one.
  [[nodiscard]] ValueId add_input(ValueId stream) {
    if (layer_.input_width == 0) return stream;
    const int64_t hidden = parts_.config().hidden_size;
    const LinearLayer gate{prefix_ + "per_layer_input_gate", hidden, layer_.input_width};
    const LinearLayer projection{prefix_ + "per_layer_projection", layer_.input_width, hidden};
    const ValueId gated =
        ops::geglu(builder(), parts_.layers().linear(gate, stream), parts_.layer_inputs()[static_cast<size_t>(index_)]);
    return add_branch({projection, gated}, stream, "post_per_layer_input_norm");
  }

  // Returns the stream plus the layer's own input, times the layer's scalar, where it has them.
  [[nodiscard]] ValueId finished(ValueId stream) {
    stream = add_input(stream);
    if (!layer_.has_scalar) return stream;
    const std::string module = prefix_.substr(0, prefix_.size() - 1);
    return ops::scale_by(builder(), stream,
                         parts_.layers().buffer(prefix_ + "layer_scalar", module, {1}, FreshContent::kOnes));
  }

  // Returns stream + residual_scale * norm(mixture(x)).
  [[nodiscard]] ValueId add_mixture(ValueId x, ValueId stream) {
    const std::string_view norm_after = layer_.norms.after_feed_forward;
    if (norm_after.empty() && parts_.config().residual_scale == 1)
      return append_mixture(parts_, *layer_.mixture, prefix_, {.experts = x, .router = x}, stream);
    const ValueId mixed = append_mixture(parts_, *layer_.mixture, prefix_, {.experts = x, .router = x}, kNone);
    return parts_.join(stream, norm(mixed, norm_after));
  }

  // Returns stream + residual_scale * norm(norm(feed_forward(x)) + norm(mixture(norm(stream)))), or, without norms of
  // the mixture, stream + residual_scale * (feed_forward(x) + mixture(x)).
  [[nodiscard]] ValueId add_both(ValueId x, ValueId stream) {
    const FeedForwardPart mlp(parts_, layer_.feed_forward, prefix_ + std::string(layer_.feed_forward.module));
    const Branch branch{mlp.down_projection(), mlp.inner(x), layer_.feed_forward.output_scale};
    const ValueId dense = norm(product(branch, kNone), layer_.norms.after_dense);
    const MixtureInputs inputs =
        layer_.norms.before_mixture.empty()
            ? MixtureInputs{.experts = x, .router = x}
            : MixtureInputs{.experts = norm(stream, layer_.norms.before_mixture), .router = stream};
    const ValueId mixed =
        norm(append_mixture(parts_, *layer_.mixture, prefix_, inputs, kNone), layer_.norms.after_mixture);
    return parts_.join(stream, norm(ops::add(builder(), dense, mixed), layer_.norms.after_feed_forward));
  }

  [[nodiscard]] std::string attention_module() const { return prefix_ + std::string(layer_.attention.module); }

  [[nodiscard]] LinearLayer attention_projection(std::string_view name, int64_t width) const {
    return {.module = fmt::format("{}.{}", attention_module(), name),
            .in_features = parts_.config().hidden_size,
            .out_features = width,
            .bias = layer_.attention.qkv_bias};
  }

  [[nodiscard]] LinearLayer output_projection() const {
    return {.module = fmt::format("{}.{}", attention_module(), layer_.attention.output_proj),
            .in_features = layer_.attention.output_width(),
            .out_features = parts_.config().hidden_size,
            .bias = layer_.attention.output_bias};
  }

  // Returns the heads of x; no keys and values where they are another layer's.
  [[nodiscard]] AttentionHeads project_heads(ValueId x) {
    const int64_t queries = layer_.attention.query_width(), keys = layer_.attention.key_width();
    const auto project = [&](std::string_view name, int64_t width) {
      return parts_.layers().linear(attention_projection(name, width), x);
    };
    if (layer_.attention.keys_of) return {.q = project("q_proj", queries)};
    if (layer_.attention.has_gate && layer_.attention.gate_proj.empty()) {
      const int64_t head = layer_.attention.head_dim;
      const std::vector<ValueId> parts =
          ops::split_columns(builder(), project("q_proj", 2 * queries), {head, head}, layer_.attention.heads);
      const ValueId k = project("k_proj", keys);
      return {.q = parts[0], .k = k, .v = project("v_proj", keys), .gate = parts[1]};
    }
    if (!layer_.attention.is_fused) {
      const ValueId q = project("q_proj", queries), k = project("k_proj", keys);
      const ValueId v = layer_.attention.values_are_keys ? k : project("v_proj", keys);
      return {.q = q, .k = k, .v = v, .gate = layer_.attention.has_gate ? gates(x) : kNone};
    }
    const ValueId all = project("qkv_proj", queries + 2 * keys);
    const std::vector<ValueId> parts = ops::split_columns(builder(), all, {queries, keys, keys});
    return {.q = parts[0], .k = parts[1], .v = parts[2]};
  }

  // Returns the gates that a projection of their own gives, which has no bias.
  [[nodiscard]] ValueId gates(ValueId x) {
    LinearLayer gate = attention_projection(layer_.attention.gate_proj, layer_.attention.output_width());
    gate.bias = false;
    return parts_.layers().linear(gate, x);
  }

  // Normalises queries, and keys if there are any, where they have norms.
  void normalise(AttentionHeads& heads) {
    const Attention& attention = layer_.attention;
    if (!attention.head_norm) return;
    const bool each = *attention.head_norm == HeadNorm::kEachHead;
    const int64_t queries = each ? attention.head_dim : attention.query_width();
    const int64_t keys = each ? attention.head_dim : attention.key_width();
    heads.q = parts_.norm(heads.q, fmt::format("{}.{}", attention_module(), attention.query_norm), queries);
    if (heads.k != kNone)
      heads.k = parts_.norm(heads.k, fmt::format("{}.{}", attention_module(), attention.key_norm), keys);
  }

  // Returns the heads of x, normalised and rotated.
  [[nodiscard]] AttentionHeads heads_of(ValueId x) {
    const Attention& attention = layer_.attention;
    if (attention.latent) return append_latent_heads(parts_, attention, prefix_, x);
    AttentionHeads heads = project_heads(x);
    if (!attention.head_norm_follows_rope) normalise(heads);
    if (attention.normalises_values && heads.v != kNone) heads.v = parts_.plain_norm(heads.v, attention.head_dim);
    if (attention.rope) parts_.rotate(heads, *attention.rope);
    if (attention.head_norm_follows_rope) normalise(heads);
    if (attention.has_sinks) {
      const std::string module = attention_module();
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
                     const TokenMixing& mixing) {
  return LayerBuilder(parts, layer, index).append(stream, mixing);
}

}  // namespace spillway
