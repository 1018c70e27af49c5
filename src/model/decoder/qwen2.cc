// Qwen2 and Qwen2.5: Llama with biases on queries, keys and values, and a window in some layers.
#include "model/decoder/architecture.h"
#include "model/decoder/sliding_window.h"

namespace spillway::architectures {
namespace {

void read_qwen2(const JsonField& json, DecoderConfig& config) {
  set_biases(config.layers, {.qkv = true});
  read_layer_windows(json, config);
}

}  // namespace

const Architecture kQwen2{.name = "Qwen2ForCausalLM",
                          .model_type = "qwen2",
                          .default_kv_heads = 32,
                          .default_max_position_embeddings = 32768,
                          .read = read_qwen2,
                          .gguf = {.name = "qwen2", .biases = {.qkv = true}},
                          .default_sizes = {151936, 4096, 22016, 32, 32}};

}  // namespace spillway::architectures
