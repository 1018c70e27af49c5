// Describes how llama.cpp sees an architecture: its name, the numbers of its metadata, and what its files cannot say
// and llama.cpp takes for granted. Import and export run this table in the two directions (model/decoder/gguf.h).
//
// Sources: llama.cpp's conversion/*.py for keys and transforms, src/models/*.cpp for what it computes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace spillway {

struct DecoderConfig;

// A number that the metadata of an architecture hold under another name than config.json.
struct GgufKey {
  std::string_view gguf;                         // without the architecture: "logit_scale"
  std::string_view config;                       // "logits_scaling"
  double (*value)(const DecoderConfig& config);  // with the defaults of config.json; 0: there is none
  bool is_needed = true;                         // llama.cpp would take another number for one that is not written
};

// A whole number, which may be 0, by its names in metadata and in config.json.
struct GgufCount {
  std::string_view gguf, config;
  int64_t (*value)(const DecoderConfig& config);
};

// Says whether metadata hold the size of a head.
enum class GgufHeadSize : uint8_t {
  kWritten,
  kWrittenIfNamed,  // where config.json has head_dim
  kImplied,         // never: it is hidden_size / num_attention_heads
};

// Says which layers have a window.
enum class GgufWindows : uint8_t {
  kNoLayer,
  kPattern,        // all but every so many
  kPatternOrNone,  // the same, or no layer
  kListed,         // those that the metadata list
  kUnread,         // metadata have its length, and llama.cpp lets all layers see everything
};

// Says whether the head is the embedding.
enum class GgufHead : uint8_t { kAny, kTied, kUntied };

// Says what metadata hold of the base with which layers with a window are rotated.
enum class GgufLocalBase : uint8_t { kUnwritten, kWritten, kSame };  // kSame: llama.cpp takes that of the other layers

struct GgufRope {
  bool turns_neighbours = false;      // llama.cpp rotates elements 2i and 2i + 1 of a head, not i and i + size / 2
  bool has_base = true;               // metadata have the base; else it is 10000
  bool may_stretch = true;            // by rope_type linear and yarn
  bool reads_factors = false;         // rope_freqs.weight: rope_type llama3
  bool reads_longrope = false;        // rope_factors_short.weight and rope_factors_long.weight
  bool reads_proportion = false;      // rope_freqs.weight: rope_type proportional, and no other
  bool reads_yarn_betas = false;      // else they are 32 and 1
  bool has_real_yarn_bounds = false;  // config.json's truncate is false, and llama.cpp rounds the bounds all the same
  bool has_sections = false;          // metadata have mrope_section, which positions of text make no use of
  bool states_size = false;           // metadata have the number of elements that turn
  bool states_no_scaling = false;     // metadata say that the rope is not stretched
  GgufLocalBase local_base = GgufLocalBase::kUnwritten;
  int64_t nth_is_still = 0;  // above 0: every n-th layer does not turn its heads
  bool turns_in_windows_only = false;
  // config.json's key that says whether heads turn, by "rope"; empty: this table does. Metadata say it, too, and have a
  // constant for max_position_embeddings where they do not.
  std::string_view turning_key{};
  bool never_turns = false, always_turns = false;  // metadata say either
  bool is_absent = false;                          // heads do not turn, and metadata do not speak of it
};

// Layers at equal distances, by config.json's keys of the distance and of the first one. Metadata have neither: which
// layers they are, other keys or tensors say. Empty: the family has none.
struct GgufEvery {
  std::string_view period{}, offset{};
};

// The biases that a model may have. `vary`: config.json says whether it has them, else it has those.
struct GgufBiases {
  bool qkv = false, output = false, feed_forward = false;
  bool vary = false;
};

// Says what metadata hold of the expert that all tokens share: its width, or of how many experts' it is.
enum class GgufShared : uint8_t { kWidth, kCount };

// Mixtures of experts, which all layers or none have.
struct GgufMixture {
  bool is_there = false;
  bool normalises = false;          // the weights of a token's experts are divided by their sum
  std::string_view experts{};       // config.json's key of the number of experts
  bool states_inner_width = false;  // metadata have that of an expert
  std::string_view inner = "moe_intermediate_size", used = "num_experts_per_tok";  // config.json's keys
  GgufShared shared = GgufShared::kWidth;
  std::string_view flag{};  // config.json's key that says whether there are experts; empty: there always are
  std::string_view
      dense{};  // of the number of first layers without experts, which metadata have; empty: there are none
  bool states_gating = false;  // metadata have by what function routers score
  bool states_scale = false;   // routed_scaling_factor, and whether weights are normalised; else the factor is 1
  bool states_groups = false;  // n_group and topk_group, where the two best experts count for a group
  bool needs_choice_bias = false;
  bool keeps_gate_up = false;        // gates and ups of experts stay one tensor
  bool may_be_absent = false;        // config.json's number of experts may be 0
  bool shares_feed_forward = false;  // a feed-forward beside it is the shared expert
  bool states_one_shared = false;    // metadata have the number of shared experts, 1, beside their width
  GgufEvery layers{};                // that have experts; the others have a feed-forward
  // config.json's keys of what is above: of the factor, of whether weights are normalised (empty: it has none), of the
  // shared experts' count.
  std::string_view scale_key = "routed_scaling_factor", norm_key = "norm_topk_prob", shared_key = "n_shared_experts";
  std::string_view shared_width_key = "shared_expert_intermediate_size";
};
// The mixtures of DeepSeek's and GLM's models: grouped experts behind dense layers.
inline constexpr GgufMixture kGroupedGgufMixture{.is_there = true,
                                                 .experts = "n_routed_experts",
                                                 .states_inner_width = true,
                                                 .shared = GgufShared::kCount,
                                                 .dense = "first_k_dense_replace",
                                                 .states_gating = true,
                                                 .states_scale = true,
                                                 .states_groups = true};

