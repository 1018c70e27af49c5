// The layers of a decoder: a list of descriptions, which the `read` of an architecture fills. The graphs of training
// and of generation, the caches, the parameters (and with them LoRA's targets) and GGUF walk it.
// docs/add-a-layer-kind.md says how to add a kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/route/route.h"

namespace spillway {

class Model;

// The modules of a layer's norms, by their names inside the layer; empty: there is no norm at that place.
struct LayerNorms {
  std::string_view before_attention = "input_layernorm", after_attention{};
  std::string_view before_feed_forward = "post_attention_layernorm", after_feed_forward{};
};

// The norms of queries and keys, which precede their rotation.
enum class HeadNorm : uint8_t {
  kEachHead,  // the weight is one head wide, and all heads share it (Qwen3)
  kAllHeads,  // all heads of a token are one row (OLMo 2)
};

// Latent attention (DeepSeek V2): keys and values are products of a common row of few numbers, but for a part of the
// keys that is rotated and that all heads share.
struct LatentHeads {
  int64_t query_rank = 0;  // q_lora_rank; 0: queries are a product of the stream
  int64_t key_rank = 0;    // kv_lora_rank
  int64_t rotated = 0;     // qk_rope_head_dim, even: the last elements of a head's query and key
  int64_t value_dim = 0;   // v_head_dim, at most head_dim
};

struct Attention {
  int64_t heads = 0, kv_heads = 0;             // kv_heads divides heads
  int64_t head_dim = 0;                        // even; heads * head_dim may differ from hidden_size
  int64_t window = 0;                          // tokens that a query sees, itself included; 0: all before it
  std::optional<size_t> rope = 0;              // in DecoderConfig::ropes; empty: heads are not rotated
  double scale = 0;                            // of scores
  double soft_cap = 0;                         // of scaled scores; 0: none
  std::optional<HeadNorm> head_norm;           // empty: queries and keys have no norms
  bool is_fused = false;                       // qkv_proj is q_proj, k_proj and v_proj below each other (Phi-3)
  bool qkv_bias = false, output_bias = false;  // of q_proj, k_proj and v_proj; of o_proj
  bool has_sinks = false;                      // a learned logit of each head joins its softmaxes (gpt-oss)
  bool values_are_keys = false;                // values are k_proj's product, too, before norm and rope (Gemma 4)
  bool normalises_values = false;              // each head of values has a norm without a weight (Gemma 4)
  std::optional<LatentHeads> latent;           // then kv_heads equals heads

  // Return the number of columns of all queries, of all keys, and of what all heads attend to.
  [[nodiscard]] int64_t query_width() const { return heads * head_dim; }
  [[nodiscard]] int64_t key_width() const { return kv_heads * head_dim; }
  [[nodiscard]] int64_t output_width() const { return heads * (latent ? latent->value_dim : head_dim); }
  // Returns the number of elements of a head that the rope is made for.
  [[nodiscard]] int64_t rope_dim() const { return latent ? latent->rotated : head_dim; }
};

enum class Activation : uint8_t { kSilu, kGeluTanh, kReluSquared };

struct FeedForward {
  int64_t inner = 0;  // intermediate_size
  Activation activation = Activation::kSilu;
  bool has_gate = true;   // down_proj(activation(gate_proj(x)) * up_proj(x)), else down_proj(activation(up_proj(x)))
  bool is_fused = false;  // gate_up_proj is gate_proj and up_proj below each other (Phi-3)
  bool bias = false;      // of all its projections
};

// Experts whose projections are fused in files (gpt-oss): gate_up_proj [experts, hidden_size, 2 * inner], whose columns
// are gates and ups in turn, and down_proj [experts, inner, hidden_size]. All have biases, as the router has, and the
// activation is ops::clamped_swiglu.
struct FusedExperts {
  double alpha = 0, limit = 0;
};

// A mixture of experts in place of the feed-forward: for each token, the sum of its chosen experts' down_proj(silu(
// gate_proj(x)) * up_proj(x)), each times its weight, and of the shared expert's.
struct Mixture {
  int64_t experts = 0;           // 1 to ops::kMaxExperts
  int64_t inner = 0;             // of an expert
  ops::RouteOptions route;       // its bias is the buffer choice_bias of the router
  int64_t shared_inner = 0;      // of the shared expert; 0: there is none
  bool shared_has_gate = false;  // the shared expert's weight is sigmoid(shared_expert_gate(x)), else 1
  std::optional<FusedExperts> fused;
  bool targets_mean_experts = true;  // PEFT takes target names of projections, and all-linear, for experts, too
  // The names of its modules inside the layer, and of the router's buffer, if it has one; and what transformers calls
  // the first.
  std::string_view module = "mlp", gate_proj = "gate_proj", up_proj = "up_proj", down_proj = "down_proj";
  std::string_view router = "gate", shared_expert = "shared_expert", choice_bias{};
  std::string_view transformers_module = "mlp";
};

// The number of rows of a state.
enum class StateRows : uint8_t { kPerToken, kPerSequence };

// A state is what a layer keeps of a sequence's tokens for those after them, in generation.
struct LayerState {
  std::string_view name;  // "key"
  int64_t width = 0;      // of a row, in the model's dtype
  StateRows rows = StateRows::kPerToken;
};

// One layer. The defaults are Llama's:
//   stream += attention(norm(stream)); stream += feed_forward(norm(stream))
// A norm after a branch is taken of what the branch adds.
struct DecoderLayer {
  LayerNorms norms;
  Attention attention;
  FeedForward feed_forward;
  std::optional<Mixture> mixture;  // in place of the feed-forward
  bool is_parallel = false;        // the feed-forward reads what the attention reads (Cohere)
  bool has_scalar = false;         // the stream behind it is multiplied by the buffer layer_scalar, [1] (Gemma 4)

  // Returns what the layer keeps: keys and values are two states.
  [[nodiscard]] std::vector<LayerState> states() const;
};

struct Biases {
  bool qkv = false, output = false, feed_forward = false;
};

// Sets the biases of all layers.
void set_biases(std::span<DecoderLayer> layers, const Biases& biases);

// Returns Attention::window of every layer; empty for a model that is no decoder.
[[nodiscard]] std::vector<int64_t> attention_windows(const Model& model);

// Returns true for a model of which a layer has a mixture of experts.
[[nodiscard]] bool has_mixture(const Model& model);

// Returns the beginning of the names of a layer's modules and weights, "model.layers.3.".
[[nodiscard]] std::string layer_prefix(int64_t layer);

}  // namespace spillway
