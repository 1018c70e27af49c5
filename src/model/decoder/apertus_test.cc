// Reading Apertus' config.json, and the numbers of its activation.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "model/decoder/architecture.h"
#include "model/decoder/config.h"
#include "model/decoder/decoder.h"
#include "tests/support/decoder_configs.h"
#include "tests/support/golden_models.h"
#include "tests/support/tiny_graphs.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

TEST_CASE("Apertus trains two numbers of each activation, and keeps the two others of its files") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "apertus");
  CHECK(config.architecture == &architectures::kApertus);
  CHECK(count_ops(graph_of_tiny("apertus"), "xielu") == 2);
  const ParameterTable table = parameters_of(*make_decoder(config), {});
  CHECK(table.find("model.layers.0.mlp.gate_proj.weight") == nullptr);
  CHECK(table.find("model.layers.0.attention_layernorm.weight") != nullptr);
  const Parameter &alpha = *table.find("model.layers.1.mlp.act_fn.alpha_n"),
                  &beta = *table.find("model.layers.1.mlp.act_fn.beta");
  CHECK(alpha.role == ParameterRole::kScale);
  CHECK(alpha.shape == Shape{1});
  CHECK(alpha.decays());
  CHECK(alpha.fresh_number == doctest::Approx(-1.0502256));  // log(expm1(0.3))
  CHECK(beta.role == ParameterRole::kBuffer);
  CHECK(beta.written_shape() == Shape{});
  CHECK(beta.fresh_number == 0.5);
}

TEST_CASE("a config of Apertus without a rope, or with layers that transformers does not compute, is refused") {
  const json rope = {{"rope_type", "llama3"},  {"factor", 8.0},           {"original_max_position_embeddings", 8192},
                     {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"rope_theta", 12000000.0}};
  const auto error_of = [&](json changes) {
    json all = {{"hidden_act", "xielu"}, {"rope_parameters", rope}};
    all.update(changes);
    return config_error(all, "ApertusForCausalLM");
  };
  CHECK(error_of(json::object()).empty());
  CHECK(error_of({{"rope_parameters", nullptr}}) ==
        "[config.json] expected rope_parameters or rope_scaling, got none; add it as the model's files have it");
  CHECK(error_of({{"hidden_act", "silu"}}).find("expected hidden_act xielu, got 'silu'") != std::string::npos);
  CHECK(error_of({{"qk_norm", false}}).find("qk_norm] expected true") != std::string::npos);
  CHECK(error_of({{"post_norm", true}}).find("post_norm] expected false") != std::string::npos);
  CHECK(error_of({{"mlp_bias", true}}).find("mlp_bias] expected false") != std::string::npos);
}
