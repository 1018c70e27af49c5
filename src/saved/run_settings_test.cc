#include "saved/run_settings.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/keys.h"
#include "job/clips/clip_job.h"
#include "job/online/online_job.h"

using namespace spillway;
using namespace spillway::train;

namespace {

config::OnlineSettings online_settings(config::OnlineKind kind, config::PolicyLoss loss = config::PolicyLoss::kDapo) {
  return {.kind = kind, .loss = loss, .adaptive_entropy = config::AdaptiveEntropy{}, .sync = config::ReferenceSync{}};
}

RunSettings online_run(const config::OnlineSettings& online) {
  Job job;
  job.config.online = online;
  job.kind = std::make_shared<OnlineJob>();
  job.config.rewards = rewards::RewardSettings{};
  return settings_of(job, {.total_steps = 10});
}

// Returns the settings of runs of all kinds, with everything that can be on.
RunSettings settings_of_all_kinds() {
  Job text;
  text.config.adapter.emplace();
  text.config.quantisation = config::QuantisationSettings{.coding = WeightCoding::kNf4};
  text.config.distillation.emplace();
  text.graph.model.lora.emplace();
  RunSettings all = settings_of(text, {.total_steps = 10});
  Job preferences;
  preferences.config.preference.emplace().sync = config::ReferenceSync{};
  all.merge(settings_of(preferences, {.total_steps = 10}));
  Job video;
  video.kind = std::make_shared<ClipJob>();
  video.graph.ema.emplace();
  all.merge(settings_of(video, {.total_steps = 10}));
  using config::OnlineKind;
  for (const OnlineKind kind : {OnlineKind::kRloo, OnlineKind::kOnlineDpo, OnlineKind::kPpo})
    all.merge(online_run(online_settings(kind)));
  for (const auto loss : {config::PolicyLoss::kSapo, config::PolicyLoss::kVespo})
    all.merge(online_run(online_settings(OnlineKind::kGrpo, loss)));
  return all;
}

// By the key's name, a word of it behind a dot, or another name.
bool has_key(const RunSettings& settings, const config::ConfigKey& key) {
  const auto has = [&](std::string_view name) {
    return settings.contains(std::string(name)) || settings.contains(std::string(name.substr(name.rfind('.') + 1)));
  };
  return has(key.name) || std::any_of(key.aliases.begin(), key.aliases.end(), has);
}

}  // namespace

TEST_CASE("the settings of a video run have the keys of clips, and none of rows of text") {
  Job job;
  job.kind = std::make_shared<ClipJob>();
  job.config.video.eval_timesteps = {100, 500};
  const RunSettings settings = settings_of(job, {.total_steps = 10});
  for (const char* key : {"use_ema", "eval_timesteps", "val_set_size", "flow_shift"}) {
    CAPTURE(std::string(key));
    CHECK(settings.contains(key));
  }
  for (const char* key :
       {"sequence_len", "sample_packing", "packing", "packing_strategy", "group_by_length", "loss_type"}) {
    CAPTURE(std::string(key));
    CHECK_FALSE(settings.contains(key));
  }
}

TEST_CASE("the settings of supervised fine-tuning have the loss of text, and no key of preferences") {
  Job job;
  CHECK(settings_of(job, {.total_steps = 10}).at("loss_type") == "nll");
  job.config.text_loss = config::TextLoss::kWeightedByProbability;
  const RunSettings weighted = settings_of(job, {.total_steps = 10});
  CHECK(weighted.at("loss_type") == "dft");
  CHECK(std::none_of(weighted.begin(), weighted.end(), [](const auto& one) { return one.first.starts_with("dpo_"); }));
}

TEST_CASE("the settings of an online run have the keys that its loss reads, and of another loss none") {
  const auto settings_for = [](config::OnlineKind kind) { return online_run({.kind = kind}); };
  const RunSettings grpo = settings_for(config::OnlineKind::kGrpo), rloo = settings_for(config::OnlineKind::kRloo),
                    pairs = settings_for(config::OnlineKind::kOnlineDpo), ppo = settings_for(config::OnlineKind::kPpo);
  CHECK(grpo.at("loss_type") == "dapo");
  CHECK(pairs.at("loss_type") == "sigmoid");
  for (const RunSettings* one : {&rloo, &ppo}) {
    CHECK_FALSE(one->contains("loss_type"));
    CHECK_FALSE(one->contains("scale_rewards"));
  }
  CHECK(rloo.contains("normalize_advantages"));
  CHECK(rloo.contains("epsilon"));
  CHECK(ppo.contains("vf_coef"));
  CHECK_FALSE(ppo.contains("epsilon"));
  CHECK_FALSE(ppo.contains("rl_beta"));
  CHECK_FALSE(grpo.contains("vf_coef"));
}

TEST_CASE("the settings of a run have its beta, and a list of it whole") {
  const auto beta_of = [](const std::vector<double>& betas) {
    return online_run({.kind = config::OnlineKind::kOnlineDpo, .betas = betas}).at("rl_beta");
  };
  CHECK(beta_of({0.1}) == "0.1");
  CHECK(beta_of({0.4, 0.1}) == "[0.4, 0.1]");
}

