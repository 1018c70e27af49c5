// Qwen3: every query and key head is normalised before the rotation.
#include "model/decoder/architecture.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

void read_qwen3(const JsonField& json, DecoderConfig& config) {
  const bool bias = json["attention_bias"].boolean_or(false);
  set_biases(config.layers, {.qkv = bias, .output = bias});
  read_layer_windows(json, config);
}

}  // namespace

const Architecture kQwen3{.name = "Qwen3ForCausalLM",
                          .model_type = "qwen3",
                          .default_kv_heads = 32,
                          .default_head_dim = 128,
                          .default_max_position_embeddings = 32768,
                          .layer = {.attention = {.head_norm = HeadNorm::kEachHead}},
                          .read = read_qwen3,
                          .gguf = {.name = "qwen3",
                                   .head_size = GgufHeadSize::kWritten,
                                   .biases = {.qkv = true, .output = true, .vary = true}},
                          .default_sizes = {151936, 4096, 22016, 32, 32}};

}  // namespace spillway::architectures
