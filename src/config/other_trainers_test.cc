#include "config/other_trainers.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/error.h"
#include "config/keys.h"
#include "config/load.h"

using namespace spillway;
using namespace spillway::config;

namespace {

LoadedConfig check_other(const std::string& text) { return check_config(text, "c.yml", {}, ConfigUse::kTrain); }

// Its note, without what every such note begins with; empty where the key has no verdict.
std::string note_on(const LoadedConfig& loaded, std::string_view key) {
  for (const KeyVerdict& one : loaded.verdicts.keys())
    if (one.key == key) return one.note.substr(one.note.find("; ") == std::string::npos ? 0 : one.note.find("; ") + 2);
  return "";
}

}  // namespace

TEST_CASE("a file of LLaMA-Factory is recognised, with its keys beside ours") {
  const LoadedConfig loaded = check_other(
      "model_name_or_path: Qwen/Qwen3-4B\nstage: sft\ndo_train: true\nfinetuning_type: lora\nlora_rank: 8\n"
      "lora_target: all\ndataset: identity\ntemplate: qwen3\ncutoff_len: 2048\nplot_loss: true\n"
      "output_dir: o\nlearning_rate: 1.0e-4\n");
  CHECK(first_problem(loaded) ==
        "[c.yml] expected a config of axolotl or TRL, got one of LLaMA-Factory; write stage as rl, finetuning_type as "
        "adapter, lora_target as lora_target_modules, dataset as datasets, template as chat_template, cutoff_len as "
        "max_length, and leave out plot_loss (docs/configs-you-have.md#files-of-other-trainers)");
  CHECK(note_on(loaded, "template") == "write chat_template (a name, or nothing for the model's own)");
  CHECK(note_on(loaded, "learning_rate") == "is the same here");
  CHECK(note_on(loaded, "plot_loss") == "write nothing: report.html shows the loss");
  CHECK(loaded.verdicts.keys().size() == 12);
}

TEST_CASE("files of torchtune, mlx-lm, accelerate and Unsloth are recognised") {
  CHECK(
      first_problem(check_other("output_dir: o\nmodel:\n  _component_: torchtune.models.llama3_2.lora_llama3_2_1b\n"
                                "  lora_rank: 64\ntokenizer:\n  _component_: x\n  path: t\nbatch_size: 4\n"
                                "optimizer:\n  _component_: torch.optim.AdamW\n  lr: 3e-4\nepochs: 1\n"))
          .starts_with("[c.yml] expected a config of axolotl or TRL, got one of torchtune; write model._component_ as "
                       "adapter, model.lora_rank as lora_r, batch_size as micro_batch_size, optimizer._component_ as "
                       "optimizer, optimizer.lr as learning_rate, epochs as num_epochs, and leave out tokenizer.* ("));
  CHECK(first_problem(check_other("model: m\ntrain: true\nfine_tune_type: lora\ndata: d\nbatch_size: 4\niters: 1000\n"
                                  "lora_parameters: {keys: [self_attn.q_proj], rank: 8, scale: 20.0}\n"))
            .starts_with("[c.yml] expected a config of axolotl or TRL, got one of mlx-lm; write model as base_model, "
                         "fine_tune_type as adapter, data as datasets, batch_size as micro_batch_size, iters as "
                         "max_steps, lora_parameters.keys as lora_target_modules, lora_parameters.rank as lora_r, "
                         "lora_parameters.scale as lora_alpha, and leave out train ("));
  CHECK(first_problem(check_other("compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\n"
                                  "fsdp_config:\n  fsdp_offload_params: true\nnum_processes: 8\n"))
            .starts_with("[c.yml] expected a config of axolotl or TRL, got one of accelerate; write mixed_precision as "
                         "bf16, fsdp_config.* as fsdp_config, and leave out compute_environment, distributed_type "
                         "("));
  CHECK(first_problem(check_other("model_name: m\nr: 16\nuse_gradient_checkpointing: unsloth\n"))
            .starts_with("[c.yml] expected a config of axolotl or TRL, got one of Unsloth; write model_name as "
                         "base_model, r as lora_r, use_gradient_checkpointing as gradient_checkpointing ("));
}

TEST_CASE("a notebook and a script are no config") {
  const auto error = [](const std::string& text, const std::string& name) -> std::string {
    try {
      (void)check_config(text, name, {}, ConfigUse::kTrain);
    } catch (const InputError& problem) {
      return problem.what();
    }
    return "";
  };
  CHECK(error("{\"cells\": [\"from unsloth import FastLanguageModel\"], \"nbformat\": 4}", "a.ipynb") ==
        "[a.ipynb] expected a config, got a notebook of Unsloth; write its arguments as keys of a YAML file "
        "(docs/configs-you-have.md#files-of-other-trainers)");
  CHECK(error("import torch\n", "train.py").starts_with("[train.py] expected a config, got a script in Python; write"));
}

TEST_CASE("the table of other trainers names keys that are followed, and no sign is a key of ours") {
  CHECK(other_trainers().size() == 5);
  for (const OtherTrainer& trainer : other_trainers()) {
    CAPTURE(std::string(trainer.name));
    for (const std::string_view sign : trainer.signs) CHECK(find_key(sign) == nullptr);
    for (const OtherKey& key : trainer.keys) {
      CAPTURE(std::string(key.theirs));
      CHECK((!key.ours.empty() || !key.how.empty()));
      if (key.ours.empty()) continue;
      constexpr std::string_view kEntry = "datasets.";
      const ConfigKey* ours =
          key.ours.starts_with(kEntry) ? find_dataset_key(key.ours.substr(kEntry.size())) : find_key(key.ours);
      REQUIRE(ours != nullptr);
      CHECK((ours->status == KeyStatus::kSupported || ours->status == KeyStatus::kNotYet));
    }
  }
}

TEST_CASE("docs/configs-you-have.md shows the tables of other trainers") {
  std::ifstream stream(SPILLWAY_SOURCE_DIR "/docs/configs-you-have.md");
  std::stringstream page;
  page << stream.rdbuf();
  for (const OtherTrainer& trainer : other_trainers()) {
    for (const OtherKey& key : trainer.keys) {
      const std::string ours = key.ours.empty() ? "" : fmt::format("`{}`{}", key.ours, key.how.empty() ? "" : ": ");
      const std::string row = fmt::format("| `{}` | {}{} |", key.theirs, ours, key.how);
      CHECK_MESSAGE(page.str().find(row) != std::string::npos, row);
    }
  }
}
