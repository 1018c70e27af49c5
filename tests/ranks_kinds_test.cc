// Runs of other kinds than plain training on text over several ranks: the files are those of one rank.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/temporary_folder.h"
#include "io/file.h"
#include "tests/support/preference_run.h"
#include "tests/support/rank_jobs.h"
#include "tests/support/video_run.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

TEST_CASE("preferences have the bits of one rank, reference, metrics and all") {
  const TinyJob job;
  std::string rows;
  const char* const answers[] = {" blue", " green", " red", " grey", " dark"};
  for (int i = 0; i < 24; ++i)
    rows += nlohmann::json{{"prompt", "The sky is" + std::string(static_cast<size_t>(i % 3), '!')},
                           {"chosen", answers[i % 5]},
                           {"rejected", answers[(i + 2) % 5]}}
                .dump() +
            "\n";
  job.write_rows(rows);
  const std::string model = (preference_goldens() / "model").string();
  const Arguments shared = {"--base_model",
                            model,
                            "--tokenizer_config",
                            model,
                            "--rl",
                            "dpo",
                            "--sequence_len",
                            "40",
                            "--datasets",
                            "[{path: " + (job.output("rows.jsonl")).string() + "}]"};
  check_on_ranks(job, shared, {2});
  const TinyJob known;
  check_on_ranks(known, shared + kLayerByLayer + Arguments{"--precompute_ref_log_probs", "true", "--zero_stage", "3"},
                 {2});
}

TEST_CASE("what ranks generate together, and learn from it, has the bytes of one rank at every stage") {
  const WideModel model;
  const TinyJob job;
  const Arguments shared =
      model.arguments() + kFullWeights + of_prompts(job, "grpo", {1, 0, 0.5, nullptr, 0, 1, 1, 0}) +
      Arguments{"--trl.num_generations", "2", "--trl.num_generations_eval", "4", "--trl.beta", "0.1",
                "--trl.num_iterations",  "2"};
  CHECK(train_over_ranks(1, job, "one", shared).empty());
  // Weights in parts are gathered for a round, or a layer's for each token position.
  const Arguments kinds[] = {{"--zero_stage", "0"},
                             kLayerByLayer + Arguments{"--zero_stage", "3", "--ds3_gather_for_generation", "true"},
                             {"--zero_stage", "3", "--ds3_gather_for_generation", "false"}};
  for (const Arguments& kind : kinds) {
    const std::string name = fmt::format("with{}", fmt::join(kind, ""));
    CAPTURE(name);
    for (const std::string& error : train_over_ranks(2, job, name, shared + kind)) CHECK(error == "");
    check_same_results(job.output("one"), job.output(name));
  }
}

TEST_CASE("layers that are drawn anew have the bits of one rank at every stage, and so has a run that goes on") {
  const WideModel model;
  const TinyJob job;
  const Arguments shared = model.arguments() + kFullWeights +
                           Arguments{"--lisa_n_layers", "1", "--lisa_step_interval", "2", "--save_steps", "3"};
  CHECK(train_over_ranks(1, job, "one", shared).empty());
  const Arguments kinds[] = {{"--zero_stage", "0"},
                             kLayerByLayer + Arguments{"--zero_stage", "2", "--optimizer_offload", "disk"},
                             {"--zero_stage", "3", "--gradient_checkpointing", "true"}};
  for (const Arguments& kind : kinds) {
    const std::string name = fmt::format("with{}", fmt::join(kind, ""));
    CAPTURE(name);
    for (const std::string& error : train_over_ranks(2, job, name, shared + kind)) CHECK(error == "");
    check_same_results(job.output("one"), job.output(name));
  }
  for (const std::string& error : train_over_ranks(4, job, "four", shared + Arguments{"--zero_stage", "3"}))
    CHECK(error == "");
  check_same_results(job.output("one"), job.output("four"));
}

TEST_CASE("rounds of one micro-batch, of which ranks train on several at once, have the bytes of one rank") {
  const WideModel model;
  const TinyJob job;
  check_on_ranks(job, model.arguments() + of_prompts(job, "online_dpo", {1, 0, 0.5, 0}), {2});
}

