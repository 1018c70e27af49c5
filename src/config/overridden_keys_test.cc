// Two keys that set the same value: refused where a file has both and they differ; the command line overrides.
#include "config/overridden_keys.h"

#include <doctest/doctest.h>

#include <string>
#include <tuple>

#include "tests/support/config_error.h"

using namespace spillway;
using namespace spillway::config;
using spillway::testing::error_of;
using spillway::testing::load;

namespace {

Config load_over(std::string_view file, std::vector<ConfigOverride> overrides) {
  return load(file, std::move(overrides)).config;
}

const std::string kTrlRows = "model_name_or_path: m\ndataset_name: a.jsonl\n";

LoadedConfig check_trl(const std::string& more) {
  return check_config(kTrlRows + more, "c.yml", {}, ConfigUse::kTrain);
}

}  // namespace

TEST_CASE("a key of the command line wins over the file's other words for it") {
  const std::string rows = "val_set_size: 0.1\n";
  CHECK(load_over(rows + "evals_per_epoch: 4\n", {{"eval_steps", "10"}}).output.evaluate.steps(100, 25) == 10);
  CHECK(load_over(rows + "eval_steps: 10\n", {{"evals-per-epoch", "5"}}).output.evaluate.steps(100, 25) == 5);
  CHECK(load_over(rows + "eval_strategy: epoch\n", {{"eval_steps", "10"}}).output.evaluate.steps(100, 25) == 10);
  CHECK(load_over(rows + "eval_steps: 10\n", {{"eval_strategy", "epoch"}}).output.evaluate.steps(100, 25) == 25);
  CHECK(load_over("save_steps: 7\n", {{"save_strategy", "no"}}).output.save.kind == Interval::Kind::kNever);
  CHECK(load_over("save_strategy: steps\nsave_steps: 7\n", {{"save_steps", "9"}}).output.save.steps(100, 25) == 9);
  CHECK(load_over("saves_per_epoch: 1\n", {{"save_steps", "9"}}).output.save.steps(100, 25) == 9);
  CHECK(load_over("warmup_ratio: 0.5\n", {{"warmup_steps", "3"}}).schedule.warmup.of(100) == 3);
  CHECK(load_over("gradient_accumulation_steps: 2\nmicro_batch_size: 2\n", {{"batch_size", "8"}})
            .batches.gradient_accumulation_steps == 4);
  CHECK_FALSE(load_over("dtype: bfloat16\n", {{"bf16", "false"}}).model.bf16);
  CHECK(load_over("special_tokens: {pad_token: a}\n", {{"pad_token", "b"}}).tokenizer.special_tokens.pad_token == "b");
  CHECK(load_over("sample_packing: true\n", {{"packing", "true"}}).data.batches.packing == PackingStrategy::kBfd);
  CHECK(load_over("test_datasets: [{path: t}]\n", {{"val_set_size", "3"}}).data.val_set_size == 3);
  CHECK_FALSE(load_over("adapter: lora\nlora_r: 4\n", {{"use_peft", "false"}}).adapter);
  CHECK_FALSE(load_over("report_to: tensorboard\n", {{"use_tensorboard", "false"}}).output.tensorboard);
  CHECK(load_over("chat_template: chatml\n", {{"chat_template_jinja", "x"}}).data.rows.chat_template_jinja == "x");
  CHECK(load_over("gpu_memory_limit: 8\n", {{"memory.device", "4GiB"}}).memory.device.size == "4GiB");
  const MemorySettings memory = load_over("max_memory: {0: 8GiB, cpu: 9GiB}\n", {{"memory.device", "4GiB"}}).memory;
  CHECK(memory.device.size == "4GiB");
  CHECK(memory.host.size == "9GiB");
}

TEST_CASE("a length on the command line is that of the file's key, whose rules stay") {
  const Config ours = load_over("sequence_len: 256\n", {{"max_length", "128"}});
  CHECK(ours.batches.sequence_len == 128);
  CHECK(ours.data.rows.length_rules == LengthRules::kAxolotl);
  const Config trls = load_over("max_length: 256\n", {{"sequence_len", "128"}});
  CHECK(trls.batches.sequence_len == 128);
  CHECK(trls.data.rows.length_rules == LengthRules::kTrl);
}

TEST_CASE("both words on the command line have to agree, as in a file") {
  CHECK(error_of("", {{"warmup_steps", "3"}, {"warmup_ratio", "0.1"}}).find("got both") != std::string::npos);
  CHECK(error_of("", {{"sequence_len", "64"}, {"max_length", "32"}}).find("expected the length") != std::string::npos);
}

