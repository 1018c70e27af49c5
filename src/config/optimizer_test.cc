// Keys of optimizers.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "config/values.h"
#include "tests/support/config_error.h"

using namespace spillway;
using namespace spillway::config;
using spillway::testing::error_of;
using spillway::testing::load;

TEST_CASE("a paged optimizer is the same update, and leaves the home of its state to the plan") {
  const std::pair<const char*, const char*> words[] = {
      {"paged_adamw_8bit", "adamw_bnb_8bit"}, {"paged_adamw_32bit", "adamw_torch"}, {"paged_lion_32bit", "lion_32bit"}};
  for (const auto& [paged, plain] : words) {
    CAPTURE(paged);
    const Config config = load(fmt::format("optimizer: {}\n", paged)).config;
    CHECK(config.optimizer.optimizer == load(fmt::format("optimizer: {}\n", plain)).config.optimizer.optimizer);
    CHECK(config.offload.home_of(ValueKind::kOptimizerState) == Offload::kAuto);
    CHECK_FALSE(load(fmt::format("optimizer: {}\n", plain)).config.offload.home_of(ValueKind::kOptimizerState));
    const std::string own = fmt::format("optimizer: {}\noptimizer_offload: none\n", paged);
    CHECK(load(own).config.offload.home_of(ValueKind::kOptimizerState) == Offload::kNone);
  }
}

TEST_CASE("what every word for an optimizer comes to has a word that is written for it") {
  for (const Word<Optimizer>& word : words_of(Optimizer{})) {
    if (!word.value) continue;
    CAPTURE(word.name);
    const Optimizer optimizer = load(fmt::format("optimizer: {}\n", word.name)).config.optimizer.optimizer;
    const std::string written = print_value(optimizer);
    CHECK_FALSE(written.empty());
    CHECK(load(fmt::format("optimizer: {}\n", written)).config.optimizer.optimizer == optimizer);
  }
}

TEST_CASE("optim_args is a mapping or a text, of numbers and truth values") {
  using Args = std::vector<std::pair<std::string, double>>;
  const auto args = [](const std::string& value, std::vector<ConfigOverride> overrides = {}) {
    Args result;
    for (const OptimArg& one : load("optimizer: sgd\n" + value, std::move(overrides)).config.optimizer.args.items)
      result.emplace_back(one.name, one.value);
    return result;
  };
  CHECK(args("").empty());
  CHECK(args("optim_args:\n").empty());
  CHECK(args("optim_args: ''\n").empty());
  const Args both = {{"momentum", 0.9}, {"nesterov", 1}};
  CHECK(args("optim_args: {momentum: 0.9, nesterov: true}\n") == both);
  CHECK(args("optim_args: {momentum: '0.9', nesterov: 'True'}\n") == both);
  CHECK(args("optim_args: \"momentum=0.9, nesterov=True\"\n") == both);
  CHECK(args("optim_args: {momentum: 0.5, nesterov: true}\n", {{"optim_args.momentum", "0.9"}}) == both);
  CHECK(args("", {{"optim_args", "momentum=0.9,nesterov=1"}}) == both);

  CHECK(error_of("optim_args: [0.9]\n") ==
        "[c.yml:6: optim_args] expected a mapping or a text like \"momentum=0.9\", got a list of 1; write one");
  CHECK(error_of("optim_args: momentum\n") ==
        "[c.yml:6: optim_args] expected name=value between commas, got 'momentum'; write it so");
  CHECK(error_of("optim_args: {momentum: much}\n") ==
        "[c.yml:6: optim_args.momentum] expected a number, true or false for momentum, got 'much'; write one");
  CHECK(error_of("optim_args: a=1,a=2\n") ==
        "[c.yml:6: optim_args] expected each option once, got 'a' twice; remove one");
}

TEST_CASE("DeepSpeed's options of SGD become optim_args") {
  const Config config =
      load("deepspeed: {optimizer: {type: SGD, params: {lr: 1.0e-3, momentum: 0.9, nesterov: true}}}\n",
           {{"learning_rate", "1e-3"}})
          .config;
  REQUIRE(config.optimizer.args.items.size() == 2);
  CHECK(config.optimizer.args.items[0].name == "momentum");
  CHECK(config.optimizer.args.items[1].value == 1);
}

