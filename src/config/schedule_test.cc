// Keys of schedules, and of what follows from evaluations.
#include <doctest/doctest.h>

#include <string>

#include "base/temporary_folder.h"
#include "config/load.h"
#include "io/file.h"
#include "tests/support/config_error.h"

using namespace spillway;
using namespace spillway::config;
using spillway::testing::error_of;
using spillway::testing::load;

namespace {

ScheduleSettings schedule(std::string_view keys) { return load(keys).config.schedule; }

}  // namespace

TEST_CASE("a schedule takes the options that its library has, as a mapping or as JSON text") {
  const ScheduleSettings restarts =
      schedule("lr_scheduler: cosine_with_restarts\nlr_scheduler_kwargs: {num_cycles: 3}\n");
  CHECK(restarts.lr_scheduler.name == "cosine_with_restarts");
  CHECK(restarts.options.number("num_cycles") == 3);
  CHECK(schedule("lr_scheduler: cosine_with_restarts\nlr_scheduler_kwargs: '{\"num_cycles\": 3}'\n").options ==
        restarts.options);
  CHECK(load("lr_scheduler_type: cosine_with_restarts\n", {{"lr_scheduler_kwargs.num_cycles", "3"}})
            .config.schedule.options == restarts.options);
  const ScheduleSettings stable =
      schedule("lr_scheduler: warmup_stable_decay\nlr_scheduler_kwargs: {num_decay_steps: 10, decay_type: 1-sqrt}\n");
  CHECK(stable.options.number("num_decay_steps") == 10);
  CHECK(stable.options.number("decay_type") == 2);
  CHECK(schedule("lr_scheduler_kwargs:\n").options.number("num_cycles") == 0.5);
  CHECK(schedule("lr_scheduler: one_cycle\nlr_scheduler_kwargs: {three_phase: yes}\n").options.number("three_phase") ==
        1);
}

TEST_CASE("options that a schedule does not take are refused") {
  CHECK(error_of("lr_scheduler_kwargs: {num_cycle: 1}\n") ==
        "[c.yml:6: lr_scheduler_kwargs.num_cycle] expected an option of lr_scheduler cosine (num_cycles), got "
        "'num_cycle'; did you mean num_cycles?");
  CHECK(error_of("lr_scheduler: linear\nlr_scheduler_kwargs: {a: 1}\n") ==
        "[c.yml:7: lr_scheduler_kwargs.a] expected no options beside lr_scheduler linear, got 'a'; remove it");
  CHECK(error_of("lr_scheduler_kwargs: {num_cycles: many}\n") ==
        "[c.yml:6: lr_scheduler_kwargs.num_cycles] expected a number, got 'many'; change the value");
  CHECK(error_of("lr_scheduler: inverse_sqrt\nlr_scheduler_kwargs: {timescale: 1.5}\n") ==
        "[c.yml:7: lr_scheduler_kwargs.timescale] expected an integer of at least 1, got '1.5'; change the value");
  CHECK(error_of("lr_scheduler: warmup_stable_decay\n") ==
        "[lr_scheduler_kwargs] expected num_decay_steps beside lr_scheduler warmup_stable_decay, got none; write "
        "lr_scheduler_kwargs: {num_decay_steps: ...}");
  CHECK(error_of("lr_scheduler: warmup_stable_decay\nlr_scheduler_kwargs: {num_decay_steps: 1, decay_type: x}\n") ==
        "[c.yml:7: lr_scheduler_kwargs.decay_type] expected linear, cosine or 1-sqrt, got 'x'; change the value");
  CHECK(error_of("lr_scheduler: cosine_with_min_lr\n").find("expected one of min_lr and min_lr_rate beside") !=
        std::string::npos);
  CHECK(error_of("lr_scheduler: polynomial\nlr_scheduler_kwargs: {lr_end: 1}\n")
            .find("expected lr_end below learning_rate beside lr_scheduler polynomial") != std::string::npos);
  CHECK(error_of("lr_scheduler: one_cycle\nlr_scheduler_kwargs: {cycle_momentum: true}\n")
            .find("a momentum that changes is not yet supported") != std::string::npos);
  CHECK(error_of("lr_scheduler_kwargs: [1]\n").starts_with("[c.yml:6: lr_scheduler_kwargs] expected a mapping"));
  CHECK(error_of("lr_scheduler_kwargs: {num_cycles: [1]}\n")
            .starts_with("[c.yml:6: lr_scheduler_kwargs.num_cycles] expected a number or a word, got a list"));
  CHECK(error_of("cosine_min_lr_ratio: 0.1\nlr_scheduler_kwargs: {num_cycles: 1}\n")
            .starts_with("[c.yml:7: lr_scheduler_kwargs.num_cycles] expected no options beside cosine_min_lr_ratio"));
  CHECK(error_of("cosine_min_lr_ratio: 1.5\n").starts_with("[c.yml:6: cosine_min_lr_ratio] expected a number"));
  CHECK(error_of("lr_scheduler: greedy\n").find("not yet supported") != std::string::npos);
  CHECK(error_of("lr_div_factor: 10\n").find("lr_scheduler_kwargs: {div_factor: 25}") != std::string::npos);
}

