#include "infer/linear_storage.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "model/decoder/decoder.h"
#include "model/storages/quantised.h"
#include "tests/support/source_folder.h"
#include "tests/support/tiny_training.h"

using namespace spillway;

namespace {

DecoderConfig small_decoder() { return read_decoder_config(spillway::testing::kGoldenModels / "qwen3"); }

config::Config qlora(std::vector<std::string> skip_modules = {}) {
  config::Config config;
  config.adapter.emplace();
  config.quantisation = {.skip_modules = std::move(skip_modules)};
  return config;
}

std::optional<LinearStorage> linear_storage(const config::Config& config, const Model& model, DType dtype) {
  return infer::linear_storage(config, parameters_of(model), dtype);
}

ModelPtr coded_model(WeightCoding coding) {
  DecoderConfig config = small_decoder();
  config.linear_storage.storage = quantised_storage({.coding = coding});
  return make_decoder(config);
}

}  // namespace

TEST_CASE("a base is quantised as its config says, but for the modules that it skips") {
  const ModelPtr model = make_decoder(small_decoder());
  config::Config config = qlora();
  CHECK(linear_storage(config, *model, DType::kBF16)->storage->name() == "nf4");
  CHECK(linear_storage(config, *model, DType::kBF16)->dense_modules.empty());
  config.quantisation->coding = WeightCoding::kInt8;
  CHECK(linear_storage(config, *model, DType::kBF16)->storage->name() == "int8");
  config.quantisation.reset();
  CHECK_FALSE(linear_storage(config, *model, DType::kBF16));

  // As transformers matches: the start of a path up to a dot, a regular expression likewise, or an end.
  const auto skipped = [&](const std::string& entry) {
    return linear_storage(qlora({entry}), *model, DType::kBF16)->dense_modules;
  };
  CHECK(skipped("lm_head").empty());
  CHECK(skipped("model.layers.1").size() == 7);
  CHECK(skipped("model.layers.[01].mlp").size() == 6);
  CHECK(skipped("up_proj").size() == linear_storage(qlora({"gate_proj"}), *model, DType::kBF16)->dense_modules.size());
  CHECK(skipped("up_proj").contains("model.layers.0.mlp.up_proj"));
  CHECK(skipped("layers.1").empty());
  CHECK_THROWS_AS((void)skipped("model.(layers"), InputError);
}

TEST_CASE("modules to skip that are none of the model's are named") {
  const ParameterTable parameters = parameters_of(*make_decoder(small_decoder()));
  const auto notes = [&](const char* entry) { return infer::notes_on_base(qlora({entry}), parameters); };
  for (const char* known : {"lm_head", "embed_tokens", "up_proj", "model.layers.0", "model.layers.[01].mlp"}) {
    CAPTURE(known);
    CHECK(notes(known).empty());
  }
  for (const char* unknown : {"layers.0", "down_prj"}) {
    CAPTURE(unknown);
    REQUIRE(notes(unknown).size() == 1);
    CHECK(notes(unknown)[0].find(unknown) != std::string::npos);
  }
}

TEST_CASE("what bnb_config_kwargs say beside a quantised folder is what its files have") {
  // tools/make_quantised_goldens.py had bitsandbytes write it.
  const ModelPtr model = read_model(spillway::testing::source_folder() / "tests/golden/quantised/nf4");
  config::Config config;
  config.adapter.emplace();
  config.said_quantisation = {
      .quant_type = {{WeightCoding::kNf4, "a"}}, .double_quant = {{true, "b"}}, .skip_modules = {{{"lm_head"}, "c"}}};
  CHECK_FALSE(linear_storage(config, *model, DType::kBF16));
  const auto check_refused = [&](const config::SaidQuantisation& said, const char* message) {
    config.said_quantisation = said;
    CHECK_THROWS_WITH_AS((void)linear_storage(config, *model, DType::kBF16), message, InputError);
  };
  check_refused({.quant_type = {{WeightCoding::kFp4, "a"}}},
                "[a] expected nf4, as the model's files are quantised, got fp4; remove the key");
  check_refused({.double_quant = {{false, "b"}}},
                "[b] expected true, as the model's files are quantised, got false; remove the key");
  check_refused({.skip_modules = {{{"q_proj"}, "c"}}},
                "[c] expected the modules without codes in the model's files, got model.layers.0.self_attn.q_proj, "
                "which has some; remove the key");
}

TEST_CASE("keys that contradict a quantised folder are refused, and so is training its weights") {
  const ModelPtr four = coded_model(WeightCoding::kNf4), eight = coded_model(WeightCoding::kInt8);
  CHECK_FALSE(linear_storage(qlora(), *four, DType::kBF16));
  CHECK_THROWS_WITH_AS((void)linear_storage(qlora(), *eight, DType::kBF16),
                       "[load_in_4bit] expected the format that the model's files have, int8, got another; remove the "
                       "key",
                       InputError);
  // Its weights are frozen if it is only evaluated.
  CHECK_FALSE(linear_storage(config::Config{}, *four, DType::kBF16));
  CHECK_THROWS_WITH_AS(infer::check_base({}, parameters_of(*four)),
                       doctest::Contains("expected an adapter beside a quantised model, got none"), InputError);
}
