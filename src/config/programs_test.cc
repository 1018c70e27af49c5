// Configs of other programs: which program's, what they leave out, and words that only they have.
#include "config/programs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/config_error.h"

using namespace spillway;
using namespace spillway::config;
using spillway::testing::error_of;
using spillway::testing::load;

namespace {

const std::string kTrlConfig = "model_name_or_path: ./m\nlearning_rate: 1e-4\ndataset_name: a.jsonl\n";
const std::string kFastVideoConfig = "pretrained_model_name_or_path: ./m\nlearning_rate: 1e-4\ndata_path: clips\n";

// Rows without a type, in a config of ours.
const std::string kOurConfig = "base_model: ./m\nlearning_rate: 1e-4\ndatasets: [{path: a.jsonl}]\n";

LoadedConfig load_program(const std::string& text) { return load_config(text, "c.yml", {}, ConfigUse::kTrain); }

std::string program_error(const std::string& text) {
  return first_problem(check_config(text, "c.yml", {}, ConfigUse::kTrain));
}

bool notes_that(const LoadedConfig& loaded, std::string_view note) {
  return std::find(loaded.notes.begin(), loaded.notes.end(), note) != loaded.notes.end();
}

bool ignores_key(const LoadedConfig& loaded, const std::string& key) {
  return std::find(loaded.ignored.begin(), loaded.ignored.end(), key) != loaded.ignored.end();
}

}  // namespace

TEST_CASE("what a FastVideo config leaves out has the default of its command line") {
  const LoadedConfig left_out = load_program(kFastVideoConfig + "train_batch_size: 2\nmax_train_steps: 9\n");
  CHECK(left_out.config.schedule.lr_scheduler.name == "constant");
  CHECK(left_out.config.optimizer.max_grad_norm == 0);
  CHECK(notes_that(left_out, "left out, so as FastVideo has it: lr_scheduler constant, max_grad_norm 0"));
  const LoadedConfig said =
      load_program(kFastVideoConfig + "lr_scheduler: cosine\nmax_grad_norm: 1.0\nuse_ema: true\n");
  CHECK(said.config.schedule.lr_scheduler.name == "cosine");
  CHECK(said.config.optimizer.max_grad_norm == 1);
  CHECK(said.notes.empty());
  CHECK(said.config.video.ema->decay == 0.9999);  // ours; 0.999 on FastVideo's command line
  // Rows that stand below `datasets` are in a config of ours, whatever the number of steps is called.
  CHECK(load("max_train_steps: 9\ntrain_batch_size: 2\n").config.schedule.lr_scheduler.name == "cosine");
}

TEST_CASE("the learning rate and length that a TRL config leaves out are those of its trainer") {
  const auto left_out = [](const std::string& keys) {
    const LoadedConfig loaded = load_program("model_name_or_path: ./m\ndataset_name: a.jsonl\n" + keys);
    const std::string note = *std::find_if(loaded.notes.begin(), loaded.notes.end(), [](const std::string& one) {
      return one.starts_with("left out, so as TRL has it: ");
    });
    return std::pair(loaded.config.schedule.learning_rate, note.find("max_length 512") != std::string::npos);
  };
  CHECK(left_out("") == std::pair(2e-5, false));
  CHECK(left_out("rl: dpo\n") == std::pair(1e-6, false));
  CHECK(left_out("reward_model: true\n") == std::pair(1e-4, false));
  CHECK(left_out("process_reward_model: true\n") == std::pair(1e-5, false));
  CHECK(left_out("rl: online_dpo\nreward_funcs: [get_repetition_penalty_reward]\n") == std::pair(5e-7, true));
}

TEST_CASE("weight beside val_set_size warns that copies of a row may be on both sides") {
  const auto warns = [](const std::string& text) {
    const LoadedConfig loaded = load_program("base_model: ./m\nlearning_rate: 1e-4\n" + text);
    return std::any_of(loaded.notes.begin(), loaded.notes.end(),
                       [](const std::string& note) { return note.starts_with("warning: weight repeats rows"); });
  };
  CHECK(warns("datasets: [{path: a.jsonl, weight: 2}]\nval_set_size: 0.1\n"));
  CHECK_FALSE(warns("datasets: [{path: a.jsonl, weight: 2}]\n"));
  CHECK_FALSE(warns("datasets: [{path: a.jsonl, weight: 0.5}]\nval_set_size: 0.1\n"));
}

TEST_CASE("FastVideo's mixed_precision is bf16") {
  CHECK(load_program(kFastVideoConfig + "mixed_precision: bf16\n").config.model.bf16);
  CHECK_FALSE(load_program(kFastVideoConfig + "mixed_precision: \"no\"\n").config.model.bf16);
  const LoadedConfig f16 = load_program(kFastVideoConfig + "mixed_precision: fp16\n");
  CHECK(f16.config.model.bf16);
  CHECK_FALSE(f16.config.model.written_dtype);
  CHECK(f16.notes.front() == "mixed_precision: f16 arithmetic is not computed; bf16 is");
  CHECK(program_error(kFastVideoConfig + "mixed_precision: bf16\nbf16: false\n") ==
        "[c.yml:4: mixed_precision] expected the same as bf16, false, got bf16; remove one");
}