TEST_CASE("axolotl's keys change the cosine as they do there") {
  const ScheduleSettings least = schedule("cosine_min_lr_ratio: 0.1\n");
  CHECK(least.lr_scheduler.name == "cosine_with_min_lr");
  CHECK(least.options.number("min_lr_rate") == 0.1);
  const ScheduleSettings tail = schedule("cosine_min_lr_ratio: 0.1\ncosine_constant_lr_ratio: 0.8\n");
  CHECK(tail.lr_scheduler.name == "cosine_then_constant");
  CHECK(tail.options.number("constant_ratio") == 0.8);
  CHECK(schedule("lr_quadratic_warmup: true\n").lr_scheduler.name == "cosine_quadratic_warmup");
  CHECK(schedule("cosine_min_lr_ratio: 0\n").lr_scheduler.name == "cosine");
  CHECK(schedule("lr_scheduler: rex\ncosine_min_lr_ratio: 0.2\n").options.number("min_lr_rate") == 0.2);
  using Names = std::vector<std::string>;
  CHECK(load("lr_scheduler: linear\ncosine_min_lr_ratio: 0.2\n").ignored == Names{"cosine_min_lr_ratio"});
  CHECK(load("cosine_constant_lr_ratio: 0.2\n").ignored == Names{"cosine_constant_lr_ratio"});
  CHECK(load("lr_quadratic_warmup: true\ncosine_min_lr_ratio: 0.2\n").ignored == Names{"cosine_min_lr_ratio"});
}

TEST_CASE("a warmup has the steps that axolotl gives it") {
  const auto warmup = [](std::string_view keys, int64_t total = 100) {
    return load(keys).config.schedule.warmup.of(total);
  };
  // _configure_warmup_and_logging: min(int(0.03 * total), 100); int(ratio * total); a single step becomes two.
  CHECK(warmup("") == 3);
  CHECK(warmup("", 33) == 0);
  CHECK(warmup("", 34) == 2);
  CHECK(warmup("", 66) == 2);
  CHECK(warmup("", 5000) == 100);
  CHECK(warmup("warmup_ratio: 0.039\n") == 3);
  CHECK(warmup("warmup_ratio: 0.29\n") == 28);  // 0.29 * 100 is below 29 in f64
  CHECK(warmup("warmup_ratio: 0.1\n", 9) == 0);
  CHECK(warmup("warmup_ratio: 0.1\n", 19) == 2);
  CHECK(warmup("warmup_ratio: 1\n") == 100);
  CHECK(warmup("warmup_ratio: 1\n", 5000) == 5000);
  CHECK(warmup("warmup_ratio: 0\n") == 0);
  CHECK(warmup("warmup_steps: 0\n") == 0);
  CHECK(warmup("warmup_steps: 7\n") == 7);
  CHECK(warmup("warmup_steps: 1\n") == 2);
  CHECK(warmup("warmup_steps: 7\nlr_scheduler: constant\n") == 0);
}

