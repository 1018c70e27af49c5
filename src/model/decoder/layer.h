// The layers of a decoder: a list of descriptions, which the `read` of an architecture fills. The graphs of training
// and of generation, the caches, the parameters (and with them LoRA's targets) and GGUF walk it.
// docs/add-a-layer-kind.md says how to add a kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/gated_delta_rule/gated_delta_rule.h"
#include "ops/route/route.h"
#include "tensor/dtype.h"

namespace spillway {

class Model;

// The modules of a layer's norms, by their names inside the layer; empty: there is no norm at that place.
struct LayerNorms {
  std::string_view before_attention = "input_layernorm", after_attention{};
  std::string_view before_feed_forward = "post_attention_layernorm", after_feed_forward{};
  // A layer with a mixture beside its feed-forward has these, too; after_feed_forward is then of their sum.
  std::string_view after_dense{}, before_mixture{}, after_mixture{};
};

// The norms of queries and keys.
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
  double input_scale = 1, output_scale = 1;    // of what it reads and of what it adds to the stream (Falcon-H1)
  std::optional<HeadNorm> head_norm;           // empty: queries and keys have no norms
  bool head_norm_follows_rope = false;         // else it precedes their rotation (Hunyuan)
  bool is_fused = false;                       // qkv_proj is q_proj, k_proj and v_proj below each other (Phi-3)
  bool qkv_bias = false, output_bias = false;  // of q_proj, k_proj and v_proj; of o_proj
  bool has_sinks = false;                      // a learned logit of each head joins its softmaxes (gpt-oss)
  bool values_are_keys = false;                // values are k_proj's product, too, before norm and rope (Gemma 4)
  bool normalises_values = false;              // each head of values has a norm without a weight (Gemma 4)
  // q_proj gives each head's query and then a gate, by whose sigmoid what the head sees is multiplied (Qwen3-Next).
  bool has_gate = false;
  // The projection of these gates, where q_proj does not give them (AFMoE). REQUIRES: has_gate.
  std::string_view gate_proj{};
  std::optional<LatentHeads> latent;  // then kv_heads equals heads
  // The layer before this one whose keys and values it attends to, with heads of the same size; it has no projections
  // of its own for them then, and no states (Gemma 4). Empty: its own. REQUIRES: neither fused nor gated.
  std::optional<int64_t> keys_of;
  // The names of its module inside the layer, and of modules inside that.
  std::string_view module = "self_attn", output_proj = "o_proj", query_norm = "q_norm", key_norm = "k_norm";

  // Return the number of columns of all queries, of all keys, and of what all heads attend to.
  [[nodiscard]] int64_t query_width() const { return heads * head_dim; }
  [[nodiscard]] int64_t key_width() const { return kv_heads * head_dim; }
  [[nodiscard]] int64_t output_width() const { return heads * (latent ? latent->value_dim : head_dim); }
  // Returns the number of elements of a head that the rope is made for.
  [[nodiscard]] int64_t rope_dim() const { return latent ? latent->rotated : head_dim; }
};

// A causal convolution of few taps in place of attention (LFM2): out_proj(c * conv(b * x)), where in_proj gives b, c
// and x, each as wide as the stream.
struct ShortConvolution {
  int64_t channels = 0;  // hidden_size
  int64_t taps = 0;      // conv_L_cache, 2 to ops::kMaxTaps
  bool bias = false;     // of the convolution and of both projections
};

// The place of the norm by groups of what a state space gives, y, beside its gate z.
enum class StateNorm : uint8_t {
  kBehindGate,  // norm(silu(z) * y) (Granite 4)
  kBeforeGate,  // silu(z) * norm(y)
  kAbsent,      // silu(z) * y
};

// The factors of what a state space's first projection gives and of what the parts around it read and add (Falcon-H1).
struct StateScales {
  double input = 1, output = 1;
  double gate = 1, values = 1, keys = 1, queries = 1, steps = 1;
};

// The bounds of the time steps of a state space, which are a softplus.
struct StateSteps {
  double least = 0, most = std::numeric_limits<double>::infinity();
};

// The states' parameters in a model that transformers makes from a config.
struct FreshStates {
  // The steps that dt_bias stands for have uniform logarithms between the first two, and are at least the third; empty:
  // dt_bias is ones.
  struct Steps {
    double low = 0, high = 0, least = 0;
  };
  std::optional<Steps> steps{};
  double output_bound = 0;  // above 0: out_proj is uniform within it
};

