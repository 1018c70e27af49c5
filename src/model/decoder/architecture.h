// What tells one decoder from another: a table of the parts of its layer, and what its config.json says in its own way.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "base/json_field.h"
#include "model/decoder/config.h"
#include "model/decoder/parts.h"
#include "ops/rope/rope.h"

namespace spillway {

enum class MlpActivation : uint8_t { kSilu, kGeluTanh, kReluSquared };

// What config.json may call an activation; the first is what it means where it says nothing.
using ActivationNames = std::span<const std::string_view>;
inline constexpr std::string_view kSiluNames[] = {"silu", "swish"}, kGeluTanhNames[] = {"gelu_pytorch_tanh"},
                                  kReluSquaredNames[] = {"relu2"};

// What a layer works on, handed from part to part.
struct LayerState {
  int64_t layer = 0;
  ValueId stream = kNone;  // the residual stream, [T, hidden_size]
  ValueId x = kNone;       // of the branch that will be added to it
  AttentionHeads heads;
};

// What a layer attends to: the sequences of the stream, or a cache. Returns [T, heads * head_dim], or kNone where
// nothing after the keys and values is wanted.
using Attend = std::function<ValueId(int64_t layer, const AttentionHeads& heads)>;

// A part of a layer. One that leaves the state without `x` ends the model there.
using LayerPart = void (*)(DecoderParts& parts, const Attend& attend, LayerState& state);

struct Architecture {
  std::string_view name;        // "LlamaForCausalLM"
  std::string_view model_type;  // "llama"
  // What transformers takes for keys that a file leaves out.
  int64_t default_kv_heads = 0;  // 0: as many as query heads
  int64_t default_head_dim = 0;  // 0: hidden_size / num_attention_heads
  int64_t default_max_position_embeddings = 0;
  double default_rms_norm_eps = 1e-6;
  double default_rope_theta = 10000;
  std::optional<int64_t> default_pad_token_id{};
  double default_dropout = 0;           // attention_dropout
  double default_local_rope_theta = 0;  // above 0: layers with a window are rotated in their own way
  bool rotates_in_part = false;         // partial_rotary_factor of each head
  double default_partial_rotary_factor = 1;
  ops::RopeLayout rope_layout = ops::RopeLayout::kHalves;
  bool scales_queries = false;       // by llama_4_scaling_beta and the position
  bool only_knows_longrope = false;  // whatever its files call it
  bool ties_by_default = false;
  // What no config.json has a say in.
  MlpActivation activation = MlpActivation::kSilu;
  std::string_view activation_key = "hidden_act";
  ActivationNames activation_names = kSiluNames;
  double norm_weight_shift = 0;         // what is added to the weights of norms
  bool rounds_embedding_scale = false;  // to the dtype of the weights
  std::string_view classifier{};        // what its classifiers are named after; empty: as the name begins
  // Reads biases, windows and whatever else is its own. The sizes are there.
  void (*read)(const JsonField& json, DecoderConfig& config);
  std::span<const LayerPart> layer;
  // What llama.cpp makes of it.
  struct Gguf {
    std::string_view name;              // "llama"; empty: it is not written as GGUF
    bool has_rope_factors = false;      // its class for Llama, which reads rope_freqs.weight and states more sizes
    bool always_has_head_size = false;  // transformers' config always has head_dim
  };
  Gguf gguf{};
  // What transformers takes for sizes that the text_config of a larger model leaves out; 0: they are needed, as they
  // are in every config.json of a model that stands alone.
  struct Sizes {
    int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_hidden_layers = 0, num_attention_heads = 0;
  };
  Sizes default_sizes{};
};

namespace architectures {
extern const Architecture kLlama, kMistral, kQwen2, kQwen3, kGemma2, kGemma3, kPhi3, kGlm4, kMinistral3, kGranite,
    kSmolLm3, kOlmo2, kArcee, kSeedOss, kGemma, kOlmo3;
}

// Throws InputError where config.json names none, or two. Its classifier counts as an architecture.
[[nodiscard]] const Architecture& find_architecture(const JsonField& json);

// By its model_type; null where it is none's.
[[nodiscard]] const Architecture* find_model_type(std::string_view model_type);
// "llama, mistral or qwen2"
[[nodiscard]] std::string known_model_types();

// "LlamaForSequenceClassification", or "LlamaForTokenClassification" of tokens.
[[nodiscard]] std::string classifier_name(const Architecture& architecture, bool is_of_tokens);
// Whether config.json names that of an architecture.
[[nodiscard]] bool is_classifier(const JsonField& json, bool is_of_tokens);

// Parts of layers.
namespace layer {
void input_norm(DecoderParts& parts, const Attend& attend, LayerState& state);       // x = norm(stream)
void project_heads(DecoderParts& parts, const Attend& attend, LayerState& state);    // heads of x
void normalise_heads(DecoderParts& parts, const Attend& attend, LayerState& state);  // RMS norm of each query and key
void rotate_heads(DecoderParts& parts, const Attend& attend, LayerState& state);     // rotary position embedding
void attention(DecoderParts& parts, const Attend& attend, LayerState& state);        // x = what the heads attend to
void output(DecoderParts& parts, const Attend& attend, LayerState& state);           // stream += o_proj(x)
void post_attention_norm(DecoderParts& parts, const Attend& attend, LayerState& state);  // x = norm(stream)
void gated_mlp(DecoderParts& parts, const Attend& attend, LayerState& state);            // stream += mlp(x)

// Of layers that normalise what a branch gives, too.
void branch_output(DecoderParts& parts, const Attend& attend, LayerState& state);         // x = o_proj(x)
void join_attention(DecoderParts& parts, const Attend& attend, LayerState& state);        // stream += norm(x)
void pre_feedforward_norm(DecoderParts& parts, const Attend& attend, LayerState& state);  // x = norm(stream)
void branch_mlp(DecoderParts& parts, const Attend& attend, LayerState& state);            // x = mlp(x)
void join_feedforward(DecoderParts& parts, const Attend& attend, LayerState& state);      // stream += norm(x)

// Of layers that normalise nothing but that, and the queries and keys.
void take_stream(DecoderParts& parts, const Attend& attend, LayerState& state);            // x = stream
void normalise_projections(DecoderParts& parts, const Attend& attend, LayerState& state);  // RMS norm of all queries
                                                                                           // of a token, and all keys

// Of layers whose feed-forward has no gate.
void plain_mlp(DecoderParts& parts, const Attend& attend, LayerState& state);  // stream += down(relu(up(x))^2)

// Of layers whose weights are fused.
void project_fused_heads(DecoderParts& parts, const Attend& attend, LayerState& state);  // heads of x, by one product
void fused_mlp(DecoderParts& parts, const Attend& attend, LayerState& state);            // stream += mlp(x)

// Llama's layer, which others share.
inline constexpr LayerPart kLlama[] = {input_norm, project_heads,       rotate_heads, attention,
                                       output,     post_attention_norm, gated_mlp};
}  // namespace layer

}  // namespace spillway