TEST_CASE("a warmup of axolotl's rl: grpo is left to transformers, since its steps are not known beforehand") {
  const auto warmup = [](const std::string& keys, int64_t total) {
    const std::string text =
        "base_model: ./m\nlearning_rate: 1e-4\nrl: grpo\ndatasets: [{path: a.jsonl}]\n"
        "reward_funcs: [think_format_reward]\nmicro_batch_size: 8\n" +
        keys;
    return load_config(text, "c.yml", {}, ConfigUse::kTrain).config.schedule.warmup.of(total);
  };
  CHECK(warmup("", 25) == 1);  // ceil(0.03 * total)
  CHECK(warmup("", 5000) == 150);
  CHECK(warmup("warmup_ratio: 0.1\n", 25) == 3);
  CHECK(warmup("warmup_ratio: 0\n", 25) == 0);
  CHECK(warmup("warmup_steps: 1\n", 25) == 2);
}

TEST_CASE("a warmup of TRL's and FastVideo's configs has the steps that transformers gives it") {
  for (const char* data : {"dataset_name: a.jsonl\n", "data_path: clips\nlr_scheduler: cosine\n"}) {
    const auto warmup = [&](const std::string& keys) {
      const std::string text = "model_name_or_path: ./m\nlearning_rate: 1e-5\n" + std::string(data) + keys;
      return load_config(text, "c.yml", {}, ConfigUse::kTrain).config.schedule.warmup.of(100);
    };
    CHECK(warmup("") == 0);
    CHECK(warmup("warmup_ratio: 0.031\n") == 4);  // ceil(ratio * total)
    CHECK(warmup("warmup_steps: 0.05\n") == 5);
    CHECK(warmup("warmup_steps: 1\n") == 1);
  }
}

TEST_CASE("an optimizer that warms up by itself does so beside any schedule, and is best left alone") {
  const LoadedConfig constant = load("optimizer: schedule_free_adamw\nlr_scheduler: constant\nwarmup_steps: 7\n");
  CHECK(constant.ignored.empty());
  CHECK(constant.notes.empty());
  CHECK(constant.config.schedule.warmup.of(100) == 0);
  CHECK(constant.config.schedule.optimizer_warmup.of(100) == 7);
  const LoadedConfig cosine = load("optimizer: schedule_free_adamw\nwarmup_ratio: 0.1\n");
  REQUIRE(cosine.notes.size() == 1);
  CHECK(cosine.notes[0].starts_with("lr_scheduler cosine: schedule_free_adamw needs no schedule"));
  CHECK(cosine.config.schedule.warmup.of(100) == 10);
  CHECK(cosine.config.schedule.optimizer_warmup.of(100) == 10);
  CHECK(schedule("warmup_steps: 7\n").optimizer_warmup.of(100) == 0);
}

TEST_CASE("the best evaluation has transformers' defaults") {
  const auto best = [](const std::string& keys) {
    return load("val_set_size: 0.1\neval_steps: 5\nsave_steps: 10\n" + keys).config.output.best;
  };
  CHECK_FALSE(best("").is_kept);
  const BestSettings loaded = best("load_best_model_at_end: true\n");
  CHECK(loaded.metric == "loss");
  CHECK_FALSE(loaded.greater_is_better);
  CHECK((loaded.is_loaded && loaded.is_kept && !loaded.patience));
  CHECK(best("metric_for_best_model: eval_rewards/margins\n").metric == "rewards/margins");
  CHECK(best("metric_for_best_model: mean_token_accuracy\n").greater_is_better);
  CHECK_FALSE(best("metric_for_best_model: eval_nll_loss\n").greater_is_better);
  CHECK(best("metric_for_best_model: loss\ngreater_is_better: true\n").greater_is_better);
  const std::string perplexity =
      "val_set_size: 0.1\neval_steps: 5\nsave_steps: 10\nmetric_for_best_model: eval_perplexity\n";
  REQUIRE(load(perplexity).notes.size() == 1);
  CHECK(load(perplexity).notes[0].find("the highest one counts as the best") != std::string::npos);
  CHECK(load(perplexity + "greater_is_better: false\n").notes.empty());
  const BestSettings patient = best("early_stopping_patience: 3\n");
  CHECK(patient.patience == 3);
  CHECK(patient.is_loaded);
  CHECK_FALSE(best("early_stopping_patience: 3\nload_best_model_at_end: false\n").is_loaded);
  CHECK_FALSE(best("early_stopping_patience: 0\n").is_kept);
  CHECK(load("loss_watchdog_threshold: 5\n").config.output.loss_watchdog->patience == 3);
  CHECK(load("loss_watchdog_patience: 5\n").ignored == std::vector<std::string>{"loss_watchdog_patience"});
}

