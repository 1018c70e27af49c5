// Reading Seed-OSS' config.json.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "model/decoder/architecture.h"
#include "model/decoder/config.h"
#include "model/decoder/decoder.h"
#include "tests/support/decoder_configs.h"
#include "tests/support/golden_models.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

TEST_CASE(
    "Seed-OSS has biases of queries, keys and values unless its config says otherwise, and other ones if it does") {
  const auto seed_oss = [](json changes) {
    changes.update({{"model_type", "seed_oss"}, {"attention_dropout", 0.0}, {"residual_dropout", 0.0}});
    return parse(changes, "SeedOssForCausalLM");
  };
  const DecoderConfig config = read_decoder_config(kGoldenModels / "seed_oss");
  CHECK(config.architecture == &architectures::kSeedOss);
  CHECK(config.layers[0].attention.head_dim == 12);
  const DecoderConfig plain = seed_oss(json::object());
  CHECK(plain.layers[0].attention.qkv_bias);
  CHECK(!plain.layers[0].attention.output_bias);
  CHECK(!plain.layers[0].feed_forward.bias);
  CHECK(plain.layers[0].attention.head_dim == 128);
  CHECK(seed_oss({{"head_dim", nullptr}}).layers[0].attention.head_dim == 8);
  const DecoderConfig other = seed_oss({{"attention_bias", false}, {"attention_out_bias", true}, {"mlp_bias", true}});
  CHECK(!other.layers[0].attention.qkv_bias);
  CHECK(other.layers[0].attention.output_bias);
  CHECK(other.layers[0].feed_forward.bias);
}

TEST_CASE("Seed-OSS' dropouts are refused by their keys, those that it has where it names none, too") {
  const auto error = [](json changes) {
    changes["model_type"] = "seed_oss";
    return config_error(changes, "SeedOssForCausalLM");
  };
  CHECK(error(json::object()) ==
        "[config.json] expected attention_dropout 0, got 0.1, which transformers takes where it is left out; "
        "write overrides_of_model_config: {attention_dropout: 0} into the config of the run");
  CHECK(error({{"attention_dropout", 0}}).find("expected residual_dropout 0, got 0.1, which transformers takes") !=
        std::string::npos);
  CHECK(error({{"attention_dropout", 0}, {"residual_dropout", 0.2}}) ==
        "[config.json] expected residual_dropout 0, got 0.2; write overrides_of_model_config: "
        "{residual_dropout: 0} into the config of the run");
  CHECK(error({{"attention_dropout", 0}, {"residual_dropout", 0}}).empty());
  // Dropout applies to trained layers alone: frozen ones are read as they are.
  const auto model = [](const json& dropouts) {
    return make_decoder(parse_decoder_config(config_text(dropouts, "SeedOssForCausalLM"), "config.json"));
  };
  json named = {{"model_type", "seed_oss"}};
  CHECK_THROWS_AS(model(named)->check_trains(), InputError);
  named.update({{"attention_dropout", 0}, {"residual_dropout", 0}});
  CHECK_NOTHROW(model(named)->check_trains());
}
