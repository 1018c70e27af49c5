// The description of a decoder: the defaults of its layers, and how its own keys of config.json are read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/json_field.h"
#include "model/decoder/config.h"
#include "model/decoder/gguf_family.h"
#include "model/decoder/layer.h"
#include "ops/rope/rope.h"

namespace spillway {

// The names that config.json may give an activation; the first is the default.
using ActivationNames = std::span<const std::string_view>;
inline constexpr std::string_view kSiluNames[] = {"silu", "swish"}, kGeluTanhNames[] = {"gelu_pytorch_tanh"},
                                  kReluSquaredNames[] = {"relu2"};

enum class NormKind : uint8_t { kRms, kLayer };

// The norms of an architecture.
struct NormDefaults {
  NormKind kind = NormKind::kRms;
  std::string_view eps_key = "rms_norm_eps";
  double eps = 1e-6;
  double weight_shift = 0;  // what is added to the weights
  bool has_bias = false;    // of kLayer
  // In a new model weights are ones, else what makes the shifted ones.
  bool starts_as_ones = false;
};

// The ropes of an architecture, where config.json says nothing, and what it has no say in.
struct RopeDefaults {
  double theta = 10000;
  double local_theta = 0;   // above 0: layers with a window are rotated by a second rope, with this base
  bool is_partial = false;  // config.json may have a partial_rotary_factor
  double partial_rotary_factor = 1;
  bool has_rotary_dim = false;  // config.json may have rotary_dim in its place, the number of elements that turn
  // Below 1: where there are no rope_parameters, layers without a window have a proportional rope with this part.
  double proportion = 1;
  ops::RopeLayout layout = ops::RopeLayout::kHalves;
  bool scales_queries = false;       // by llama_4_scaling_beta and the position
  bool part_is_of_head = false;      // partial_rotary_factor is the share in a head of latent attention's rotated part
  bool only_knows_longrope = false;  // whatever its files call it
  bool stretches_base = false;       // rope_type "dynamic" means that `alpha` stretches the base (Hunyuan)
};

struct Architecture {
  std::string_view name;        // "LlamaForCausalLM"
  std::string_view model_type;  // "llama"
  // What transformers takes for keys that a file leaves out.
  int64_t default_kv_heads = 0;  // 0: as many as query heads
  int64_t default_head_dim = 0;  // 0: hidden_size / num_attention_heads
  int64_t default_max_position_embeddings = 0;
  std::optional<int64_t> default_pad_token_id{};
  double default_dropout = 0;  // attention_dropout
  bool ties_by_default = false;
  NormDefaults norm{};
  RopeDefaults rope{};
  // What no config.json has a say in.
  std::string_view activation_key = "hidden_act";
  std::string_view final_norm = "model.norm";   // the module behind the layers
  std::string_view embedding = "embed_tokens";  // the module, inside "model."
  // What paths in its files begin with in place of "model."; files of transformers 5's own names are read, too.
  std::string_view stem_in_files{};
  bool clears_padding = true;  // transformers makes the embedding with pad_token_id as its padding_idx
  // Keys that count, where a config.json has them, in place of intermediate_size and of tie_word_embeddings.
  std::string_view inner_key{}, tie_key{};
  bool has_feed_forward = true;  // else all layers have mixtures, and config.json no intermediate_size
  // Returns the number of layers where num_hidden_layers does not say it.
  int64_t (*count_layers)(const JsonField& json) = nullptr;
  ActivationNames activation_names = kSiluNames;
  bool rounds_embedding_scale = false;  // to the dtype of the weights
  std::string_view classifier{};        // what its classifiers are named after; empty: as the name begins
  DecoderLayer layer{};                 // what every layer is but for sizes and for what `read` says
  // Reads into config.layers biases, windows and whatever else is its own. The sizes are there.
  void (*read)(const JsonField& json, DecoderConfig& config);
  GgufFamily gguf{};  // what llama.cpp makes of it
  // What transformers takes for sizes that the text_config of a larger model leaves out; 0: they are needed, as they
  // are in every config.json of a model that stands alone.
  struct Sizes {
    int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_hidden_layers = 0, num_attention_heads = 0;
  };
  Sizes default_sizes{};
};

namespace architectures {
extern const Architecture kLlama, kMistral, kQwen2, kQwen3, kGemma2, kGemma3, kPhi3, kGlm4, kMinistral3, kGranite,
    kSmolLm3, kOlmo2, kArcee, kSeedOss, kGemma, kOlmo3, kCohere, kCohere2, kMixtral, kQwen2Moe, kQwen3Moe, kOlmoe,
    kGlm4Moe, kGptOss, kDeepseekV2, kDeepseekV3, kGlm4MoeLite, kGemma4, kGemma4Unified, kGraniteMoe, kGraniteMoeHybrid,
    kMiniMaxM2, kLfm2, kLfm2Moe, kQwen3Next, kQwen35, kQwen35Moe, kAfmoe, kApertus, kNemotron, kHunyuanV1Dense,
    kMistral4, kNemotronH, kFalconH1, kBamba, kJamba;
}

// Throws InputError where config.json names none, or two. Its classifier counts as an architecture.
[[nodiscard]] const Architecture& find_architecture(const JsonField& json);

// Returns all of them.
[[nodiscard]] std::span<const Architecture* const> all_architectures();

// By its model_type; null where it is none's.
[[nodiscard]] const Architecture* find_model_type(std::string_view model_type);
// "llama, mistral or qwen2"
[[nodiscard]] std::string known_model_types();

// "LlamaForSequenceClassification", or "LlamaForTokenClassification" of tokens.
[[nodiscard]] std::string classifier_name(const Architecture& architecture, bool is_of_tokens);
// Returns true if config.json names a classifier: of tokens, or of whole sequences.
[[nodiscard]] bool is_classifier(const JsonField& json, bool is_of_tokens);

}  // namespace spillway