// A matrix of each head in place of attention, or beside it: queries, keys and values are convolved and go through
// ops::gated_delta_rule. With a rule that corrects (Qwen3-Next) its result is normalised by value heads and gated; with
// one that adds (Mamba-2: key heads are its groups, key_dim the size of its state, values its x), what it gives and D
// times the values are gated and normalised by groups, in the order of StateNorm.
struct GatedDelta {
  ops::DeltaHeads heads;
  int64_t taps = 0;         // linear_conv_kernel_dim, 2 to ops::kMaxTaps
  bool is_by_head = false;  // of a rule that corrects: the projections are two, in_proj_qkvz and
                            // in_proj_ba, with the parts of each key head
  // Of a rule that adds:
  bool conv_bias = false, bias = false, output_bias = false;  // of the convolution, and of the two projections
  StateNorm norm = StateNorm::kBehindGate;
  StateSteps steps{};
  StateScales scales{};
  FreshStates fresh{};                      // of a new model
  bool has_adapters = true;                 // else PEFT refuses one on the last projection
  std::string_view module = "linear_attn";  // inside the layer

  // Return the number of columns of queries, keys and values, and of values alone.
  [[nodiscard]] int64_t channels() const { return 2 * heads.key_heads * heads.key_dim + value_width(); }
  [[nodiscard]] int64_t value_width() const { return heads.value_heads * heads.value_dim; }
};

// A vector of each channel in place of attention (Mamba): in_proj gives x and a gate, x is convolved, and x_proj gives
// of it b, c and what dt_proj makes time steps of. What ops::selective_scan makes of these, plus D times x, is gated.
struct SelectiveScan {
  int64_t channels = 0;                  // mamba_expand * hidden_size
  int64_t state = 0;                     // numbers of a channel's vector, 1 to ops::kMaxScanState
  int64_t step_rank = 0;                 // of dt_proj
  int64_t taps = 0;                      // 2 to ops::kMaxTaps
  bool conv_bias = false, bias = false;  // of the convolution, and of in_proj and out_proj
  bool has_norms = false;                // dt_layernorm, b_layernorm and c_layernorm of what x_proj gives (Jamba)
  std::string_view module = "mamba";     // inside the layer
};

enum class Activation : uint8_t { kSilu, kGeluTanh, kReluSquared, kXielu };

struct FeedForward {
  int64_t inner = 0;  // intermediate_size
  Activation activation = Activation::kSilu;
  bool has_gate = true;   // down_proj(activation(gate_proj(x)) * up_proj(x)), else down_proj(activation(up_proj(x)))
  bool is_fused = false;  // gate_up_proj is gate_proj and up_proj below each other (Phi-3)
  bool bias = false;      // of all its projections
  double gate_scale = 1, output_scale = 1;  // of gate_proj's product, and of what it adds to the stream (Falcon-H1)
  // The names of its module inside the layer and of its projections.
  std::string_view module = "mlp", gate_proj = "gate_proj", up_proj = "up_proj", down_proj = "down_proj";
  std::string_view fused_proj = "gate_up_proj";
};

// Experts whose projections are fused in files (gpt-oss): gate_up_proj [experts, hidden_size, 2 * inner], whose columns
// are gates and ups in turn, and down_proj [experts, inner, hidden_size]. All have biases, as the router has, and the
// activation is ops::clamped_swiglu.
struct FusedExperts {
  double alpha = 0, limit = 0;
};

// Experts whose projections files stack: gate_up_proj [experts, 2 * inner, hidden_size], gates above ups, and down_proj
// [experts, hidden_size, inner]. These are the names of the two tensors inside the mixture.
struct StackedExperts {
  std::string_view gate_up_proj = "experts.gate_up_proj", down_proj = "experts.down_proj";
};

// The vectors of a router that reads the stream itself, normalised, times the first / sqrt(hidden_size), and whose
// weights are multiplied by the second, a number for each expert (Gemma 4). These are their names inside the mixture.
struct RouterScales {
  std::string_view input = "router.scale", experts = "router.per_expert_scale";
};

