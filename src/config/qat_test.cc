// Keys of quantisation-aware training.
#include <doctest/doctest.h>

#include "tests/support/config_error.h"

using namespace spillway;
using namespace spillway::testing;

namespace {

FakeQuantisation formats_of(const char* qat) {
  return config::fake_quantisation_of(load(fmt::format("qat: {}\n", qat)).config.model.qat.value());
}

}  // namespace

TEST_CASE("axolotl's qat says what weights and inputs of linear layers are rounded to") {
  CHECK_FALSE(load("").config.model.qat.has_value());
  const FakeQuantisation int4 = formats_of("{weight_dtype: int4, activation_dtype: int8, group_size: 256}");
  CHECK(int4.weights == std::vector{FakeFormat::kInt4});
  CHECK(int4.inputs == std::vector{FakeFormat::kInt8});
  CHECK(int4.group == 256);
  CHECK(int4.after_steps == 0);
  const FakeQuantisation mixed = formats_of("{weight_dtype: int4, activation_dtype: fp8, fake_quant_after_n_steps: 7}");
  CHECK(mixed.weights == std::vector{FakeFormat::kFloat8, FakeFormat::kInt4OfFloat8});
  CHECK(mixed.inputs == std::vector{FakeFormat::kFloat8});
  CHECK(mixed.group == 32);
  CHECK(mixed.after_steps == 7);
  CHECK(formats_of("{weight_dtype: nvfp4, group_size: 16}").inputs.empty());
  CHECK(formats_of("{weight_dtype: mxfp4, activation_dtype: mxfp4}").inputs == std::vector{FakeFormat::kMxfp4});
  CHECK(formats_of("{weight_dtype: int4, quantize_embedding: true}").has_embedding);
  CHECK(load("qat: {weight_dtype: fp8, activation_dtype: fp8, group_size: 64}\n")
            .verdicts.spelled(config::Verdict::kIgnored) == std::vector<std::string>{"qat.group_size"});
}

TEST_CASE("formats that do not go together, and qat beside what it is not for, are refused with the remedy") {
  for (const auto& [qat, message] : std::vector<std::pair<const char*, const char*>>{
           {"{weight_dtype: int8}", "qat.weight_dtype] expected int4, fp8, nvfp4 or mxfp4, got int8"},
           {"{weight_dtype: fp8}",
            "qat.activation_dtype] expected float8_e4m3fn beside float8_e4m3fn weights, got none"},
           {"{weight_dtype: int4, activation_dtype: int4}", "qat.activation_dtype] expected none or int8 or"},
           {"{weight_dtype: int4, group_size: 24}", "qat.group_size] expected a multiple of 16, got 24"},
           {"{weight_dtype: nvfp4, group_size: 32}", "qat.group_size] expected 16 for nvfp4, got 32"},
           {"{activation_dtype: int8}", "qat.weight_dtype] expected int4, fp8, nvfp4 or mxfp4, got nothing"},
           {"{weight_dtype: nvfp4, quantize_embedding: true}", "qat.quantize_embedding] expected false"}}) {
    CAPTURE(qat);
    const std::string error = error_of(fmt::format("qat: {}\n", qat));
    CAPTURE(error);
    CHECK(error.find(message) != std::string::npos);
  }
  for (const char* other : {"adapter: lora\nlora_r: 4\nlora_target_linear: true\n",
                            "kd_trainer: true\nteacher_model_name_or_path: other\n"}) {
    CAPTURE(other);
    CHECK(error_of(fmt::format("qat: {{weight_dtype: int4}}\n{}", other)).find("expected full fine-tuning on text") !=
          std::string::npos);
  }
}