// State spaces (Mamba-2), which layers have in place of attention or beside it.
struct GgufSpace {
  bool is_there = false;
  // config.json's keys of the numbers of heads and of groups, the sizes of a state and of a head, and the taps.
  std::string_view heads = "mamba_n_heads", groups = "mamba_n_groups", state = "mamba_d_state",
                   head_dim = "mamba_d_head", taps = "mamba_d_conv";
  std::string_view width{};  // its key of the width of all heads
  int64_t expand = 0;        // above 0: mamba_expand, which is always that
  // Its list of the layers' kinds, and what that calls layers with a state and with attention, or its list of the
  // numbers of those with attention; both empty: all have both.
  std::string_view layers{}, space_kind{}, attention_kind{}, layers_with_attention{};
  std::string_view norm_key{};    // its key that says whether there is a norm; empty: there is one
  bool always_adds_bias = false;  // llama.cpp reads no model whose convolution has none
};

// Selective scans (Mamba), which layers have in place of attention.
struct GgufScan {
  bool is_there = false;
  int64_t expand = 2;  // mamba_expand; llama.cpp takes no other
  GgufEvery attention{};
  // config.json's keys of the sizes of a channel's vector and of what time steps are made of, and of the taps.
  std::string_view state = "mamba_d_state", step_rank = "mamba_dt_rank", taps = "mamba_d_conv";
};

struct GgufFamily {
  std::string_view name{};  // general.architecture; empty: llama.cpp's converter does not know it
  // The same of a model with a mixture, and of one without a state in any layer; empty: `name`.
  std::string_view name_with_experts{}, name_without_states{};
  // Two architectures may share a name. A file with this key is of this one, or with a tensor whose name ends so.
  std::string_view told_by{}, told_by_tensor{};
  std::string_view name_in_mistral3{};  // of the text of a Mistral3ForConditionalGeneration; empty: the same
  std::string_view norm_before_feed_forward = "ffn_norm", final_norm = "output_norm";
  bool is_norm_bare = false;        // the tensor of the first of these is without ".weight"
  bool has_layer_norm_eps = false;  // the epsilon of norms has the name of that of layer norms
  // Metadata have 0 keys for layers without attention, and a list of widths, 0 where a layer has no feed-forward.
  bool lists_keys = false, lists_widths = false;
  bool splits_gate_up = false;  // gates and ups, one tensor in the folder, are two
  bool folds_scales = false;    // the multipliers of config.json are multiplied into weights
  // What config.json's layer_types calls layers with a state in place of attention; empty: no layer is one.
  std::string_view state_type{};
  bool deals_value_heads = false;  // of the delta rule: the first of each head of keys, then the second of each
  bool states_vocabulary = false;  // metadata have vocab_size
  GgufHeadSize head_size = GgufHeadSize::kWrittenIfNamed;
  bool heads_fill_rows = false;      // head_dim is hidden_size / num_attention_heads
  bool heads_share_no_keys = false;  // num_key_value_heads is num_attention_heads
  GgufHead head = GgufHead::kAny;
  int64_t most_layers = 0;  // above 0: llama.cpp takes more for another model
  GgufBiases biases{};
  GgufWindows windows = GgufWindows::kNoLayer;
  int64_t pattern = 0;               // of GgufWindows::kPattern: every so many layers one has no window
  bool states_local_heads = false;   // metadata have the size of heads of layers with a window, too
  bool has_unit_scores = false;      // scores are not scaled
  bool states_score_scale = false;   // else scores are scaled by 1 / sqrt(head_dim)
  int64_t layers_of_wide_scale = 0;  // but in a model of so many layers by 1 / sqrt(hidden_size / heads)
  GgufMixture mixture{};
  GgufSpace space{};
  GgufScan scan{};
  GgufRope rope{};
  std::span<const GgufKey> keys{};
  std::span<const GgufCount> counts{};
  // config.json's, which says whether layers that share keys have feed-forwards of twice the width, which metadata
  // list, and of the rows of a table of the layers' own inputs. Empty: no layer shares keys, none has an input of its
  // own.
  std::string_view double_width_key{}, input_rows_key{};
  std::string_view head_norm_key{};  // config.json's, which says whether heads have norms
  // config.json's, which says whether the embedding's rows are scaled by sqrt(hidden_size); llama.cpp always scales.
  std::string_view embedding_scale_key{};
};

}  // namespace spillway
