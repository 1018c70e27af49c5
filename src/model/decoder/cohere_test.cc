// Reads the configs of Cohere, and checks the layers that they make.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/decoder/architecture.h"
#include "model/decoder/config.h"
#include "model/decoder/decoder.h"
#include "tests/support/decoder_configs.h"
#include "tests/support/golden_models.h"
#include "tests/support/tiny_graphs.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

TEST_CASE("Cohere 2 has one norm a layer, and rotates the layers with a window alone") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "cohere2");
  CHECK(config.architecture == &architectures::kCohere2);
  CHECK(windows_of(config) == std::vector<int64_t>{6, 0, 6});
  CHECK(rotated_of(config) == std::vector<bool>{true, false, true});
  CHECK(config.logit_scale == 0.6);
  CHECK(config.tie_word_embeddings);
  const Graph graph = graph_of_tiny("cohere2");
  CHECK(count_ops(graph, "layer_norm") == 3 + 1);
  CHECK(count_ops(graph, "rms_norm") == 0);
  CHECK(count_ops(graph, "rope") == 2 * 2);
  const ParameterTable table = parameters_of(*make_decoder(config), {});
  CHECK(table.find("model.layers.0.post_attention_layernorm.weight") == nullptr);
}

TEST_CASE("what a config of Cohere leaves out gets the defaults of transformers") {
  json minimal = json::parse(config_text({{"num_hidden_layers", 5}}, "Cohere2ForCausalLM"));
  for (const char* key : {"num_key_value_heads", "max_position_embeddings"}) minimal.erase(key);
  const DecoderConfig cohere2 = parse_decoder_config(minimal.dump(), "config.json");
  CHECK(windows_of(cohere2) == std::vector<int64_t>{4096, 4096, 4096, 0, 4096});
  CHECK(cohere2.layers[0].attention.kv_heads == 4);
  CHECK(cohere2.max_position_embeddings == 8192);
  CHECK(cohere2.norm_eps == 1e-5);
  CHECK(cohere2.logit_scale == 0.0625);
  CHECK(cohere2.ropes[0].theta == 1e4);
  CHECK(cohere2.padding_idx == 0);
  CHECK(!cohere2.layers[0].attention.qkv_bias);
  const DecoderConfig cohere = parse({{"layer_norm_eps", 0.5}, {"attention_bias", true}}, "CohereForCausalLM");
  CHECK(cohere.norm_eps == 0.5);
  CHECK(cohere.ropes[0].theta == 5e5);
  CHECK(rotated_of(cohere) == std::vector<bool>(3, true));
  CHECK(cohere.layers[2].attention.output_bias);
  CHECK(!cohere.layers[2].feed_forward.bias);
}

TEST_CASE("what would change Cohere is refused by name") {
  CHECK(config_error({{"use_qk_norm", true}}, "CohereForCausalLM") ==
        "[config.json] expected use_qk_norm false, got true; use a model without norms of its heads");
  CHECK(config_error({{"sliding_window", nullptr}}, "Cohere2ForCausalLM").find("expected sliding_window beside") !=
        std::string::npos);
  // Transformers computes the text inside these without logit_scale.
  const json text = json::parse(config_text(json::object(), "Cohere2ForCausalLM"));
  const json wrapper = {{"architectures", {"Cohere2VisionForConditionalGeneration"}}, {"text_config", text}};
  CHECK(config_error(wrapper.dump()).find("expected a model whose logits are scaled by logit_scale") !=
        std::string::npos);
}
