// Jobs whose ranks share sequences (context_parallel_size), as threads of this process, beside one rank with the same
// global batch: losses and norms agree as two orders of summation do, and plans change no bit.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/file.h"
#include "tests/support/captured.h"
#include "tests/support/ranks_run.h"
#include "tests/support/tiny_job.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

constexpr int kContextSteps = 4;

nlohmann::json json_file(const fs::path& path) { return nlohmann::json::parse(read_file(path, 1 << 24)); }

// Trains on `groups` groups of `context` ranks, with four micro-batches a step.
void train_shared(const TinyJob& job, const std::string& name, int groups, int context, const Arguments& more) {
  CAPTURE(name);
  const Arguments all = more + Arguments{"--gradient_accumulation_steps", std::to_string(4 / groups),
                                         "--max_steps", std::to_string(kContextSteps), "--val_set_size", "2",
                                         "--eval_steps", "2", "--bf16", "false",
                                         "--context_parallel_size", std::to_string(context)};
  for (const std::string& error : run_over_ranks(groups * context, job.train(name, all))) CHECK(error == "");
}

// The numbers of metrics.jsonl that ranks must agree on, by line and key.
std::map<std::string, double> numbers_of(const TinyJob& job, const std::string& name) {
  std::map<std::string, double> numbers;
  const std::string text = read_file(job.output(name) / "metrics.jsonl", 1 << 24);
  int number = 0;
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1, ++number) {
    const nlohmann::json line = nlohmann::json::parse(text.substr(begin, text.find('\n', begin) - begin));
    for (const char* key : {"loss", "grad_norm", "eval_loss", "mean_token_accuracy", "eval_mean_token_accuracy",
                            "num_tokens", "learning_rate"})
      if (line.contains(key)) numbers[std::to_string(number) + " " + key] = line[key].get<double>();
  }
  return numbers;
}

void check_close_numbers(const TinyJob& job, const std::string& one, const std::string& several) {
  const std::map<std::string, double> expected = numbers_of(job, one), got = numbers_of(job, several);
  CHECK(expected.size() >= 2 * kContextSteps);
  CHECK(got.size() == expected.size());
  for (const auto& [key, number] : expected) {
    CAPTURE(several);
    CAPTURE(key);
    REQUIRE(got.contains(key));
    CHECK(std::abs(got.at(key) - number) <= 1e-5 * std::max(1.0, std::abs(number)));
  }
}

struct SharedRanks {
  int groups, context;
};

void check_shared(const TinyJob& job, const Arguments& more, std::initializer_list<SharedRanks> all) {
  train_shared(job, "one", 1, 1, more);
  for (const auto& [groups, context] : all) {
    const std::string name = fmt::format("{}x{}", groups, context);
    train_shared(job, name, groups, context, more);
    check_close_numbers(job, "one", name);
  }
}

Arguments model_of(const std::string& name) {
  return {"--base_model", (fs::path(SPILLWAY_SOURCE_DIR) / "tests/golden/models" / name).string()};
}

}  // namespace

TEST_CASE("ranks that share sequences have the losses, norms and evaluations of one rank") {
  const TinyJob job;
  check_shared(job, {}, {{1, 2}, {2, 2}, {1, 4}});
}