TEST_CASE(
    "training on clips has the bits of one rank, with an average of the weights and what was drawn for each clip") {
  const Arguments kinds[] = {{"--use_ema", "true", "--ema_decay", "0.9"},
                             {"--use_ema", "true", "--ema_decay", "0.9", "--zero_stage", "3"},
                             {"--adapter", "lora", "--lora_rank", "4", "--zero_stage", "3"}};
  for (const Arguments& kind : kinds) {
    CAPTURE(kind.back());
    const TemporaryFolder folder;
    const fs::path rows = clips_to_draw_for("t2v", folder.path());
    for (const int ranks : {1, 2}) {
      const fs::path output = folder.path() / std::to_string(ranks), config = output.string() + ".yml";
      write_file(config, video_lines("t2v", false, output));
      const Arguments all = Arguments{"train", config.string()} + kind +
                            Arguments{"--log_samples",
                                      "true",
                                      "--val_set_size",
                                      "1",
                                      "--datasets.0.path",
                                      rows.string(),
                                      "--curriculum_sampling",
                                      "false",
                                      "--training_cfg_rate",
                                      "0.3",
                                      "--micro_batch_size",
                                      "1",
                                      "--gradient_accumulation_steps",
                                      std::to_string(4 / ranks),
                                      "--max_steps",
                                      "5",
                                      "--save_strategy",
                                      "steps",
                                      "--save_steps",
                                      "2"};
      for (const std::string& error : run_over_ranks(ranks, all)) CHECK(error == "");
    }
    check_same_results(folder.path() / "1", folder.path() / "2");
    CHECK(results_of(folder.path() / "2").contains("samples.jsonl"));
  }
}

TEST_CASE("clips that ranks share have the losses of one rank, and plans change no bit of them") {
  const TemporaryFolder folder;
  const Arguments lora = {"--adapter", "lora", "--lora_rank", "4", "--lora_dropout", "0.2"};
  for (const char* kind : {"t2v", "i2v"}) {
    for (const bool is_full : {true, false}) {
      CAPTURE(kind);
      CAPTURE(is_full);
      fs::create_directories(folder.path() / kind);
      const fs::path rows = clips_to_draw_for(kind, folder.path() / kind);
      const auto train = [&](const std::string& name, int groups, int context, const Arguments& more) {
        const fs::path output = folder.path() / fmt::format("{}{}{}", kind, is_full, name);
        const fs::path config = output.string() + ".yml";
        write_file(config, video_lines(kind, false, output));
        const Arguments all = Arguments{"train", config.string()} + more +
                              Arguments{"--log_samples",
                                        "true",
                                        "--val_set_size",
                                        "1",
                                        "--eval_steps",
                                        "2",
                                        "--bf16",
                                        "false",
                                        "--datasets.0.path",
                                        rows.string(),
                                        "--curriculum_sampling",
                                        "false",
                                        "--micro_batch_size",
                                        "2",
                                        "--gradient_accumulation_steps",
                                        std::to_string(2 / groups),
                                        "--context_parallel_size",
                                        std::to_string(context),
                                        "--max_steps",
                                        "4"};
        for (const std::string& error : run_over_ranks(groups * context, all)) CHECK(error == "");
        return output;
      };
      const auto numbers_of = [](const fs::path& output) {
        std::vector<double> numbers;
        for (const nlohmann::json& line : training_metrics_of(output))
          for (const char* key : {"loss", "grad_norm", "eval_loss"})
            if (line.contains(key)) numbers.push_back(line[key]);
        return numbers;
      };
      const Arguments own = is_full ? Arguments{} : lora;
      const std::vector<double> expected = numbers_of(train("one", 1, 1, own));
      CHECK(expected.size() >= 8);
      const fs::path kept = train("two", 1, 2, own);
      for (const fs::path& output : {kept, train("groups", 2, 2, own)}) {
        const std::vector<double> got = numbers_of(output);
        REQUIRE(got.size() == expected.size());
        for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-5));
      }
      check_same_results(kept, train("parts", 1, 2,
                                     own + Arguments{"--zero_stage", "3", "--gradient_checkpointing", "true",
                                                     "--activation_offloading", "disk"}));
    }
  }
}