TEST_CASE("checkpoints to choose from have to stand at evaluations") {
  const std::string asked = "load_best_model_at_end: true\n";
  for (const char* keys : {"val_set_size: 0.1\n", "val_set_size: 0.1\nevals_per_epoch: 4\nsaves_per_epoch: 2\n",
                           "val_set_size: 0.1\neval_steps: 0.1\nsave_steps: 0.3\n",
                           "val_set_size: 0.1\neval_steps: 7\nsave_strategy: best\n"})
    CHECK(error_of(asked + keys).empty());
  for (const char* keys :
       {"val_set_size: 0.1\neval_steps: 4\nsave_steps: 10\n", "val_set_size: 0.1\neval_steps: 4\n",
        "val_set_size: 0.1\nevals_per_epoch: 3\nsaves_per_epoch: 2\n",
        "val_set_size: 0.1\neval_steps: 0.1\nsave_steps: 10\n", "val_set_size: 0.1\neval_steps: 10\nsave_steps: 5\n"})
    CHECK(error_of(asked + keys)
              .starts_with("[c.yml:6: load_best_model_at_end] expected checkpoints at steps of an evaluation"));
  CHECK(error_of(asked).starts_with("[c.yml:6: load_best_model_at_end] expected rows to evaluate on, got none"));
  CHECK(error_of(asked + "val_set_size: 0.1\neval_strategy: no\n").find("expected evaluations, got") !=
        std::string::npos);
  CHECK(error_of(asked + "val_set_size: 0.1\nsave_strategy: no\n").find("expected checkpoints to choose from") !=
        std::string::npos);
  CHECK(error_of("save_strategy: best\n").find("[c.yml:6: save_strategy] expected rows to evaluate on") !=
        std::string::npos);
  CHECK(error_of("eval_strategy: best\n").starts_with("[c.yml:6: eval_strategy] expected no, steps or epoch"));
}

TEST_CASE("push_to_hub sends the result to hub_model_id, or to the name of output_dir; without it nothing is sent") {
  const auto hub = [](const std::string& keys) { return load(keys).config.output.hub; };
  CHECK_FALSE(hub("hub_model_id: me/m\n"));
  const auto all =
      hub("push_to_hub: true\nhub_model_id: me/m\nhub_strategy: checkpoint\nhub_private_repo: true\n"
          "hub_always_push: true\nhub_revision: v1\nhub_token: hf_abcdefgh\n");
  REQUIRE(all);
  CHECK(all->id == "me/m");
  CHECK(all->revision == "v1");
  CHECK(all->strategy == HubStrategy::kCheckpoint);
  CHECK((all->is_private && all->waits));
  CHECK(all->token == "hf_abcdefgh");
  CHECK(hub("push_to_hub: true\noutput_dir: runs/my-model/\n")->id == "my-model");
  CHECK(hub("push_to_hub: true\n")->strategy == HubStrategy::kEverySave);
  CHECK(error_of("push_to_hub: true\nhub_model_id: a/b/c\n")
            .find("expected a name on the hub such as org/name, got "
                  "'a/b/c'") != std::string::npos);
  CHECK(error_of("push_to_hub: true\nhub_strategy: never\n").find("every_save") != std::string::npos);
  CHECK(error_of("hub_token: secret\n").find("secret") == std::string::npos);
  LoadedConfig loaded = load("hub_token: hf_abcdefgh\n");
  hide_secrets(loaded);
  CHECK(loaded.source.text.find("hf_abcdefgh") == std::string::npos);
  CHECK_NOTHROW((void)load_changed(loaded.source, {}));
}

