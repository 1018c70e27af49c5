// Runs that go on from a checkpoint with batches of another size.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "io/file.h"
#include "tests/support/checkpoints.h"
#include "tests/support/preference_run.h"
#include "tests/support/process.h"
#include "tests/support/tiny_job.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

TEST_CASE("a run goes on with batches of another size behind the last row, and says so in a line") {
  const TinyJob job;
  // 24 rows, so that epochs have 6 steps of 2 x 2.
  const auto run = [&](const std::string& name, const std::vector<std::string>& more) {
    const std::vector<std::string> epochs = {"--max_steps",     "null",  "--num_epochs",       "3",
                                             "--save_strategy", "epoch", "--save_total_limit", "40"};
    const Finished finished = run_spillway(job.train(name, epochs + more));
    CAPTURE(finished.err);
    REQUIRE(finished.status == 0);
    return finished.err;
  };
  const auto last_line = [&](const std::string& name) {
    const std::string text = read_file(job.output(name) / "metrics.jsonl", 1 << 20);
    const size_t end = text.rfind('\n'), begin = text.rfind('\n', end - 1);
    return nlohmann::json::parse(text.substr(begin + 1, end - begin - 1));
  };
  for (const std::string grouped : {"false", "true"}) {
    CAPTURE(grouped);
    const std::vector<std::string> order = {"--group_by_length", grouped};
    const std::string whole = "whole" + grouped, other = "other" + grouped, again = "again" + grouped;
    run(whole, order + std::vector<std::string>{"--save_strategy", "steps", "--save_steps", "1"});
    // Behind 8 of 24 rows; 16 make 4 steps of 5, of which the last has one, and 24 make 5.
    const std::vector<std::string> fives =
        order + std::vector<std::string>{"--micro_batch_size", "5", "--gradient_accumulation_steps", "1"};
    const std::string from = (job.output(whole) / "checkpoint-2").string();
    const std::string said = run(other, fives + std::vector<std::string>{"--resume_from_checkpoint", from});
    CHECK(said.find(fmt::format("a step had 2 x 2 rows in {}, and has 1 x 5 from here on: the run goes on behind 8 of "
                                "the 24 of epoch 1, so that none is left out or comes twice, at step 2 of now 16",
                                from)) != std::string::npos);
    CHECK(said.find("micro_batch_size was") == std::string::npos);  // which would say the same again
    CHECK(said.find("gradient_accumulation_steps was") == std::string::npos);
    CHECK(checkpoints_in(job.output(other)) == std::set<std::string>{"checkpoint-6", "checkpoint-11", "checkpoint-16"});
    CHECK(last_line(other)["epoch"] == 3);
    CHECK(last_line(other)["step"] == 16);
    CHECK(last_line(other)["num_tokens"] == last_line(whole)["num_tokens"]);
    // A run that goes on from its checkpoints with the same batches has its bits, in that epoch and behind it.
    run(again + "a", fives + std::vector<std::string>{"--resume_from_checkpoint", from, "--save_strategy", "steps",
                                                      "--save_steps", "1"});
    for (const char* step : {"4", "12"}) {
      const std::string name = again + step;
      const std::string checkpoint = (job.output(again + "a") / (std::string("checkpoint-") + step)).string();
      CHECK(run(name, fives + std::vector<std::string>{"--resume_from_checkpoint", checkpoint}).find("a step had") ==
            std::string::npos);
      CHECK(job.adapter(name) == job.adapter(other));
    }
  }
}

TEST_CASE("scores that depend on a row's micro-batch and were made before training keep the place of micro-batches") {
  const TemporaryFolder folder;
  const fs::path goldens = preference_goldens();
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"train",
                                     (goldens / "cases/kto_precompute_lora/config.yml").string(),
                                     "--base_model",
                                     (goldens / "model").string(),
                                     "--datasets.0.path",
                                     (goldens / "labelled.jsonl").string(),
                                     "--lora_model_dir",
                                     (goldens / "adapter_fresh").string(),
                                     "--output_dir",
                                     (folder.path() / "out").string(),
                                     "--save_strategy",
                                     "steps",
                                     "--save_steps",
                                     "1",
                                     "--auto_resume_from_checkpoints",
                                     "true"};
    args.insert(args.end(), more.begin(), more.end());
    return run_spillway(args);
  };
  // A step has 4 x 2 rows. Micro-batches of 2 go on at row 8 where those of whole epochs are, those of 3 do not.
  REQUIRE(run({"--max_steps", "1"}).status == 0);
  const Finished refused = run({"--max_steps", "2", "--micro_batch_size", "3"});
  CHECK(refused.status == 2);
  CHECK(refused.err.find("[micro_batch_size] expected a divisor of the 8 rows that epoch 1 has trained on, beside "
                         "precompute_ref_log_probs, got 3") != std::string::npos);
  CHECK(run({"--max_steps", "2", "--micro_batch_size", "2"}).status == 0);
}