TEST_CASE("embedding_lr, its scale and lr_groups make axolotl's groups of weights") {
  CHECK_FALSE(load().config.optimizer.lr_groups);
  CHECK(load("embedding_lr: 1e-5\n").config.optimizer.lr_groups->embedding_lr == 1e-5);
  CHECK(load("embedding_lr: 1e-5\nembedding_lr_scale: 0.5\n").config.optimizer.lr_groups->embedding_lr == 1e-4);
  const Config config =
      load("lr_groups:\n  - {name: o, modules: [o_proj.weight, x], lr: 1e-6}\n  - {name: q, modules: [q], lr: 0}\n")
          .config;
  REQUIRE(config.optimizer.lr_groups);
  CHECK(config.optimizer.lr_groups->embedding_lr == 2e-4);
  CHECK(config.optimizer.lr_groups->groups.at(0).modules == std::vector<std::string>{"o_proj.weight", "x"});
  CHECK(config.optimizer.lr_groups->groups[1].lr == 0);
  const std::string lora = "adapter: lora\nlora_r: 8\nloraplus_lr_ratio: 16\n";
  CHECK(load(lora + "embedding_lr: 1e-5\n").config.optimizer.lr_groups->embedding_lr == 1e-5);
  const std::string groups = "lr_groups: [{name: o, modules: [o], lr: 1}]\n";
  CHECK(error_of(lora + groups).find("expected embedding_lr, or no loraplus_lr_ratio, beside it") != std::string::npos);
  CHECK(load(lora + groups + "embedding_lr_scale: 2\n").config.optimizer.lr_groups->groups.size() == 1);
  CHECK(error_of("embedding_lr: 1e-5\n", {{"learning_rate", "0"}}).find("expected a learning_rate above 0") !=
        std::string::npos);
  CHECK(error_of("lr_groups: [{name: o, lr: 1}]\n").find("lr_groups.0] expected modules in the mapping") !=
        std::string::npos);
  CHECK(error_of("lr_groups: [{name: o, module: [o], lr: 1}]\n").find("did you mean modules?") != std::string::npos);
}

TEST_CASE("float32 is bf16: false, and use_dft a loss of text") {
  CHECK_FALSE(load("float32: true\n").config.model.bf16);
  CHECK_FALSE(load("float32: true\nbf16: auto\n").config.model.bf16);
  CHECK(load("float32: false\n").config.model.bf16);
  CHECK(error_of("float32: true\nbf16: true\n").find("float32] expected false beside bf16: true, got true") !=
        std::string::npos);
  CHECK(load("use_dft: true\n").config.text_loss == TextLoss::kWeightedByProbability);
  CHECK(load("use_dynamic_finetuning: true\n").config.text_loss == TextLoss::kWeightedByProbability);
  CHECK(load("use_dft: false\n").config.text_loss == TextLoss::kCrossEntropy);
  CHECK(error_of("use_dft: true\ndpo_loss_type: nll\n").find("expected dpo_loss_type: dft beside it") !=
        std::string::npos);
  const Config eaft = load("use_eaft: true\neaft_alpha: 2\neaft_k: 30\nlabel_smoothing_factor: 0.1\n").config;
  CHECK(eaft.text_loss == TextLoss::kWeightedByEntropy);
  CHECK(eaft.entropy_weight.alpha == 2);
  CHECK(eaft.entropy_weight.top == 30);
  CHECK(eaft.label_smoothing == 0);
  CHECK(error_of("use_eaft: true\nuse_dft: true\n").find("expected no other loss of text beside it") !=
        std::string::npos);
  CHECK(load("label_smoothing_factor: 0.1\n").config.label_smoothing == 0.1);
  CHECK(load("label_smoothing_factor: 0.1\nuse_dft: true\n").config.label_smoothing == 0);
  CHECK(
      load("rl: dpo\nlabel_smoothing_factor: 0.1\n", {{"datasets.0.type", "chatml.default"}}).config.label_smoothing ==
      0);
  CHECK(error_of("label_smoothing_factor: 1.1\n").find("at most 1") != std::string::npos);
}
