#include "job/job.h"

#include <doctest/doctest.h>

#include "base/local_time.h"
#include "base/temporary_folder.h"
#include "config/load.h"
#include "io/file.h"
#include "job/planned_job.h"
#include "tests/support/tiered_machine.h"
#include "tests/support/tiny_training.h"

using namespace spillway;
using namespace spillway::testing;

TEST_CASE("a length that the model was not trained for is said with the job, before it is planned") {
  const auto notes = [](const std::string& length) {
    const std::string text =
        fmt::format("base_model: {}\noutput_dir: unused\nlearning_rate: 1\ndatasets: [{{path: unused}}]\n{}\n",
                    (kGoldenModels / "qwen3").string(), length);
    return train::make_job(config::load_config(text, "test", {}, config::ConfigUse::kTrain).config, tiered_machine())
        .notes;
  };
  const int64_t trained = read_model(kGoldenModels / "qwen3")->text()->max_position_embeddings;
  CHECK(notes(fmt::format("sequence_len: {}", trained)).empty());
  CHECK(
      notes(fmt::format("sequence_len: {}", trained + 1)) ==
      std::vector<std::string>{fmt::format("sequence_len: {} is beyond max_position_embeddings of {}, {}: no position "
                                           "behind that was trained",
                                           trained + 1, (kGoldenModels / "qwen3").string(), trained)});
  CHECK(notes("max_length: 16777216").at(0).starts_with("max_length: 16777216 is beyond"));
}

TEST_CASE("prompts that are answered while a job is trained show the time that the job is given") {
  const TemporaryFolder folder;
  write_file(folder.path() / "dated.jinja", "{{ strftime_now('%Y-%m-%d') }} {{ messages[0].content }}");
  const std::string text = fmt::format(
      "base_model: {}\noutput_dir: unused\nlearning_rate: 1\ndatasets: [{{path: unused}}]\n"
      "chat_template_jinja: {}\nsample_every_steps: 1\nsample_prompts: [hello]\n",
      (source_folder() / "tests/golden/preference_training/model").string(), (folder.path() / "dated.jinja").string());
  const config::Config config = config::load_config(text, "test", {}, config::ConfigUse::kTrain).config;
  const auto prompt = [&](const char* time) {
    const train::Job job = train::make_job(config, tiered_machine(), {.now = time_from_text(time)});
    const std::vector<int32_t>& ids = job.samples.prompts.at(0).ids;
    return job.samples.tokenizer->decode(ids, false);
  };
  CHECK(prompt("2024-02-29T23:05:09") == "2024-02-29 hello");
  CHECK(prompt("2026-11-27T08:00:00") == "2026-11-27 hello");
}

TEST_CASE("the coefficient of the load-balancing loss is the run's, else that of a model that returns router logits") {
  const auto coefficient = [](const char* model, const std::string& lines) {
    const std::string text =
        fmt::format("base_model: {}\noutput_dir: unused\nlearning_rate: 1\n{}{}\n", (kGoldenModels / model).string(),
                    lines.find("dataset_name") == std::string::npos ? "datasets: [{path: unused}]\n" : "", lines);
    return train::make_job(config::load_config(text, "test", {}, config::ConfigUse::kTrain).config, tiered_machine())
        .graph.model.router_aux_loss_coef;
  };
  const std::string asked = "overrides_of_model_config: {output_router_logits: true, router_aux_loss_coef: 0.25}\n";
  CHECK(coefficient("mixtral", "") == 0);
  CHECK(coefficient("mixtral", asked) == 0.25);
  CHECK(coefficient("mixtral", asked + "router_aux_loss_coef: 0") == 0);
  CHECK(coefficient("mixtral", "router_aux_loss_coef: 0.5") == 0.5);
  CHECK(coefficient("qwen3", "router_aux_loss_coef: 0.0") == 0);
  // TRL's trainers of these objectives add the loss unasked.
  const std::string named = "overrides_of_model_config: {router_aux_loss_coef: 0.25}\n",
                    trl = named + "dataset_name: x\n";
  CHECK(coefficient("mixtral", named) == 0);
  for (const char* objective : {"", "rl: dpo\n", "rl: kto\n"}) CHECK(coefficient("mixtral", trl + objective) == 0.25);
  for (const char* objective : {"rl: orpo\n", "rl: cpo\n"}) CHECK(coefficient("mixtral", trl + objective) == 0);
  CHECK(coefficient("mixtral", trl + "router_aux_loss_coef: 0\n") == 0);
  CHECK(coefficient("qwen3", trl) == 0);
  CHECK_THROWS_WITH((void)coefficient("qwen3", "router_aux_loss_coef: 0.5"),
                    doctest::Contains("[router_aux_loss_coef] expected 0 for a model without routers"));
}

TEST_CASE("zero_stage: auto splits weights where nothing that sends less fits the budgets") {
  const TemporaryFolder folder;
  write_file(folder.path() / "config.json",
             R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 64,
    "intermediate_size": 256, "max_position_embeddings": 64, "num_attention_heads": 2, "num_hidden_layers": 8,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": true,
    "vocab_size": 300})");
  const auto planned = [&](const std::string& stage, int64_t device) {
    const std::string text = fmt::format(
        "base_model: {}\noutput_dir: unused\nlearning_rate: 1\ndatasets: [{{path: unused}}]\nnum_processes: 2\n"
        "sequence_len: 8\nmemory: {{device: {}, host: 0, disk: 0}}\nzero_stage: {}\n",
        folder.path().string(), device, stage);
    const config::Config config = config::load_config(text, "test", {}, config::ConfigUse::kTrain).config;
    return train::plan_job(train::make_job(config, tiered_machine()), tiered_machine());
  };
  const int64_t least = planned("3", 1).plan.peaks[0].bytes;
  CHECK_FALSE(fits(planned("2", least)));
  const train::PlannedJob split = planned("auto", least), wide = planned("auto", 1 << 30);
  CHECK(fits(split));
  CHECK(split.context.zero_stage == 3);
  CHECK_FALSE(split.training.split_weights.empty());
  CHECK(fits(wide));
  CHECK(wide.context.zero_stage == 2);
  CHECK(wide.training.split_weights.empty());
  // Where neither fits, what is missing is that of the one that needs less.
  const train::PlannedJob none = planned("auto", least / 2);
  CHECK_FALSE(fits(none));
  CHECK(none.context.zero_stage == 3);
}