TEST_CASE("FastVideo's keys of a schedule are options of the schedule that reads them there") {
  const auto schedule_of = [](const std::string& keys) {
    return load_program(kFastVideoConfig + keys).config.schedule;
  };
  CHECK(schedule_of("lr_scheduler: cosine_with_restarts\nlr_num_cycles: 3\n").options.number("num_cycles") == 3);
  CHECK(schedule_of("lr_scheduler: polynomial\nlr_power: 2.0\n").options.number("power") == 2);
  // Its cosine_with_min_lr is another one than transformers'.
  const ScheduleSettings floor = schedule_of("lr_scheduler: cosine_with_min_lr\nmin_lr_ratio: 0.1\n");
  CHECK(floor.lr_scheduler.name == "cosine_with_floor");
  CHECK(floor.options.number("min_lr_rate") == 0.1);
  const LoadedConfig left_out = load_program(kFastVideoConfig + "lr_scheduler: cosine_with_min_lr\n");
  CHECK(left_out.config.schedule.options.number("min_lr_rate") == 0.5);
  CHECK(notes_that(left_out, "left out, so as FastVideo has it: min_lr_ratio 0.5"));
  CHECK(schedule_of("lr_scheduler: cosine_with_min_lr\nlr_scheduler_kwargs: {min_lr: 1e-6}\n").lr_scheduler.name ==
        "cosine_with_min_lr");
  CHECK(schedule_of("lr_scheduler: cosine_with_min_lr\nmin_lr_ratio: 0\n").options.number("min_lr_rate") == 0);
}

TEST_CASE("FastVideo's keys of another schedule are ignored, and what is said twice is refused") {
  const LoadedConfig others =
      load_program(kFastVideoConfig + "lr_num_cycles: 0\nlr_power: 0.0\nmin_lr_ratio: 0.5\nallow_tf32: true\n");
  for (const char* key : {"lr_num_cycles", "lr_power", "min_lr_ratio", "allow_tf32"}) {
    CAPTURE(std::string(key));
    CHECK(ignores_key(others, key));
  }
  CHECK(program_error(kFastVideoConfig + "lr_scheduler: polynomial\nlr_power: 2\nlr_scheduler_kwargs: {power: 3}\n") ==
        "[c.yml:6: lr_scheduler_kwargs.power] expected lr_power or power, which are the same, got both; remove one");
  CHECK(program_error(kFastVideoConfig +
                      "lr_scheduler: cosine_with_min_lr\nmin_lr_ratio: 0.1\nlr_scheduler_kwargs: {min_lr: 0}\n") ==
        "[c.yml:6: lr_scheduler_kwargs.min_lr] expected no options beside min_lr_ratio, got 'min_lr'; remove it, or "
        "remove min_lr_ratio and write lr_scheduler: cosine_with_min_lr");
  CHECK(
      program_error(kFastVideoConfig + "min_lr_ratio: 1.5\n").starts_with("[c.yml:4: min_lr_ratio] expected a number"));
}

TEST_CASE("keys of TRL's launcher and of FastVideo's offloading are known by name") {
  const LoadedConfig trl = load_program(kTrlConfig + "accelerate_config: zero2\nnum_processes: 1\n");
  CHECK(ignores_key(trl, "accelerate_config"));
  CHECK_FALSE(ignores_key(trl, "num_processes"));
  CHECK(load_program(kTrlConfig + "num_processes: 4\n").config.ranks.count == 4);
  const LoadedConfig fastvideo =
      load_program(kFastVideoConfig + "dit_cpu_offload: false\ndit_layerwise_offload: true\nvae_cpu_offload: true\n");
  for (const char* key : {"dit_cpu_offload", "dit_layerwise_offload", "vae_cpu_offload"})
    CHECK(ignores_key(fastvideo, key));
}

TEST_CASE("keys of FastVideo's scripts that its fine-tuning does not read are ignored by name") {
  const LoadedConfig loaded =
      load_program(kFastVideoConfig +
                   "multi_phased_distill_schedule: \"4000-1\"\nnot_apply_cfg_solver: true\nnum_euler_timesteps: 50\n"
                   "checkpointing_steps: 100\n");
  for (const char* key :
       {"multi_phased_distill_schedule", "not_apply_cfg_solver", "num_euler_timesteps", "checkpointing_steps"}) {
    CAPTURE(std::string(key));
    CHECK(ignores_key(loaded, key));
  }
}

