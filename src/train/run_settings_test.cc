#include "train/run_settings.h"

#include <doctest/doctest.h>

#include <set>

#include "base/error.h"
#include "config/keys.h"

using namespace spillway;
using namespace spillway::train;

namespace {

// Keys that other settings stand for, that make other rows or tensors, or that change no number.
const std::set<std::string_view> kElsewhere = {
    // What takes effect is there: max_steps, warmup_steps, bf16, gradient_accumulation_steps, sequence_len, adapter.
    "num_epochs", "warmup_ratio", "dtype", "batch_size", "max_length", "use_peft",
    // Tensors of another shape or name, or initial values that the checkpoint's replace.
    "lora_rank_pattern", "peft_layers_to_transform", "peft_layers_pattern", "peft_init_lora_weights",
    "peft.loftq_config.loftq_bits", "lora_target_modules", "lora_target_linear", "lora_modules_to_save",
    "lora_model_dir",
    // Rows have a checksum.
    "excess_length_strategy", "truncation_mode", "min_sample_len", "max_prompt_length", "max_completion_length",
    // No result depends on these.
    "gradient_checkpointing", "selective_checkpointing", "padding_free",
    // By module, where there are any; and a key without an effect.
    "lora_alpha_pattern", "loraplus_lr_embedding",

    // Options of the optimizer are there by their own names, and those of CAME with CAME alone.
    "optim_args", "adam_beta3", "adam_epsilon2",
    // Likewise those of the schedule, which axolotl's keys change into another.
    "lr_scheduler_kwargs", "cosine_min_lr_ratio", "cosine_constant_lr_ratio", "lr_quadratic_warmup",
    // Evaluation only.
    "eval_sample_packing", "eval_batch_size"};

}  // namespace

TEST_CASE("the settings of a video run have the keys of clips, and none of rows of text") {
  Job job;
  job.clips = ClipJob{};
  job.config.video.eval_timesteps = {100, 500};
  const RunSettings settings = settings_of(job, {.total_steps = 10});
  for (const char* key : {"use_ema", "eval_timesteps", "val_set_size", "flow_shift"}) {
    CAPTURE(std::string(key));
    CHECK(settings.contains(key));
  }
  for (const char* key : {"sequence_len", "sample_packing", "packing", "packing_strategy", "group_by_length"}) {
    CAPTURE(std::string(key));
    CHECK_FALSE(settings.contains(key));
  }
}

TEST_CASE("the settings of an online run have the keys that its loss reads, and of another loss none") {
  const auto settings_for = [](config::OnlineKind kind) {
    Job job;
    job.config.online = config::OnlineSettings{.kind = kind};
    job.config.rewards = rewards::RewardSettings{};
    return settings_of(job, {.total_steps = 10});
  };
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
    Job job;
    job.config.online = config::OnlineSettings{.kind = config::OnlineKind::kOnlineDpo, .betas = betas};
    job.config.rewards = rewards::RewardSettings{};
    return settings_of(job, {.total_steps = 10}).at("rl_beta");
  };
  CHECK(beta_of({0.1}) == "0.1");
  CHECK(beta_of({0.4, 0.1}) == "[0.4, 0.1]");
}

TEST_CASE("every key of adapter, batches and optimisation is a setting of the run, or is known to need none") {
  Job job;
  job.config.adapter.emplace();
  job.graph.model.lora.emplace();
  const RunSettings settings = settings_of(job, {.total_steps = 10});
  int sections = 0;
  for (const config::KeySection& section : config::config_sections()) {
    if (section.title != "Adapter" && section.title != "Length and batches" && section.title != "Optimisation")
      continue;
    ++sections;
    for (const config::ConfigKey& key : section.keys) {
      CAPTURE(key.name);
      const bool is_known = settings.contains(std::string(key.name)) || kElsewhere.contains(key.name);
      CHECK((key.status != config::KeyStatus::kSupported || is_known));
    }
  }
  CHECK(sections == 3);
}

TEST_CASE("settings whose tensors are others are refused by their key, and unknown ones are not") {
  const RunSettings before = {
      {"adapter", "lora"}, {"lora_r", "8"}, {"optimizer", "adamw_torch_fused"}, {"learning_rate", "1"}};
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
  CHECK_NOTHROW(check_same_tensors(before, with("optimizer", "paged_adamw_32bit"), ""));
  CHECK_NOTHROW(check_same_tensors(before, with("learning_rate", "2"), ""));
  CHECK_NOTHROW(check_same_tensors({}, before, ""));
}
