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
  REQUIRE(models.size() == 17);
  for (const json& one : models) {
    const GgufDescription description = gguf_description(one.at("config").dump(), "config.json", {});
    const GgufModel& model = description.model;
    CAPTURE(model.architecture);
    CAPTURE(model.layers);
    size_t compared = 0;
    for (const GgufWeight& weight : description.weights) {
      if (!one.at("types").contains(weight.gguf)) continue;  // norms and biases that not every architecture has
      INFO(weight.gguf);
      CHECK(layout_of(tensor_type(weight, model, find_gguf_file_type("q4_k_m"))).name ==
            one.at("types").at(weight.gguf).get<std::string>());
      ++compared;
    }
    CHECK(compared == one.at("types").size());
  }
}

TEST_CASE("rows that no block of a mixture fits are f16") {
  const GgufModel model{.architecture = "llama", .layers = 1};
  const GgufWeight weight{.gguf = "blk.0.attn_q.weight", .shape = {64, 48}, .parts = {}};
  CHECK(tensor_type(weight, model, find_gguf_file_type("q4_k_m")) == GgufType::kF16);
  CHECK(tensor_type(weight, model, find_gguf_file_type("q8_0")) == GgufType::kF16);
  CHECK(tensor_type(weight, model, find_gguf_file_type("bf16")) == GgufType::kBF16);
}