TEST_CASE("TRL evaluates a split of its dataset where eval_strategy asks for it") {
  const std::string text = "model_name_or_path: ./m\nlearning_rate: 1e-5\nmax_length: 64\n";
  const auto load_text = [&](const std::string& keys) {
    return load_config(text + keys, "c.yml", {}, ConfigUse::kTrain);
  };
  const auto evaluated = [&](const std::string& keys) {
    const Config config = load_text(keys).config;
    if (config.data.test_datasets.empty()) return std::string();
    const DatasetConfig& dataset = config.data.test_datasets.at(0);
    CHECK(config.output.evaluate.kind != Interval::Kind::kNever);
    return dataset.path + ":" + dataset.name + ":" + dataset.split;
  };
  CHECK(evaluated("dataset_name: rows\neval_strategy: steps\n") == "rows::test");
  CHECK(evaluated("dataset_name: rows\neval_strategy: epoch\ndataset_test_split: val\ndataset_config: en\n") ==
        "rows:en:val");
  CHECK(evaluated("dataset_name: rows\neval_strategy: steps\ntest_datasets: [{path: x}]\n") == "x::");
  CHECK(evaluated("dataset_name: rows\neval_strategy: steps\nval_set_size: 0.1\n").empty());
  CHECK(evaluated("dataset_name: rows\n").empty());
  CHECK(load_text("dataset_name: rows\ndataset_test_split: test\n").ignored ==
        std::vector<std::string>{"dataset_test_split"});
  CHECK(load("dataset_test_split: x\n").ignored == std::vector<std::string>{"dataset_test_split"});
  CHECK_THROWS_WITH(load_text("dataset_name: rows\neval_strategy: steps\nval_set_size: 2\ndataset_test_split: x\n"),
                    "[c.yml:6: val_set_size] expected dataset_test_split or val_set_size, got both; remove one");
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "rows.jsonl").string();
  write_file(file, "");
  CHECK_THROWS_WITH(load_text("dataset_name: " + file + "\neval_strategy: steps\n"),
                    "[c.yml:5: eval_strategy] expected rows to evaluate on, got none; set val_set_size or "
                    "test_datasets");
}

TEST_CASE("where nothing is evaluated, keys that say how often are told to be ignored") {
  CHECK(error_of("eval_strategy: steps\neval_steps: 2\n") ==
        "[c.yml:7: eval_steps] expected rows to evaluate on, got none; set val_set_size or test_datasets");
  for (const char* key : {"evals_per_epoch: 2\n", "eval_steps: 2\n", "eval_on_start: true\n", "eval_delay: 2\n",
                          "evals_per_epoch: 2\nval_set_size: 0\n"}) {
    const LoadedConfig loaded = load(key);
    CHECK(ignored_line(loaded).find("there are no rows to evaluate on") != std::string::npos);
    CHECK(loaded.config.output.evaluate.kind == Interval::Kind::kNever);
  }
  for (const char* key : {"evals_per_epoch:\n", "evals_per_epoch: 0\n", "eval_strategy: no\n"})
    CHECK(ignored_line(load(key)).empty());
}

TEST_CASE("a checkpoint may come after the first step, and be the model alone") {
  const auto output = [](const std::string& keys) { return load(keys).config.output; };
  CHECK(output("save_first_step: true\n").saves_first_step);
  CHECK(output("save_only_model: true\n").saves_only_model);
  CHECK_FALSE(output("").saves_first_step);
  CHECK_FALSE(output("").saves_only_model);
}

TEST_CASE("the learning rate restarts as axolotl's keys say, of which false and 0 are none") {
  const std::string kSteps = "jagged_restart_steps: 150\n";
  CHECK(schedule(kSteps).restarts == schedules::JaggedRestarts{150, 10, 1, 0.001});
  CHECK(schedule(kSteps + "jagged_restart_warmup_steps: 20\njagged_restart_anneal_steps: 5\ncosine_min_lr_ratio: 0.1\n")
            .restarts == schedules::JaggedRestarts{150, 20, 5, 0.1});
  CHECK(schedule(kSteps + "jagged_restart_warmup_steps: 0\njagged_restart_anneal_steps: false\n").restarts ==
        schedules::JaggedRestarts{150, 10, 1, 0.001});
  CHECK_FALSE(schedule("jagged_restart_steps: false\njagged_restart_anneal_steps: 5\n").restarts);
  CHECK(error_of("jagged_restart_steps: often\n").find("expected an integer of at least 0") != std::string::npos);
  CHECK(error_of(kSteps + "lr_scheduler: one_cycle\n").find("expected no restarts beside lr_scheduler one_cycle") !=
        std::string::npos);
}
