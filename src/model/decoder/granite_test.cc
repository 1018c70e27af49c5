// Reading Granite's config.json.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "model/decoder/architecture.h"
#include "model/decoder/config.h"
#include "tests/support/decoder_configs.h"
#include "tests/support/golden_models.h"
#include "tests/support/tiny_graphs.h"

using namespace spillway;
using namespace spillway::testing;
using nlohmann::json;

TEST_CASE("Granite's four multipliers are read, each 1 where it is left out") {
  const DecoderConfig config = read_decoder_config(kGoldenModels / "granite");
  CHECK(config.architecture == &architectures::kGranite);
  CHECK(config.embedding_scale == 3.0);
  CHECK(config.residual_scale == 0.6);
  CHECK(config.layers[0].attention.scale == 0.3);
  CHECK(config.logit_scale == 1 / 1.7);
  const DecoderConfig plain = parse(json::object(), "GraniteForCausalLM");
  for (const double scale :
       {plain.embedding_scale, plain.residual_scale, plain.layers[0].attention.scale, plain.logit_scale})
    CHECK(scale == 1);
  CHECK(!plain.tie_word_embeddings);
  CHECK(!plain.layers[0].attention.qkv_bias);
  CHECK(parse({{"attention_bias", true}}, "GraniteForCausalLM").layers[0].attention.output_bias);
  CHECK(config_error({{"logits_scaling", 0}}, "GraniteForCausalLM").find("logits_scaling] expected a number") !=
        std::string::npos);
}

TEST_CASE("Granite scales what each branch adds, and the rows that the head reads") {
  CHECK(count_ops(graph_of_tiny("granite"), "scale") == 2 * 2 + 1);
  CHECK(count_ops(graph_of_tiny("llama2"), "scale") == 0);
}
