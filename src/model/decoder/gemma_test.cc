// Reading the config.json of the first Gemma.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "model/decoder/architecture.h"
#include "model/decoder/config.h"
#include "tests/support/decoder_configs.h"
#include "tests/support/golden_models.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

TEST_CASE("Gemma's embedding is scaled, and what its config leaves out gets the defaults of transformers") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "gemma");
  CHECK(config.architecture == &architectures::kGemma);
  CHECK(config.embedding_scale == std::sqrt(32.0));
  CHECK(config.layers[0].attention.scale == 1 / std::sqrt(12.0));
  CHECK(config.logit_soft_cap == 0);
  json minimal = json::parse(config_text(json::object(), "GemmaForCausalLM"));
  minimal["num_attention_heads"] = 16;
  for (const char* key : {"hidden_act", "num_key_value_heads", "rms_norm_eps", "max_position_embeddings"})
    minimal.erase(key);
  const DecoderConfig plain = parse_decoder_config(minimal.dump(), "config.json");
  CHECK(plain.layers[0].attention.kv_heads == 16);
  CHECK(plain.layers[0].attention.head_dim == 256);
  CHECK(plain.max_position_embeddings == 8192);
  CHECK(plain.norm_eps == 1e-6);
  CHECK(plain.tie_word_embeddings);
}

TEST_CASE("Gemma's gelu is its tanh, by either of its names, and anything else is refused by its key") {
  const auto error = [](const json& changes) { return config_error(changes, "GemmaForCausalLM"); };
  CHECK(error({{"hidden_act", "gelu"}, {"hidden_activation", nullptr}}).empty());
  CHECK(error({{"hidden_act", "gelu_pytorch_tanh"}, {"hidden_activation", "gelu_pytorch_tanh"}}).empty());
  CHECK(error({{"hidden_act", "silu"}}).find("expected hidden_act gelu_pytorch_tanh, got 'silu'") != std::string::npos);
  CHECK(error({{"hidden_act", "gelu"}, {"hidden_activation", "gelu"}}).find("expected hidden_activation") !=
        std::string::npos);
  CHECK(error({{"hidden_act", "gelu"}, {"use_bidirectional_attention", true}}).find("use_bidirectional_attention") !=
        std::string::npos);
}