TEST_CASE("two keys of one question that say different things are refused in a file") {
  const std::tuple<const char*, const char*, const char*> kPairs[] = {
      {"eval_steps: 3\nevals_per_epoch: 2\nval_set_size: 0.1", "evals_per_epoch", "eval_steps"},
      {"save_steps: 3\nsaves_per_epoch: 2", "saves_per_epoch", "save_steps"},
      {"warmup_steps: 3\nwarmup_ratio: 0.1", "warmup_ratio", "warmup_steps"},
      {"sequence_len: 32\nmax_length: 64", "max_length", "sequence_len"},
      {"sample_packing: true\npacking: true", "packing", "sample_packing"},
      {"eos_token: a\nspecial_tokens: {eos_token: b}", "eos_token", "special_tokens.eos_token"},
      {"dtype: bfloat16\nbf16: false", "dtype", "bf16"},
      {"use_peft: false\nadapter: lora\nlora_r: 4", "use_peft", "adapter"},
      {"chat_template: chatml\nchat_template_jinja: x", "chat_template", "jinja"},
      {"curriculum_sampling: true\ntrain_sampling_strategy: random", "train_sampling_strategy", "curriculum_sampling"},
      {"group_by_length: false\ntrain_sampling_strategy: group_by_length", "train_sampling_strategy",
       "group_by_length"},
      {"report_to: none\nuse_tensorboard: true", "report_to", "use_tensorboard"},
      {"report_to: [wandb]\nuse_wandb: false", "report_to", "use_wandb"},
      {"auto_resume_from_checkpoints: false\nresume_from_checkpoint: true", "resume_from_checkpoint",
       "auto_resume_from_checkpoints"},
      {"train_on_inputs: true\ncompletion_only_loss: true", "completion_only_loss", "train_on_inputs"},
      {"train_on_inputs: true\nassistant_only_loss: true", "assistant_only_loss", "train_on_inputs"},
      {"micro_batch_size: 2\nper_gpu_train_batch_size: 3", "per_gpu_train_batch_size", "micro_batch_size"},
      {"gpu_memory_limit: 8\nmemory: {device: 4GiB}", "gpu_memory_limit", "memory.device"},
      {"gradient_accumulation_steps: 2\nbatch_size: 4", "batch_size", "gradient_accumulation_steps"},
      {"dtype: float32\nmodel_init_kwargs: {torch_dtype: bfloat16}", "model_init_kwargs.torch_dtype", "dtype"}};
  for (const auto& [lines, at, other] : kPairs) {
    CAPTURE(std::string(lines));
    const std::string error = error_of(fmt::format("{}\n", lines));
    CHECK(error.find(fmt::format(": {}]", at)) != std::string::npos);
    CHECK(error.find(other) != std::string::npos);
  }
  CHECK(error_of("curriculum_sampling: true\ntrain_sampling_strategy: sequential\n").empty());
  CHECK(error_of("train_on_inputs: false\ncompletion_only_loss: true\n").empty());
  CHECK(error_of("report_to: wandb\nuse_tensorboard: true\n").empty());
  CHECK(error_of("adam_beta1: 0.9\nbetas: 0.8,0.99\n").find("expected 0.9 of adam_beta1 in it, got 0.8") !=
        std::string::npos);
}

TEST_CASE("TRL's max_length: null cuts no row, and is refused beside packing") {
  CHECK(first_problem(check_trl("packing: true\nmax_length: null\n")) ==
        "[c.yml:4: max_length] expected a number beside packing, as in TRL, got nothing; write the length of a packed "
        "line");
  const LoadedConfig loaded = check_trl("max_length: null\n");
  CHECK(first_problem(loaded).empty());
  CHECK(loaded.config.data.rows.length_rules == LengthRules::kTrl);
  CHECK(loaded.config.data.rows.excess_length_strategy == ExcessLength::kRaise);
  CHECK(check_trl("").config.data.rows.excess_length_strategy == ExcessLength::kTruncate);
}

TEST_CASE("ranks that have rows of their own are micro-batches of one rank") {
  const LoadedConfig loaded = load("dp_shard_size: 4\ndp_replicate_size: 2\ngradient_accumulation_steps: 3\n");
  CHECK(loaded.config.batches.gradient_accumulation_steps == 24);
  CHECK(loaded.notes ==
        std::vector<std::string>{"dp_shard_size x dp_replicate_size: the micro-batches of 8 ranks make a step, and one "
                                 "rank accumulates them: 24 in all"});
  CHECK(load("dp_shard_size: 1\n").notes.empty());
}
