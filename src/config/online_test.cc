#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "config/load.h"
#include "io/file.h"

using namespace spillway;
using namespace spillway::config;

namespace {

LoadedConfig load_online(const std::string& text, const std::string& rl = "rl: grpo\n") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "c.yml";
  write_file(file, "base_model: m\nlearning_rate: 1e-4\ndatasets: [{path: d.jsonl}]\n" + rl + text);
  return load_config_file(file.string(), {}, ConfigUse::kTrain);
}

OnlineSettings online(const std::string& text, const std::string& rl = "rl: grpo\n") {
  return *load_online("reward_funcs: [get_repetition_penalty_reward]\n" + text, rl).config.online;
}

std::string error(const std::string& text, const std::string& rl = "rl: grpo\n") {
  try {
    (void)online(text, rl);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("keys of online training stand in the section trl or at top level, with TRL's defaults") {
  const OnlineSettings plain = online("micro_batch_size: 8\n");
  CHECK(plain.num_generations == 8);
  CHECK(plain.completions.max_tokens == 512);
  CHECK(plain.beta() == 0);
  CHECK(plain.loss == PolicyLoss::kDapo);
  CHECK(plain.epsilon_high == 0.2);
  const OnlineSettings section = online(
      "micro_batch_size: 4\ntrl:\n  num_generations: 2\n  max_completion_length: 9\n  beta: 0.1\n  loss_type: grpo\n"
      "  generation_kwargs: {top_k: 5, min_new_tokens: 2}\n  epsilon: 0.3\n  scale_rewards: false\n");
  CHECK(section.num_generations == 2);
  CHECK(section.completions.max_tokens == 9);
  CHECK(section.completions.top_k == 5);
  CHECK(section.completions.min_tokens == 2);
  CHECK(section.beta() == 0.1);
  CHECK(section.loss == PolicyLoss::kGrpo);
  CHECK(section.epsilon_high == 0.3);
  CHECK(section.scale_rewards == RewardScale::kNone);
  CHECK(online("micro_batch_size: 2\n", "rl: rloo\n").num_generations == 2);
  CHECK(online("micro_batch_size: 2\n", "rl: rloo\n").beta() == 0.05);
  CHECK(online("micro_batch_size: 8\n", "rl: gdpo\n").aggregation == RewardAggregation::kNormalizeThenSum);
}

TEST_CASE("num_generations_eval is of evaluations alone, and belongs to groups") {
  const OnlineSettings settings = online("micro_batch_size: 8\nnum_generations_eval: 3\n");
  CHECK(settings.num_generations_eval == 3);
  CHECK(settings.num_generations == 8);
  CHECK_FALSE(online("micro_batch_size: 8\n").num_generations_eval);
  CHECK(error("num_generations_eval: 0\n").find("expected an integer of at least 1") != std::string::npos);
  const LoadedConfig pairs =
      load_online("reward_funcs: [get_repetition_penalty_reward]\nnum_generations_eval: 3\n", "rl: online_dpo\n");
  CHECK(pairs.ignored == std::vector<std::string>{"num_generations_eval"});
}

TEST_CASE("generation_kwargs says at top level what it says in the section trl") {
  const std::string kwargs = "generation_kwargs:\n  max_new_tokens: 3\n  temperature: 0.5\n  min_new_tokens: 2\n";
  const OnlineSettings top = online("micro_batch_size: 8\n" + kwargs);
  CHECK(top.completions.max_tokens == 3);
  CHECK(top.completions.temperature == 0.5);
  CHECK(top.completions.min_tokens == 2);
  CHECK(error("micro_batch_size: 8\nmax_completion_length: 8\n" + kwargs).find("are the same key, got '8' and '3'") !=
        std::string::npos);
  CHECK(error("micro_batch_size: 8\ngeneration_kwargs: {tmperature: 0.5}\n")
            .find("did you mean generation_kwargs.temperature?") != std::string::npos);
  CHECK(error("micro_batch_size: 8\ngeneration_kwargs: {num_beams: 4}\n").find("expected a known key") !=
        std::string::npos);
}

TEST_CASE("prompts are not cut, and max_prompt_length is listed as ignored") {
  const LoadedConfig loaded =
      load_online("reward_funcs: [get_repetition_penalty_reward]\nmicro_batch_size: 8\nmax_prompt_length: 3\n");
  CHECK(loaded.ignored == std::vector<std::string>{"max_prompt_length"});
}

TEST_CASE("a round is whole groups and whole micro-batches") {
  CHECK(online("micro_batch_size: 4\ngradient_accumulation_steps: 4\n").steps_per_generation == 4);
  CHECK(online("micro_batch_size: 4\ngeneration_batch_size: 24\n").steps_per_generation == 6);
  const struct {
    const char *text, *expected;
  } cases[] = {
      {"micro_batch_size: 4\nnum_generations: 1\n", "expected at least 2, got 1"},
      {"micro_batch_size: 3\n", "expected a round of 3 completions"},
      {"micro_batch_size: 4\ngeneration_batch_size: 6\n", "expected a multiple of micro_batch_size, 4, got 6"},
      {"micro_batch_size: 8\ngeneration_batch_size: 8\nsteps_per_generation: 1\n",
       "expected generation_batch_size or steps_per_generation, got both"},
      {"micro_batch_size: 8\nloss_type: gpro\n", "did you mean grpo?"},
      {"micro_batch_size: 8\nsync_ref_model: true\n", "expected a reference to follow the policy, got beta 0"},
      {"micro_batch_size: 8\nsample_packing: true\n", "expected false beside rl"},
      {"micro_batch_size: 8\nreward_weights: [1, 2]\n", "expected 1 weights"},
      {"micro_batch_size: 8\nnum_generations: 4\ntrl: {num_generations: 8}\n", "num_generations"},
  };
  for (const auto& one : cases) {
    CAPTURE(one.text);
    CHECK(error(one.text).find(one.expected) != std::string::npos);
  }
}

TEST_CASE("online DPO has TRL's defaults, and takes no keys of rounds") {
  const OnlineSettings pairs = online("micro_batch_size: 3\n", "rl: online_dpo\n");
  CHECK(pairs.kind == OnlineKind::kOnlineDpo);
  CHECK(pairs.completions.max_tokens == 64);
  CHECK(pairs.completions.temperature == 0.9);
  CHECK(pairs.beta() == 0.1);
  CHECK(pairs.max_length == 512);
  CHECK(pairs.pair_loss == OnlinePairLoss::kSigmoid);
  CHECK(pairs.num_generations == 2);
  CHECK(pairs.round_size(3) == 6);
  CHECK(online("loss_type: ipo\ntrl: {max_new_tokens: 9, max_length: 16}\n", "rl: online_dpo\n").max_length == 16);
  CHECK(error("max_length: 64\n", "rl: online_dpo\n").find("expected more tokens than max_new_tokens, 64") !=
        std::string::npos);
  CHECK(error("loss_type: dapo\n", "rl: online_dpo\n").find("expected sigmoid or ipo, got 'dapo'") !=
        std::string::npos);
  CHECK(error("beta: 0\n", "rl: online_dpo\n").find("expected a number above 0") != std::string::npos);
}

TEST_CASE("beta of online DPO may be a list by epoch, whose last one lasts; other objectives have one number") {
  const OnlineSettings pairs = online("micro_batch_size: 1\ntrl: {beta: [0.4, 0.2]}\n", "rl: online_dpo\n");
  CHECK(pairs.beta(0) == 0.4);
  CHECK(pairs.beta(1) == 0.2);
  CHECK(pairs.beta(7) == 0.2);
  CHECK(online("micro_batch_size: 1\nbeta: [0.3]\n", "rl: online_dpo\n").betas == std::vector<double>{0.3});
  CHECK(online("micro_batch_size: 8\nbeta: [0.3]\n").beta() == 0.3);
  CHECK(error("beta: [0.4, 0]\n", "rl: online_dpo\n").find("expected numbers above 0, got 0") != std::string::npos);
  CHECK(error("beta: []\n", "rl: online_dpo\n").find("got none") != std::string::npos);
  CHECK(error("beta: [0.4, x]\n", "rl: online_dpo\n").find("beta.1] expected a number") != std::string::npos);
  for (const char* rl : {"rl: grpo\n", "rl: rloo\n"}) {
    CAPTURE(rl);
    CHECK(error("micro_batch_size: 8\nbeta: [0.4, 0.2]\n", rl).find("expected one number, got 2; only online_dpo") !=
          std::string::npos);
  }
}

TEST_CASE("PPO has TRL 1.10's defaults; a round is all micro-batches of its updates, and a step") {
  const OnlineSettings plain = online("value_model_path: ./v\nmicro_batch_size: 2\n", "rl: ppo\n");
  CHECK(plain.kind == OnlineKind::kPpo);
  CHECK(plain.completions.max_tokens == 53);
  CHECK(plain.completions.temperature == 0.7);
  CHECK(plain.num_generations == 1);
  CHECK(plain.updates_per_step() == 4);
  CHECK(plain.ppo.advantages.kl_coef == 0.05);
  CHECK(plain.ppo.advantages.kl_estimator == KlEstimator::kK1);
  CHECK(plain.ppo.value_model == "./v");
  const OnlineSettings section = online(
      "micro_batch_size: 2\ngradient_accumulation_steps: 3\nreward_model_path: ./r\ntrl:\n  response_length: 9\n"
      "  num_mini_batches: 4\n  num_ppo_epochs: 2\n  kl_estimator: k3\n  cliprange_value: 0.1\n  gamma: 0.9\n",
      "rl: ppo\n");
  CHECK(section.completions.max_tokens == 9);
  CHECK(section.round_size(2) == 24);
  CHECK(section.updates_per_step() == 8);
  CHECK(section.ppo.advantages.kl_estimator == KlEstimator::kK3);
  CHECK(section.ppo.cliprange_value == 0.1);
  CHECK(section.ppo.value_model == "./r");
  CHECK(error("micro_batch_size: 2\n", "rl: ppo\n").find("expected the folder of a value model") != std::string::npos);
  CHECK(error("value_model_path: ./v\nkl_estimator: k2\n", "rl: ppo\n").find("expected k1 or k3, got 'k2'") !=
        std::string::npos);
}

TEST_CASE("the reward model of PPO stands before reward functions, and PPO never clips gradients") {
  const Config config =
      load_online("reward_model_path: ./r\nreward_funcs: [get_repetition_penalty_reward]\nmax_grad_norm: 2\n",
                  "rl: ppo\n")
          .config;
  REQUIRE(config.rewards->functions.size() == 2);
  CHECK(config.rewards->functions[0].folder == "./r");
  CHECK(config.rewards->functions[0].reads_ids);
  CHECK(config.rewards->weights.size() == 2);
  CHECK(config.optimizer.max_grad_norm == 0);
  CHECK(load_online("reward_model_path: ./r\n", "rl: ppo\n").config.rewards->functions.size() == 1);
}

TEST_CASE("online training without reward functions, and kinds that are to come, are refused") {
  const auto message = [](const std::string& text, const std::string& rl) {
    try {
      (void)load_online(text, rl);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(message("micro_batch_size: 8\n", "rl: grpo\n").find("expected reward functions, got none") !=
        std::string::npos);
  for (const char* name : {"xpo", "nash_md"}) {
    CAPTURE(name);
    CHECK(message("", std::string("rl: ") + name + "\n").find("not yet supported") != std::string::npos);
  }
}

TEST_CASE("the numbers of sapo and vespo are ignored, and said to be, beside any other loss") {
  const auto ignored = [](const std::string& key, const std::string& rl) {
    return load_online("reward_funcs: [m.f]\nmicro_batch_size: 8\n" + key + ": 2\n", rl).ignored.size();
  };
  for (const char* key : {"sapo_temperature_pos", "sapo_temperature_neg", "vespo_k_pos", "vespo_lambda_pos",
                          "vespo_k_neg", "vespo_lambda_neg"}) {
    CAPTURE(key);
    CHECK(ignored(key, key[0] == 's' ? "rl: grpo\nloss_type: sapo\n" : "rl: grpo\nloss_type: vespo\n") == 0);
    CHECK(ignored(key, key[0] == 's' ? "rl: grpo\nloss_type: vespo\n" : "rl: grpo\nloss_type: sapo\n") == 1);
    CHECK(ignored(key, "rl: grpo\n") == 1);
    CHECK(ignored(key, "rl: rloo\n") == 1);
  }
}

TEST_CASE("an order by length is passed over where rows are prompts, and said to be") {
  const auto ignores = [](const std::string& key, const std::string& value) {
    const std::string keys = "reward_funcs: [m.f]\nmicro_batch_size: 8\n" + key + ": " + value + "\n";
    const std::vector<std::string> ignored = load_online(keys).ignored;
    return std::find(ignored.begin(), ignored.end(), key) != ignored.end();
  };
  CHECK(ignores("group_by_length", "true"));
  CHECK(ignores("train_sampling_strategy", "group_by_length"));
  CHECK_FALSE(ignores("group_by_length", "false"));
}

TEST_CASE("policies trained on their own completions have dropout unless disable_dropout says otherwise") {
  const std::string lora = "reward_funcs: [m.f]\nmicro_batch_size: 8\nadapter: lora\nlora_r: 4\nlora_dropout: 0.1\n";
  const auto dropout = [&](const std::string& rl, const std::string& more) {
    return load_online(lora + more, rl).config.adapter->dropout;
  };
  for (const char* rl : {"rl: grpo\n", "rl: gdpo\n", "rl: rloo\n"}) {
    CAPTURE(rl);
    CHECK(dropout(rl, "") == 0.1);
    CHECK(dropout(rl, "disable_dropout: true\n") == 0);
    CHECK(dropout(rl, "disable_dropout: false\n") == 0.1);
  }
  CHECK(dropout("rl: online_dpo\n", "") == 0);
  CHECK(dropout("rl: online_dpo\n", "disable_dropout: false\n") == 0.1);
}