// A mixture of experts in place of the feed-forward: for each token, the sum of its chosen experts' down_proj(silu(
// gate_proj(x)) * up_proj(x)), each times its weight, and of the shared expert's.
struct Mixture {
  int64_t experts = 0;  // 1 to ops::kMaxExperts
  int64_t inner = 0;    // of an expert
  // Above 0: experts read fc1_latent_proj(x), this wide, and fc2_latent_proj of their sum counts (Nemotron 3).
  int64_t latent = 0;
  bool has_gate = true;          // of experts and the shared one: else down_proj(activation(up_proj(x)))
  bool bias = false;             // of the shared expert's projections and of latent ones
  ops::RouteOptions route;       // its bias is the buffer choice_bias of the router
  int64_t shared_inner = 0;      // of the shared expert; 0: there is none
  bool shared_has_gate = false;  // the shared expert's weight is sigmoid(shared_expert_gate(x)), else 1
  std::optional<FusedExperts> fused;
  std::optional<StackedExperts> stacked;
  std::optional<RouterScales> router_scales;
  bool router_is_linear = false;        // PEFT and quantisation see a linear layer in the router
  bool router_is_f32 = false;           // its weights are f32 in models of all dtypes
  bool router_starts_as_zeros = false;  // in a new model; else as normal numbers
  Activation activation = Activation::kSilu;
  bool targets_mean_experts = true;  // PEFT takes target names of projections, and all-linear, for experts, too
  // The names of its modules inside the layer, the path inside it of the buffer that the choice adds to scores, if it
  // has one, and what transformers calls the first; the router's tensor has a name of its own there, if not the same.
  std::string_view module = "mlp", gate_proj = "gate_proj", up_proj = "up_proj", down_proj = "down_proj";
  std::string_view router = "gate", shared_expert = "shared_expert", choice_bias{};
  std::string_view transformers_module = "mlp", transformers_router{};
};

// The number of rows of a state.
enum class StateRows : uint8_t { kPerToken, kPerSequence };

// The names of the states of a convolution, of the delta rule and of a selective scan.
inline constexpr std::string_view kTokensState = "convolution", kMatrixState = "delta", kScanState = "scan";

// A state is what a layer keeps of a sequence's tokens for those after them, in generation.
struct LayerState {
  std::string_view name;  // "key"
  int64_t width = 0;      // of a row
  StateRows rows = StateRows::kPerToken;
  std::optional<DType> dtype = {};  // empty: the model's
};

// One layer: parts that mix tokens, and parts that take each token by itself. It may have several of each, whose sum
// joins the stream, or none. The defaults are Llama's:
//   stream += attention(norm(stream)); stream += feed_forward(norm(stream))
// A norm after a branch is taken of what the branch adds.
struct DecoderLayer {
  LayerNorms norms;
  Attention attention;
  bool has_attention = true;
  std::optional<ShortConvolution> convolution;
  std::optional<GatedDelta> delta;
  std::optional<SelectiveScan> scan;
  FeedForward feed_forward;
  bool has_feed_forward = true;
  // Beside a feed-forward it and its router read, with norms.before_mixture, the stream, else what the feed-forward
  // reads.
  std::optional<Mixture> mixture;
  bool is_parallel = false;  // the feed-forward reads what the attention reads (Cohere)
  bool has_scalar = false;   // the stream behind it is multiplied by the buffer layer_scalar, [1] (Gemma 4)
  // Above 0: the width of an input of its own, which an embedding of tokens by layer gives (Gemma 4). Behind the
  // feed-forward, stream += norm(per_layer_projection(gelu(per_layer_input_gate(stream)) * input)). All layers of a
  // model have the same.
  int64_t input_width = 0;

  // Put a part in the place of attention, or of the feed-forward.
  void replace_attention(const ShortConvolution& part);
  void replace_attention(const GatedDelta& part);
  void replace_attention(const SelectiveScan& part);
  void replace_feed_forward(const Mixture& part);

  // Returns true if it has a part that mixes tokens.
  [[nodiscard]] bool mixes_tokens() const { return has_attention || carries_state(); }
  // Returns true if a part carries a state along a sequence, with a row for each sequence.
  [[nodiscard]] bool carries_state() const { return convolution || delta || scan; }
  // Returns what the layer keeps: keys and values are two states, unless they are another layer's; the last tokens of a
  // convolution are one, and the matrices of the delta rule, or the vectors of a scan, another one behind it.
  [[nodiscard]] std::vector<LayerState> states() const;
  // Returns the state of that name. REQUIRES: there is one.
  [[nodiscard]] LayerState state(std::string_view name) const;
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
