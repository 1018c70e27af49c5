#include "cli/ranks/same_config.h"

#include <doctest/doctest.h>

#include <string>

#include "config/load.h"

using namespace spillway;

namespace {

nlohmann::ordered_json alike(const std::string& more) {
  const std::string text =
      "base_model: m\noutput_dir: o\nadapter: lora\nlora_target_linear: true\n"
      "datasets: [{path: d.jsonl, type: alpaca}]\n" +
      more;
  const config::LoadedConfig loaded = config::check_config(text, "c.yml", {}, config::ConfigUse::kTrain);
  CHECK(loaded.verdicts.first_problem() == "");  // or a default would be compared
  return keys_alike(loaded.keys);
}

}  // namespace

TEST_CASE("keys that ranks must have alike are compared by their values, lists and mappings too") {
  for (const auto& [one, other] :
       {std::pair{"save_steps: 4\n", "save_steps: 5\n"},
        {"peft_layers_to_transform: [0]\n", "peft_layers_to_transform: [1]\n"},
        {"lora_rank_pattern: {q_proj: 2}\n", "lora_rank_pattern: {k_proj: 2}\n"},
        {"lora_rank_pattern: {q_proj: 2}\n", "lora_rank_pattern: {q_proj: 12}\n"},
        {"lora_alpha_pattern: {q_proj: 2}\n", ""},
        {"optim_args: {eps: 1.0e-6}\n", "optim_args: {eps: 1.0e-7}\n"},
        {"lr_groups: [{name: a, modules: [q_proj], lr: 0.1}]\n",
         "lr_groups: [{name: a, modules: [q_proj], lr: 0.2}]\n"},
        {"overrides_of_model_config: {rope_theta: 1}\n", "overrides_of_model_config: {rope_theta: 2}\n"}}) {
    CAPTURE(one);
    CHECK(alike(one) != alike(other));
    CHECK(alike(one) == alike(one));
  }
}

TEST_CASE("budgets, the device, paths, and keys that rank 0 alone reads may differ from rank to rank") {
  for (const char* own :
       {"memory: {device: 3GiB}\n", "gpu_memory_limit: 3GiB\n", "max_memory: {0: 3GiB}\n", "device: cpu\n",
        "dataset_prepared_path: p\n", "report_to: [tensorboard]\n", "push_to_hub: true\nhub_model_id: a/b\n",
        "run_name: first\n", "wandb_name: a\n", "mlflow_experiment_name: a\n", "mlflow_run_name: a\n", "project: a\n",
        "trackio_run_name: a\n", "metrics: false\n", "dataset_processes: 3\n", "log_completions: true\n"}) {
    CAPTURE(own);
    CHECK(alike(own) == alike(""));
  }
}
