#include "infer/inference_model.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "model/lora.h"
#include "tests/support/tiny_training.h"

using namespace spillway;
using namespace spillway::infer;

TEST_CASE("an adapter over LoftQ's bits is run over the base that it was trained on: its own layers in codes") {
  const std::filesystem::path model = spillway::testing::kGoldenModels / "llama2", adapter = model / "adapter";
  config::Config config;
  config.adapter.emplace().loftq_bits = 4;
  const InferenceModel read = read_inference_model(model, adapter, &config);
  const ParameterTable parameters = parameters_of(*read.model, read.options);
  int64_t coded = 0;
  for (const Parameter& p : parameters) {
    if (p.role != ParameterRole::kLinear || !p.is_of_model()) continue;
    const bool is_adapted = parameters.find(lora_name(p.module, 'A')) != nullptr;
    CHECK(p.storage->is_coded() == is_adapted);
    coded += is_adapted ? 1 : 0;
  }
  CHECK(coded > 0);
  CHECK_FALSE(read_inference_model(model, adapter).options.linear_storage);
}
