#include "ops/attention/operands.h"

#include "ops/check.h"
#include "ops/real_or.h"

namespace spillway::ops {

Attributes to_attributes(const AttentionOptions& options, int64_t tokens) {
  Attributes attributes{{"heads", options.heads},
                        {"kv_heads", options.kv_heads},
                        {"head_size", options.head_size},
                        {"sliding_window", options.sliding_window},
                        {"scale", options.scale},
                        {"sequence_len", options.sequence_len},
                        {"tokens", tokens}};
  if (options.soft_cap > 0) attributes.add("soft_cap", options.soft_cap);
  if (!options.causal) {
    attributes.add("causal", int64_t{0});
    attributes.add("key_sequence_len", options.key_sequence_len);
  }
  return attributes;
}

AttentionOptions attention_options(const Attributes& attributes) {
  return {.heads = attributes.integer("heads"),
          .kv_heads = attributes.integer("kv_heads"),
          .head_size = attributes.integer("head_size"),
          .sliding_window = attributes.integer("sliding_window"),
          .scale = attributes.real("scale"),
          .sequence_len = attributes.integer("sequence_len"),
          .causal = attributes.integer_or("causal", 1) != 0,
          .key_sequence_len = attributes.integer_or("key_sequence_len", 0),
          .soft_cap = real_or(attributes, "soft_cap", 0)};
}

AttentionOptions checked_attention_options(std::string_view op, const Attributes& attributes) {
  const AttentionOptions options = attention_options(attributes);
  expect_divides(op, "a number of key heads", options.kv_heads, options.heads);
  if (options.head_size <= 0 || options.sliding_window < 0) {
    throw input_error(op, "expected a head size above 0 and no negative window, got {}; check the model's sizes",
                      to_string(attributes));
  }
  if (options.sliding_window > 0 && !options.causal) {
    throw input_error(op, "expected no sliding window where attention is not causal, got {}; set it to 0",
                      options.sliding_window);
  }
  return options;
}

void expect_sinks(std::string_view op, const ValueType* sinks, const AttentionOptions& options) {
  if (sinks == nullptr) return;
  expect_real(op, "sinks", *sinks);
  expect_shape(op, "sinks", *sinks, {options.heads});
}

namespace {

using namespace attention_op;

// Sets all but the sequences, the sinks and the outputs.
AttentionArgs common_args(const KernelArgs& args) {
  const TensorView &q = args.inputs[kQuery], &k = args.inputs[kKey], &v = args.inputs[kValue];
  const AttentionOptions options = attention_options(args.attributes);
  return {.tokens = q.shape[0],
          .heads = options.heads,
          .kv_heads = options.kv_heads,
          .head_size = options.head_size,
          .is_causal = options.causal,
          .scores = {static_cast<float>(options.scale), static_cast<float>(options.soft_cap)},
          .window = options.sliding_window,
          .dtype = q.dtype,
          .q = q.data,
          .k = k.data,
          .v = v.data};
}

Sinks sinks_at(const KernelArgs& args, int at) {
  const TensorView* const sinks = find_input(args.inputs, at);
  return sinks == nullptr ? Sinks() : Sinks{sinks->data, sinks->dtype};
}

// `key_offsets` and `sinks` are the places of these inputs.
AttentionArgs packed_args(const KernelArgs& args, int key_offsets, int sinks) {
  AttentionArgs result = common_args(args);
  const TensorView& offsets = args.inputs[kSeqOffsets];
  result.seq_offsets = offsets.as<int32_t>();
  result.sequences = offsets.shape[0] - 1;
  if (const TensorView* const of_keys = find_input(args.inputs, key_offsets)) {
    result.key_offsets = of_keys->as<int32_t>();
    result.key_tokens = args.inputs[kKey].shape[0];
  }
  result.sinks = sinks_at(args, sinks);
  return result;
}

}  // namespace

AttentionArgs attention_args(const KernelArgs& args) {
  AttentionArgs result = packed_args(args, kKeyOffsets, kSinks);
  result.o = args.outputs[kOut].data;
  result.lse = args.outputs[kLse].as<float>();
  return result;
}

AttentionGradArgs attention_grad_args(const KernelArgs& args) {
  AttentionGradArgs result{.forward = packed_args(args, kKeyOffsetsRead, kSinksRead),
                           .d_o = args.inputs[kDOut].data,
                           .dq = args.outputs[kDQuery].data,
                           .dk = args.outputs[kDKey].data,
                           .dv = args.outputs[kDValue].data};
  result.forward.o = args.inputs[kOutRead].data;
  result.forward.lse = args.inputs[kLseRead].as<float>();
  if (args.outputs.size() > kDSinks) {
    result.d_sinks = args.outputs[kDSinks].data;
    result.d_sinks_dtype = args.outputs[kDSinks].dtype;
  }
  return result;
}

AttentionArgs cached_attention_args(const KernelArgs& args) {
  AttentionArgs result = common_args(args);
  result.cache = {args.inputs[kFirst].as<int32_t>(), args.inputs[kOwn].as<int32_t>()};
  result.sinks = sinks_at(args, kCacheSinks);
  result.o = args.outputs[kOut].data;
  return result;
}

}  // namespace spillway::ops