TEST_CASE("every key whose declaration does not say otherwise is a setting of some run") {
  const RunSettings settings = settings_of_all_kinds();
  int compared = 0;
  for (const config::KeySection& section : config::config_sections()) {
    for (const config::ConfigKey& key : section.keys) {
      if (key.status != config::KeyStatus::kSupported || !key.is_compared) continue;
      CAPTURE(key.name);
      CHECK(has_key(settings, key));
      ++compared;
    }
  }
  CHECK(compared > 100);
}

TEST_CASE(
    "what a loss, an entropy that is followed and a reference that is synchronised read is there where they are") {
  using config::OnlineKind, config::PolicyLoss;
  const RunSettings sapo = online_run(online_settings(OnlineKind::kGrpo, PolicyLoss::kSapo)),
                    dapo = online_run({.kind = OnlineKind::kGrpo});
  CHECK(sapo.at("sapo_temperature_neg") == "1.05");
  CHECK(sapo.at("entropy_target") == "0.2");
  CHECK(sapo.at("ref_model_sync_steps") == "512");
  CHECK(sapo.at("use_adaptive_entropy") == "true");
  CHECK(dapo.at("use_adaptive_entropy") == "false");
  CHECK(dapo.at("sync_ref_model") == "false");
  for (const char* key : {"sapo_temperature_neg", "vespo_k_pos", "entropy_target", "ref_model_sync_steps"}) {
    CAPTURE(std::string(key));
    CHECK_FALSE(dapo.contains(key));
  }
  const RunSettings pairs = online_run({.kind = OnlineKind::kOnlineDpo, .max_length = 48});
  CHECK(pairs.at("max_length") == "48");
}

TEST_CASE("settings whose tensors are others are refused by their key, and unknown ones are not") {
  const RunSettings before = {{"adapter", "lora"},
                              {"lora_r", "8"},
                              {"optimizer", "adamw_torch_fused"},
                              {"bf16", "true"},
                              {"learning_rate", "1"}};
  const auto with = [&](const char* name, const char* value) {
    RunSettings now = before;
    now[name] = value;
    return now;
  };
  CHECK_THROWS_WITH(
      check_same_tensors(before, with("lora_r", "4"), "out/checkpoint-2"),
      "[lora_r] expected 8, with which out/checkpoint-2 was written, got 4; resume with the run's own, or "
      "begin a new run");
  CHECK_THROWS_AS(check_same_tensors(before, with("optimizer", "lion"), ""), InputError);
  CHECK_THROWS_AS(check_same_tensors(before, with("adapter", "none"), ""), InputError);
  CHECK_THROWS_AS(check_same_tensors(before, with("bf16", "false"), ""), InputError);
  CHECK_NOTHROW(check_same_tensors(before, with("optimizer", "paged_adamw_32bit"), ""));
  CHECK_NOTHROW(check_same_tensors(before, with("learning_rate", "2"), ""));
  CHECK_NOTHROW(check_same_tensors({}, before, ""));
}

TEST_CASE("a run keeps the start of its adapter where that has changed the base, and any alpha of a module is known") {
  const auto settings_with = [](const config::LoraInit& init, std::map<std::string, double, std::less<>> alphas) {
    Job job;
    job.config.adapter.emplace().init = init;
    job.graph.model.lora.emplace().alphas = std::move(alphas);
    return settings_of(job, {.total_steps = 10});
  };
  const RunSettings plain = settings_with({}, {}), gaussian = settings_with({config::LoraStart::kGaussian}, {}),
                    pissa = settings_with({config::LoraStart::kPissa}, {}),
                    loftq = settings_with({config::LoraStart::kLoftq}, {});
  CHECK_NOTHROW(check_same_tensors(plain, gaussian, ""));
  CHECK_NOTHROW(check_same_tensors(pissa, pissa, ""));
  CHECK_THROWS_AS(check_same_tensors(plain, pissa, ""), InputError);
  CHECK_THROWS_AS(check_same_tensors(pissa, gaussian, ""), InputError);
  CHECK_THROWS_AS(check_same_tensors(pissa, loftq, ""), InputError);
  RunSettings older = plain;
  older.erase("peft_init_lora_weights");
  CHECK_NOTHROW(check_same_tensors(older, pissa, ""));
  CHECK(plain.at("lora_alpha_pattern").empty());
  CHECK(plain.at("peft.loftq_config.loftq_bits").empty());
  CHECK(settings_with({}, {{"q_proj", 4}, {"v_proj", 2.5}}).at("lora_alpha_pattern") == "q_proj: 4, v_proj: 2.5");
}

TEST_CASE("the bits of LoftQ's base are a setting of what a run computes") {
  Job job;
  job.config.adapter.emplace().loftq_bits = 8;
  job.graph.model.lora.emplace();
  CHECK(forward_settings_of(job).at("peft.loftq_config.loftq_bits") == "8");
}

TEST_CASE("a checkpoint that does not name its optimizer goes on with any") {
  const RunSettings named = {{"optimizer", "schedule_free_adamw"}};
  const auto before = [](const char* optimizer) {
    return settings_from_json({{"optimizer", optimizer}, {"seed", "42"}});
  };
  CHECK(before("") == RunSettings{{"seed", "42"}});
  CHECK_NOTHROW(check_same_tensors(before(""), named, ""));
  CHECK_THROWS_AS(check_same_tensors(before("sgd"), named, ""), InputError);
}
