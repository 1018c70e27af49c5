// Reading the config.json of Nemotron and of Hunyuan's dense models, and the layers that they make.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
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

TEST_CASE("Nemotron's norms have biases, and a part of its heads turns") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "nemotron");
  CHECK(config.architecture == &architectures::kNemotron);
  CHECK(config.ropes[0].partial_rotary_factor == 0.5);
  CHECK(config.layers[0].feed_forward.bias);
  const Graph graph = graph_of_tiny("nemotron");
  CHECK(count_ops(graph, "layer_norm") == 2 * 2 + 1);
  CHECK(count_ops(graph, "rms_norm") == 0);
  const ModelPtr model = make_decoder(config);
  const ParameterTable table = parameters_of(*model, {});
  CHECK(table.find("model.layers.0.mlp.gate_proj.weight") == nullptr);
  CHECK(table.find("model.norm.bias")->role == ParameterRole::kBias);
  CHECK(!table.find("model.layers.1.input_layernorm.bias")->decays());
  CHECK(model->text()->fresh.norm == 1);  // as transformers starts them, though they are differences from 1
}

TEST_CASE("what a config of Nemotron leaves out gets the defaults of transformers, and another activation is refused") {
  json minimal = json::parse(config_text(json::object(), "NemotronForCausalLM"));
  CHECK(config_error(minimal.dump()).find("expected hidden_act relu2, got 'silu'") != std::string::npos);
  for (const char* key : {"hidden_act", "num_key_value_heads", "max_position_embeddings"}) minimal.erase(key);
  const DecoderConfig config = parse_decoder_config(minimal.dump(), "config.json");
  CHECK(config.layers[0].attention.kv_heads == 4);
  CHECK(config.ropes[0].partial_rotary_factor == 0.5);
  CHECK(config.norm_eps == 1e-5);
  CHECK(config.max_position_embeddings == 4096);
  CHECK(!config.layers[0].attention.qkv_bias);
}

TEST_CASE("Hunyuan's alpha stretches the base of its rope, and its norms are of heads that are rotated") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "hunyuan_v1_dense");
  CHECK(config.architecture == &architectures::kHunyuanV1Dense);
  CHECK(config.ropes[0].type == RopeType::kDefault);
  CHECK(config.ropes[0].theta == doctest::Approx(10000 * std::pow(30.0, 12.0 / 10)));
  const Graph graph = graph_of_tiny("hunyuan_v1_dense");
  std::vector<std::string_view> order;
  for (const Operation& op : graph.ops)
    if ((op.def->name == "rope" || op.def->name == "rms_norm") && order.size() < 5) order.push_back(op.def->name);
  CHECK(order == std::vector<std::string_view>{"rms_norm", "rope", "rope", "rms_norm", "rms_norm"});
  const ParameterTable table = parameters_of(*make_decoder(config), {});
  CHECK(table.find("model.layers.0.self_attn.query_layernorm.weight")->shape == Shape{12});
}

TEST_CASE("a base that grows with the length is refused, which Hunyuan's type without alpha means") {
  const auto hunyuan = [](const json& rope) {
    return config_error({{"model_type", "hunyuan_v1_dense"}, {"rope_scaling", rope}}, "HunYuanDenseV1ForCausalLM");
  };
  CHECK(hunyuan({{"type", "dynamic"}, {"alpha", 1000.0}, {"factor", 1.0}}).empty());
  CHECK(hunyuan({{"type", "dynamic"}, {"factor", 2.0}}).find("got 'dynamic'") != std::string::npos);
  CHECK(config_error({{"rope_scaling", {{"type", "dynamic"}, {"alpha", 1000.0}}}}).find("got 'dynamic'") !=
        std::string::npos);
}
