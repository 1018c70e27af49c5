// Keys of what an adapter is and starts as, and of weights without masters.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/config_error.h"

using namespace spillway;
using namespace spillway::config;
using spillway::testing::error_of;
using spillway::testing::load;

namespace {

const std::string kLora = "adapter: lora\nlora_r: 8\n";

AdapterSettings adapter(const std::string& text) { return *load(kLora + text).config.adapter; }

}  // namespace

TEST_CASE("an adapter starts as peft_init_lora_weights or LoftQ's bits say") {
  CHECK(adapter("").init == LoraInit{});
  CHECK(adapter("init_lora_weights: true\n").init == LoraInit{});
  CHECK(adapter("init_lora_weights: gaussian\n").init == LoraInit{LoraStart::kGaussian});
  CHECK(adapter("peft_init_lora_weights: pissa\n").init == LoraInit{LoraStart::kPissa});
  CHECK(adapter("peft_init_lora_weights: pissa_niter_4\n").init == LoraInit{LoraStart::kPissa, 4});
  CHECK(adapter("peft_init_lora_weights: olora\n").init == LoraInit{LoraStart::kOlora});
  const AdapterSettings loftq = adapter("peft: {loftq_config: {loftq_bits: 8}}\n");
  CHECK(loftq.init == LoraInit{LoraStart::kLoftq});
  CHECK(loftq.loftq_bits == 8);
  CHECK(adapter("peft_init_lora_weights: loftq\n").loftq_bits == 4);
  CHECK_FALSE(adapter("load_in_4bit: true\npeft_init_lora_weights: loftq\n").loftq_bits);

  for (const char* wrong : {"pissa_niter_", "pissa_niter_x", "pissa_niter_-1", "pisa"}) {
    CAPTURE(wrong);
    CHECK(error_of(kLora + "peft_init_lora_weights: " + wrong + "\n").find("olora or loftq, got '") !=
          std::string::npos);
  }
  CHECK(error_of(kLora + "peft_init_lora_weights: eva\n").find("an adapter out of activations is not yet supported") !=
        std::string::npos);
  CHECK(
      error_of(kLora + "load_in_4bit: true\npeft_init_lora_weights: pissa\n") ==
      "[c.yml:9: peft_init_lora_weights] expected a base that is not quantised beside pissa, as in PEFT, got one; use "
      "loftq");
  CHECK(error_of(kLora + "peft: {loftq_config: {loftq_bits: 6}}\n").find("expected 4 or 8, got 6") !=
        std::string::npos);
  CHECK(error_of(kLora + "peft_init_lora_weights: olora\npeft: {loftq_config: {loftq_bits: 4}}\n")
            .find("expected loftq beside peft.loftq_config.loftq_bits, got olora; remove one") != std::string::npos);
}

TEST_CASE("an adapter that goes on from LoftQ's start has the base of LoftQ's bits, and no start of its own") {
  const std::string on = "lora_model_dir: x\n";
  const AdapterSettings by_bits = adapter(on + "peft: {loftq_config: {loftq_bits: 8}}\n");
  CHECK(by_bits.loftq_bits == 8);
  CHECK(by_bits.init == LoraInit{});
  CHECK(adapter(on + "peft_init_lora_weights: loftq\n").loftq_bits == 4);
  CHECK_FALSE(adapter(on + "peft_init_lora_weights: gaussian\n").loftq_bits);
  CHECK_FALSE(adapter(on + "load_in_8bit: true\npeft_init_lora_weights: loftq\n").loftq_bits);
  CHECK(load(kLora + on + "peft: {loftq_config: {loftq_bits: 8}}\n").ignored.empty());
  CHECK(load(kLora + on + "peft_init_lora_weights: pissa\n").ignored ==
        std::vector<std::string>{"peft_init_lora_weights"});
  CHECK(error_of(kLora + on + "peft: {loftq_config: {loftq_bits: 6}}\n").find("expected 4 or 8, got 6") !=
        std::string::npos);
}

TEST_CASE("DoRA is a key of fresh adapters, by both names") {
  CHECK_FALSE(adapter("").dora);
  CHECK(adapter("peft_use_dora: true\n").dora);
  CHECK(adapter("use_dora: true\n").dora);
  CHECK(load("peft_use_dora: true\n").ignored == std::vector<std::string>{"peft_use_dora"});
}

TEST_CASE("bf16: full is bf16 without masters") {
  CHECK(load("bf16: true\n").config.model.masters);
  CHECK_FALSE(load("bf16: full\n").config.model.masters);
  CHECK(load("bf16: full\n").config.model.bf16);
  CHECK(error_of("bf16: half\n").find("expected auto, true, full or false, got 'half'") != std::string::npos);
}

