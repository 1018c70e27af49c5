// Against llama.cpp's own quantiser: tests/golden/gguf_quantised/mixtures.json (tools/make_gguf_quantised_goldens.py).
#include "model/gguf/mixture.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "io/file.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using nlohmann::json;

TEST_CASE("the tensors of a Q4_K_M file have the types that llama-quantize gives them") {
  const json models =
      json::parse(read_file(testing::source_folder() / "tests/golden/gguf_quantised/mixtures.json", 1 << 20));
  REQUIRE(models.size() == 9);
  for (const json& one : models) {
    const json config = {{"model_type", one.at("architecture")},      {"num_hidden_layers", one.at("layers")},
                         {"hidden_size", one.at("hidden")},           {"intermediate_size", one.at("intermediate")},
                         {"vocab_size", one.at("vocabulary")},        {"num_attention_heads", one.at("heads")},
                         {"num_key_value_heads", one.at("kv_heads")}, {"head_dim", one.at("head_dim")},
                         {"tie_word_embeddings", one.at("tied")}};
    const GgufDescription description = gguf_description(config.dump(), "config.json", {});
    const GgufModel& model = description.model;
    CAPTURE(model.architecture);
    CAPTURE(model.layers);
    int64_t compared = 0;
    for (const GgufWeight& weight : description.weights) {
      if (weight.gguf.ends_with(".bias")) continue;
      const bool is_of_layer = weight.gguf.starts_with("blk.");
      const size_t end = is_of_layer ? weight.gguf.find('.', 4) : 0;
      const std::string kind = is_of_layer ? weight.gguf.substr(end + 1) : weight.gguf;
      if (!one.at("types").contains(kind)) continue;  // norms that not every architecture has
      const size_t layer = is_of_layer ? std::stoul(weight.gguf.substr(4)) : 0;
      INFO(weight.gguf);
      CHECK(layout_of(tensor_type(weight, model, find_gguf_file_type("q4_k_m"))).name ==
            one.at("types").at(kind)[layer].get<std::string>());
      ++compared;
    }
    CHECK(compared == 9 * model.layers + (model.tied ? 2 : 3));
  }
}

TEST_CASE("rows that no block of a mixture fits are f16") {
  const GgufModel model{.architecture = "llama", .layers = 1};
  const GgufWeight weight{.gguf = "blk.0.attn_q.weight", .name = {}, .shape = {64, 48}};
  CHECK(tensor_type(weight, model, find_gguf_file_type("q4_k_m")) == GgufType::kF16);
  CHECK(tensor_type(weight, model, find_gguf_file_type("q8_0")) == GgufType::kF16);
  CHECK(tensor_type(weight, model, find_gguf_file_type("bf16")) == GgufType::kBF16);
}