TEST_CASE("the sections of FastVideo's newer configs are refused in one line that says which names are read") {
  const std::string nested = "model_path: ./m\ntraining:\n  data:\n    data_path: x\n    train_batch_size: 4\n";
  CHECK(program_error(nested) ==
        "[c.yml:2: training] expected no value or false, got a mapping; FastVideo's flat names are read, not the "
        "sections of its newer configs: write data_path, train_batch_size, max_train_steps, learning_rate and so on at "
        "top level (docs/video.md)");
  CHECK(
      program_error("engine:\n  precision: {dit: fp32}\n" + nested).starts_with("[c.yml:1: engine] expected no value"));
}

TEST_CASE("the section trl has axolotl's defaults of the reference, a config without it TRL's") {
  const auto sync = [](const std::string& keys) {
    return load_program(kOurConfig + "rl: dpo\n" + keys).config.preference->sync;
  };
  const auto section = sync("trl:\n  sync_ref_model: true\n");
  REQUIRE(section);
  CHECK(section->mixup_alpha == 0.9);
  CHECK(section->sync_steps == 64);
  const auto said = sync("trl:\n  sync_ref_model: true\n  ref_model_mixup_alpha: 0.5\n  ref_model_sync_steps: 7\n");
  CHECK(said->mixup_alpha == 0.5);
  CHECK(said->sync_steps == 7);
  const auto top = sync("sync_ref_model: true\n");
  CHECK(top->mixup_alpha == 0.6);
  CHECK(top->sync_steps == 512);
  const auto trls = load_program(kTrlConfig + "rl: dpo\nsync_ref_model: true\n").config.preference->sync;
  CHECK(trls->mixup_alpha == 0.6);
  CHECK(trls->sync_steps == 512);
}

TEST_CASE("a TRL config that says by its keys that it is no plain text has to say rl") {
  CHECK(program_error(kTrlConfig + "loss_type: [sigmoid]\n") ==
        "[c.yml:4: loss_type] expected nll, chunked_nll or dft without rl, got 'sigmoid'; write rl: dpo or rl: cpo");
  CHECK(program_error(kTrlConfig + "loss_type: apo_zero_unpaired\n").ends_with("; write rl: kto"));
  CHECK(program_error(kTrlConfig + "loss_type: dapo\n").ends_with("; write rl: grpo"));
  CHECK(program_error(kTrlConfig + "loss_type: dft\n").empty());
  CHECK(program_error(kTrlConfig + "loss_type: chunked_nll\n").empty());
  for (const char* line : {"reward_funcs: [think_format_reward]\n", "num_generations: 4\n"}) {
    CHECK(
        program_error(kTrlConfig + line)
            .ends_with(
                "] expected rl beside it, which says what TRL says by its script, got none; write rl: grpo (or rloo)"));
  }
  CHECK(program_error(kTrlConfig + "beta: 0.1\n").ends_with("; write rl: dpo (or kto, grpo, ...)"));
  CHECK(program_error(kTrlConfig + "rl: dpo\nbeta: 0.1\nloss_type: [sigmoid]\n").empty());
  // In axolotl a section that nothing asks for means nothing.
  CHECK(error_of("trl:\n  num_generations: 4\n").empty());
}

TEST_CASE("skip_prepare_dataset is what online training does anyway, and nothing else does") {
  const std::string online = "rl: grpo\nmicro_batch_size: 8\ntrl:\n  reward_funcs: [think_format_reward]\n";
  CHECK(ignores_key(load_program(kOurConfig + online + "skip_prepare_dataset: true\n"), "skip_prepare_dataset"));
  CHECK(error_of("skip_prepare_dataset: true\n") ==
        "[c.yml:6: skip_prepare_dataset] expected no value or false, got true; rows in another form are not yet "
        "supported");
  CHECK(program_error(kOurConfig + "rl: dpo\nskip_prepare_dataset: true\n").find("not yet supported") !=
        std::string::npos);
  CHECK(error_of("skip_prepare_dataset: false\n").empty());
}

TEST_CASE("TRL's reward model stands before its reward functions and reads text") {
  const std::string keys = "rl: grpo\nper_device_train_batch_size: 8\nreward_model_name_or_path: ./r\n";
  const Config config = load_program(kTrlConfig + keys + "reward_funcs: [think_format_reward]\n").config;
  REQUIRE(config.rewards->functions.size() == 2);
  CHECK(config.rewards->functions[0].folder == "./r");
  CHECK_FALSE(config.rewards->functions[0].reads_ids);
  CHECK(config.rewards->weights.size() == 2);
  CHECK(load_program(kTrlConfig + keys).config.rewards->functions.size() == 1);
}

TEST_CASE("the environment that TRL's config sets is ignored by name") {
  CHECK(ignores_key(load_program(kTrlConfig + "env:\n  CUDA_VISIBLE_DEVICES: '0'\n"), "env"));
}