TEST_CASE("fresh weights are of a model that learns text as a whole") {
  CHECK(load("reinit_weights: true\n").config.model.reinitialised);
  const std::string expected = "expected a model that learns text, all of it, got ";
  for (const char* other : {"adapter: lora\nlora_r: 8\n", "unfrozen_parameters: [x]\n"}) {
    CAPTURE(other);
    CHECK(error_of(std::string("reinit_weights: true\n") + other).find(expected) != std::string::npos);
  }
  CHECK(error_of("reinit_weights: true\nrl: dpo\n", {{"datasets.0.type", "chatml.default"}}).find(expected + "rl") !=
        std::string::npos);
}

TEST_CASE("layers are drawn where both of LISA's numbers say so, of all that full fine-tuning trains") {
  const std::string draws = "lisa_n_layers: 4\nlisa_step_interval: 20\n";
  const LisaSettings lisa = *load(draws).config.model.lisa;
  CHECK(lisa.layers == 4);
  CHECK(lisa.interval == 20);
  CHECK(lisa.layers_attribute == "model.layers");
  CHECK_FALSE(load("lisa_layers_attribute: model.layers\nlisa_n_layers:\n").config.model.lisa);
  CHECK(load("lisa_layers_attribute: model.layers\n").ignored == std::vector<std::string>{"lisa_layers_attribute"});
  CHECK(error_of("lisa_n_layers: 4\n").find("expected lisa_step_interval beside it, got none") != std::string::npos);
  CHECK(error_of("lisa_step_interval: 4\n").find("expected lisa_n_layers beside it, got none") != std::string::npos);
  CHECK(error_of("lisa_n_layers: 0\nlisa_step_interval: 4\n").find("of at least 1, got") != std::string::npos);
  CHECK(error_of("lisa_n_layers: 2\nlisa_step_interval: 0\n").find("of at least 1, got") != std::string::npos);
  for (const char* other : {"adapter: lora\nlora_r: 8\n", "unfrozen_parameters: [x]\n"}) {
    CAPTURE(other);
    CHECK(error_of(draws + other).find("expected full fine-tuning that learns text, got ") != std::string::npos);
  }
  CHECK(error_of(draws + "rl: dpo\n", {{"datasets.0.type", "chatml.default"}}).find("text, got rl beside it") !=
        std::string::npos);
}

TEST_CASE("lora_fan_in_fan_out is read, and changes nothing") {
  CHECK(load(kLora + "lora_fan_in_fan_out: true\n").ignored.empty());
  CHECK(error_of(kLora + "lora_fan_in_fan_out: 7\n").find("expected true or false, got '7'") != std::string::npos);
}

TEST_CASE("an adapter restarts where relora says so, with axolotl's defaults") {
  const std::string kRestarts = "relora: true\njagged_restart_steps: 150\n";
  const RestartSettings usual = *adapter(kRestarts).restarts;
  CHECK(usual.prune_method == PruneMethod::kMagnitude);
  CHECK(usual.prune_ratio == 0.9);
  CHECK(adapter(kRestarts + "relora_prune_method: random\n").restarts->prune_ratio == 0.9);
  CHECK(adapter(kRestarts + "relora_prune_method: reset\n").restarts->prune_ratio == 0.999);
  CHECK(adapter(kRestarts + "relora_prune_method: reset\nrelora_prune_ratio: 0.5\n").restarts->prune_ratio == 0.5);
  CHECK(adapter(kRestarts + "relora_prune_ratio: 0\n").restarts->prune_ratio == 0);
  CHECK_FALSE(adapter("jagged_restart_steps: 150\nrelora_prune_ratio: 0.5\n").restarts);

  CHECK(error_of("relora: true\njagged_restart_steps: 150\n") ==
        "[c.yml:6: relora] expected an adapter beside it, got none; set adapter: lora, or remove it");
  CHECK(error_of(kLora + "relora: true\n") ==
        "[c.yml:8: relora] expected jagged_restart_steps beside it, got none; set it, for example 150");
  CHECK(error_of(kLora + kRestarts + "relora_prune_ratio: 1.5\n").find("at most 1, got '1.5'") != std::string::npos);
  CHECK(error_of(kLora + kRestarts + "relora_prune_method: all\n").find("expected magnitude, random or reset, got") !=
        std::string::npos);
  for (const char* other : {"peft_use_dora: true", "peft_init_lora_weights: olora", "lora_modules_to_save: [lm_head]",
                            "lora_target_parameters: [mlp.experts.down_proj]"}) {
    CAPTURE(std::string(other));
    CHECK(error_of(kLora + kRestarts + other + "\n").find("expected none beside relora, which ") != std::string::npos);
  }
  CHECK(error_of(kLora + "relora_steps: 150\n").find("axolotl renamed it: write jagged_restart_steps") !=
        std::string::npos);
}
