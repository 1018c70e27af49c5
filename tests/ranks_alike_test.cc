// Jobs whose ranks have different things of what each may read or choose for itself: what would change results, or let
// one rank wait for what another never sends, is said before the first step; all else changes no bit.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "io/file.h"
#include "tests/support/preference_run.h"
#include "tests/support/rank_jobs.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

// Returns what rank 0 says of two ranks, of which the second has more arguments.
std::string said_of_unlike(const TinyJob& job, const std::string& name, const Arguments& shared,
                           const Arguments& of_second) {
  const Arguments all = job.train(name, shared + Arguments{"--max_steps", "2"});
  const std::vector<std::string> errors = run_ranks_of({all, all + of_second});
  return errors.front();
}

void check_said(const std::string& said, const std::string& what) {
  CAPTURE(said);
  CHECK(said.starts_with("[rank 1 on "));
  CHECK(said.find(": " + what + "] expected ") != std::string::npos);
  CHECK(said.find(", as rank 0 has it, got ") != std::string::npos);
}

fs::path preference_golden(const char* name) { return preference_goldens() / name; }

// A job of PPO on prompts of the golden models.
Arguments of_ppo(const TinyJob& job) {
  return of_prompts(job, "ppo", {1, 0, 0.5, 0}) +
         Arguments{"--base_model",       preference_golden("model").string(),
                   "--tokenizer_config", preference_golden("model").string(),
                   "--value_model_path", preference_golden("reward_model").string(),
                   "--num_mini_batches", "1",
                   "--sequence_len",     "32"};
}

// Writes a copy of a model or an adapter in which one weight differs.
fs::path changed_copy(const fs::path& from, const fs::path& to) {
  fs::copy(from, to, fs::copy_options::recursive);
  for (const fs::directory_entry& entry : fs::directory_iterator(to)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::string bytes = read_file(entry.path(), 1 << 26);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_file(entry.path(), bytes);
  }
  return to;
}

}  // namespace

TEST_CASE("a rank with a model of other sizes than rank 0's ends all of them with its name") {
  const TinyJob job;
  const std::string other = (source_folder() / "tests/golden/ppo/value_model").string();
  check_said(said_of_unlike(job, "run", of_ppo(job), {"--value_model_path", other}), "value_model_path");
}

TEST_CASE("a rank with other contents in a folder that the run begins with ends all of them with its name") {
  const TinyJob job;
  const auto changed = [&](const char* golden) {
    return changed_copy(preference_golden(golden), job.output(std::string("changed_") + golden)).string();
  };
  const std::string rewards = changed("reward_model");
  check_said(said_of_unlike(job, "values", of_ppo(job), {"--value_model_path", rewards}), "value_model_path");

  const std::string model = preference_golden("model").string();
  const Arguments continued = {
      "--base_model",   model, "--tokenizer_config", model,
      "--lora_dropout", "0",   "--lora_model_dir",   preference_golden("adapter_fresh").string()};
  check_said(said_of_unlike(job, "adapter", continued, {"--lora_model_dir", changed("adapter_fresh")}),
             "lora_model_dir");
  check_said(said_of_unlike(job, "base", continued, {"--base_model", changed("model")}), "base_model");
}

TEST_CASE("ranks with other budgets, plans and threads have the bits of ranks that are alike") {
  const TinyJob job;
  const Arguments own[] = {{"--memory.plan", "fixed"},
                           {"--memory.disk_checksum", "true"},
                           {"--memory.device", "64MiB"},
                           {"--dataset_processes", "3"}};
  for (const char* stage : {"2", "3"}) {
    const Arguments all = job.train(std::string("alike") + stage, {"--zero_stage", stage, "--max_steps", "4"});
    for (const std::string& error : run_ranks_of({all, all})) CHECK(error == "");
    for (size_t i = 0; i < std::size(own); ++i) {
      CAPTURE(i);
      const std::string name = fmt::format("unlike{}_{}", stage, i);
      const Arguments first = job.train(name, {"--zero_stage", stage, "--max_steps", "4"});
      for (const std::string& error : run_ranks_of({first, first + own[i]})) CHECK(error == "");
      CHECK(job.adapter(name) == job.adapter(std::string("alike") + stage));
    }
  }
}
