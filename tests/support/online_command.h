// Online training of a tiny model with the real program.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "io/file.h"
#include "tests/support/preference_run.h"
#include "tests/support/process.h"
#include "tests/support/source_folder.h"

namespace spillway::testing {

// A config of 12 prompts in rounds of four completions, each trained on in two steps.
inline nlohmann::json online_job(const std::string& rl, const std::filesystem::path& output) {
  return {{"base_model", (preference_goldens() / "model").string()},
          {"rl", rl},
          {"datasets", {{{"path", (source_folder() / "tests/golden/online_rl/prompts.jsonl").string()}}}},
          {"adapter", "lora"},
          {"lora_r", 4},
          {"lora_alpha", 8},
          {"lora_target_linear", true},
          {"trl",
           {{"num_generations", 2},
            {"max_completion_length", 6},
            {"beta", 0.1},
            {"num_iterations", 2},
            {"log_completions", true},
            {"reward_funcs",
             {{{"name", "get_repetition_penalty_reward"}, {"ngram_size", 1}},
              {{"exec", {"sh", "-c", "while read line; do echo '[1, 0, 0.5, null]'; done"}}}}}}},
          {"micro_batch_size", 4},
          {"max_steps", 4},
          {"save_steps", 1},
          {"learning_rate", 1e-3},
          {"lr_scheduler", "constant"},  // not one of the length of the run
          {"bf16", false},
          {"output_dir", output.string()}};
}

inline void run_train(const nlohmann::json& config, const std::filesystem::path& file,
                      const std::vector<std::string>& more = {}) {
  write_file(file, config.dump());
  std::vector<std::string> args = {"train", file.string()};
  args.insert(args.end(), more.begin(), more.end());
  const Finished run = run_spillway(args);
  CAPTURE(run.err);
  REQUIRE(run.status == 0);
}

inline std::vector<nlohmann::json> lines_of(const std::filesystem::path& file) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read_file(file, 1 << 20));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

}  // namespace spillway::testing
