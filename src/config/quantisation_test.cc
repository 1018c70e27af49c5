// Keys of quantised bases.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/config_error.h"

using namespace spillway;
using namespace spillway::config;
using spillway::testing::error_of;
using spillway::testing::load;

TEST_CASE("a quantised base needs an adapter and one width, and follows bnb_config_kwargs") {
  const auto quantisation = [](const std::string& text) { return load("lora_r: 8\n" + text).config.quantisation; };
  CHECK_FALSE(quantisation("adapter: lora\n"));
  const auto nf4 = quantisation("adapter: qlora\nload_in_4bit: true\n");
  REQUIRE(nf4);
  CHECK(nf4->coding == WeightCoding::kNf4);
  CHECK(nf4->double_quant);
  const auto fp4 = quantisation(
      "adapter: qlora\nload_in_4bit: true\nbnb_config_kwargs:\n  bnb_4bit_quant_type: fp4\n"
      "  bnb_4bit_use_double_quant: false\n  llm_int8_skip_modules: [up_proj]\n  bnb_4bit_compute_dtype: bfloat16\n"
      "  bnb_4bit_quant_storage: uint8\n  llm_int8_threshold: 6.0\n");
  REQUIRE(fp4);
  CHECK(fp4->coding == WeightCoding::kFp4);
  CHECK_FALSE(fp4->double_quant);
  CHECK(fp4->skip_modules == std::vector<std::string>{"up_proj"});
  CHECK(quantisation("adapter: lora\nload_in_8bit: true\n")->coding == WeightCoding::kInt8);
  // TRL's ModelConfig.
  CHECK_FALSE(quantisation("use_peft: true\nload_in_4bit: true\n")->double_quant);
  CHECK(quantisation("use_peft: true\nload_in_4bit: true\nuse_bnb_nested_quant: true\n")->double_quant);

  CHECK(error_of("adapter: qlora\nlora_r: 8\n") ==
        "[c.yml:6: adapter] expected load_in_4bit: true beside adapter: qlora, got none; set it, or adapter: lora");
  CHECK(error_of("adapter: qlora\nlora_r: 8\nload_in_8bit: true\n").find("beside adapter: qlora, got load_in_8bit") !=
        std::string::npos);
  CHECK(error_of("adapter: lora\nlora_r: 8\nload_in_4bit: true\nload_in_8bit: true\n") ==
        "[c.yml:9: load_in_8bit] expected load_in_4bit or load_in_8bit, got both; remove one");
  CHECK(error_of("load_in_4bit: true\n") ==
        "[c.yml:6: load_in_4bit] expected an adapter beside load_in_4bit, got none; set adapter: qlora: quantised "
        "weights are not trained");
  CHECK(error_of("load_in_8bit: true\n").find("set adapter: lora") != std::string::npos);
  const std::string qlora = "adapter: qlora\nlora_r: 8\nload_in_4bit: true\nquantize_moe_experts: true\n";
  CHECK(load(qlora).config.quantisation->has_experts);
  CHECK(error_of("quantize_moe_experts: true\n").find("expected an adapter beside quantised experts") !=
        std::string::npos);
  CHECK(error_of("adapter: lora\nlora_r: 8\nquantize_moe_experts: true\n") ==
        "[c.yml:8: quantize_moe_experts] expected load_in_4bit or load_in_8bit beside it, got neither; set one");
  CHECK(error_of(qlora + "lora_target_linear: true\n").find("expected lora_target_linear: false") != std::string::npos);
  CHECK(error_of("adapter: qlora\nlora_r: 8\nload_in_4bit: true\nbnb_config_kwargs: {bnb_4bit_quant_typ: nf4}\n")
            .find("did you mean bnb_config_kwargs.bnb_4bit_quant_type?") != std::string::npos);
  CHECK(error_of("adapter: qlora\nlora_r: 8\nload_in_4bit: true\nbnb_config_kwargs: {bnb_4bit_quant_type: nf3}\n")
            .find("expected nf4 or fp4, got 'nf3'") != std::string::npos);
}
