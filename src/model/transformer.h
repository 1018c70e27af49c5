// A decoder's forward Graph from its config.json: one short function an architecture, made of shared pieces.
//
// Weights carry their Hugging Face names ("model.layers.0.self_attn.q_proj.weight"), LoRA factors PEFT's
// ("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"). Each decoder layer is one block of the graph. A
// block's norm, projections and attention read nothing of another block but its output, so a block can be recomputed.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/builder.h"
#include "model/config.h"
#include "model/lora.h"
#include "model/parameters.h"

namespace spillway {

// Weights that are asked for by name: the head may be the embedding, or start as a copy of it.
inline constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
inline constexpr std::string_view kHead = "lm_head.weight";

// The inputs of a graph over one flat stream of at most T tokens; all are kBatch values.
struct StreamInputs {
  ValueId ids = kNone;           // i32 [T]
  ValueId positions = kNone;     // i32 [T], restarting at each sequence
  ValueId seq_offsets = kNone;   // i32 [max_sequences + 1]; unused entries at the end equal the stream's length
  ValueId dropout_seed = kNone;  // i64 [1], below 0 for none; absent without dropout
};

struct DecoderOptions {
  DType dtype = DType::kF32;  // of weights and activations
  int64_t tokens = 0;         // T
  int64_t max_sequences = 1;
  int64_t sequence_len = 0;  // of a usual sequence, for the predicted cost of attention; 0: T
  bool train_base = false;   // full fine-tuning; false: the base is frozen
  std::optional<LoraOptions> lora;
};

struct Decoder {
  StreamInputs inputs;
  ValueId hidden = kNone;  // [T, hidden_size], after the final norm
  ValueId head = kNone;    // [vocab_size, hidden_size]; the embedding where they are tied
  ParameterTable parameters;
};

// Appends the inputs, the weights and the forward operations up to the final norm. Sets graph.tokens.
[[nodiscard]] Decoder build_decoder(Builder& builder, const ModelConfig& config, const DecoderOptions& options);

// The parameters of that decoder without its graph; they have no values. Of the options only `dtype`, `train_base`
// and `lora` matter.
[[nodiscard]] ParameterTable decoder_parameters(const ModelConfig& config, DecoderOptions options = {});

// For generation: keys and values of all tokens before stay in caches (kCache, "cache.layers.0.key") that several
// sequences share, each with consecutive rows of its own. A run takes a stream of new tokens of any of them.
enum class CacheUse : uint8_t {
  kPrompt,  // many tokens of a sequence at a time, for their keys and values alone
  kDecode,  // one token a sequence, and the logits of what follows it
};

struct CachedDecoder {
  ValueId ids = kNone;        // i32 [T]
  ValueId positions = kNone;  // i32 [T]
  ValueId first = kNone;      // i32 [T]: the row of the caches of the first token of the token's sequence
  ValueId own = kNone;        // i32 [T]: the token's own row
  ValueId logits = kNone;     // f32 [T, vocab_size], of kDecode
  ParameterTable parameters;
};

// `rows` of each cache. A graph for kPrompt adopts one for kDecode, which has all weights.
[[nodiscard]] CachedDecoder build_cached_decoder(Builder& builder, const ModelConfig& config,
                                                 const DecoderOptions& options, int64_t rows, CacheUse use);

}  // namespace spillway
