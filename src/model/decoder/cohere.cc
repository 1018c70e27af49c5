// Cohere's Command R: attention and feed-forward read the same norm of the stream, a layer normalisation without bias,
// and the logits are scaled. Cohere 2 (Command R7B, Command A) has a window in three of four layers, and rotates no
// other.
#include "base/error.h"
#include "model/decoder/architecture.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

constexpr double kMinScale = 1e-6, kMaxScale = 1e6;

// Reads the keys that both have.
void read_scale_and_biases(const JsonField& json, DecoderConfig& config) {
  const bool bias = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {.qkv = bias, .output = bias});
  config.logit_scale = json["logit_scale"].real_or(0.0625, kMinScale, kMaxScale);
}

void read_cohere(const JsonField& json, DecoderConfig& config) {
  if (json["use_qk_norm"].boolean_or(false)) {
    throw input_error(json.where(), "expected use_qk_norm false, got true; use a model without norms of its heads");
  }
  read_scale_and_biases(json, config);
}

void read_cohere2(const JsonField& json, DecoderConfig& config) {
  read_scale_and_biases(json, config);
  read_patterned_windows(json, json["sliding_window_pattern"].integer_or(4, 1, kMaxPositions), config);
  for (DecoderLayer& layer : config.layers) {
    if (layer.attention.window == 0) layer.attention.rope.reset();
  }
}

constexpr GgufKey kCohereKeys[] = {
    {"logit_scale", "logit_scale", [](const DecoderConfig& config) { return config.logit_scale; }}};

// llama.cpp normalises the heads of a Command R with more layers.
constexpr int64_t kMostLayers = 63;

constexpr NormDefaults kCohereNorm{.kind = NormKind::kLayer, .eps_key = "layer_norm_eps", .eps = 1e-5};
constexpr DecoderLayer kCohereLayer{.norms = {.before_feed_forward = ""}, .is_parallel = true};

}  // namespace

const Architecture kCohere{.name = "CohereForCausalLM",
                           .model_type = "cohere",
                           .default_max_position_embeddings = 8192,
                           .default_pad_token_id = 0,
                           .ties_by_default = true,
                           .norm = kCohereNorm,
                           .rope = {.theta = 5e5, .layout = ops::RopeLayout::kPairs},
                           .layer = kCohereLayer,
                           .read = read_cohere,
                           .gguf = {.name = "command-r",
                                    .heads_fill_rows = true,
                                    .head = GgufHead::kTied,
                                    .most_layers = kMostLayers,
                                    .rope = {.turns_neighbours = true, .may_stretch = false, .states_no_scaling = true},
                                    .keys = kCohereKeys}};

const Architecture kCohere2{.name = "Cohere2ForCausalLM",
                            .model_type = "cohere2",
                            .default_max_position_embeddings = 8192,
                            .default_pad_token_id = 0,
                            .ties_by_default = true,
                            .norm = kCohereNorm,
                            .rope = {.layout = ops::RopeLayout::kPairs},
                            .layer = kCohereLayer,
                            .read = read_cohere2,
                            .gguf = {.name = "cohere2",
                                     .states_vocabulary = true,
                                     .head_size = GgufHeadSize::kWritten,
                                     .heads_fill_rows = true,
                                     .head = GgufHead::kTied,
                                     .windows = GgufWindows::kPattern,
                                     .pattern = 4,
                                     .rope = {.turns_neighbours = true,
                                              .may_stretch = false,
                                              .states_size = true,
                                              .states_no_scaling = true,
                                              .turns_in_windows_only = true},
                                     .keys = kCohereKeys},
                            .default_sizes = {256000, 8192, 22528, 40, 64}};

}  // namespace spillway::architectures
