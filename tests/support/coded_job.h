// A job over a model whose files hold codes, and what of it is the same for every format.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/mode_jobs.h"
#include "tests/support/process.h"
#include "tests/support/tiny_job.h"

namespace spillway::testing {

// Runs the program, which succeeds, and returns what it prints.
inline std::string succeed(const std::vector<std::string>& args) {
  const Finished done = run_spillway(args);
  INFO(done.err);
  REQUIRE(done.status == 0);
  return done.out;
}

class CodedJob {
 public:
  explicit CodedJob(const std::filesystem::path& model) : base_(job_.output("base")) {
    std::filesystem::copy(model, base_);
    std::filesystem::copy(job_.output("tokenizer.json"), base_);
  }

  [[nodiscard]] const TinyJob& job() const { return job_; }
  [[nodiscard]] std::string base() const { return base_.string(); }
  [[nodiscard]] std::string output(const std::string& name) const { return job_.output(name).string(); }
  [[nodiscard]] std::string config() const { return output("lora.yml"); }

  // Trains an adapter in the folder lora. Checks that it is the one of decoded weights, where `format` is what
  // model_quantization_config calls the codes, and that all weights are trained only where they are decoded. Trains
  // these in the folder full, and merges the adapter into the folder merged. Returns the first run.
  [[nodiscard]] Finished check_training(const std::string& format) const {
    Finished trained = train("lora", {});
    INFO(trained.err);
    REQUIRE(trained.status == 0);
    REQUIRE(train("dense", {"--model_quantization_config", format, "--dequantize", "true"}).status == 0);
    CHECK(job_.adapter("lora") == job_.adapter("dense"));
    const Finished refused = train("refused", {"--adapter", ""});
    CHECK(refused.status == 2);
    CHECK(refused.err.find("set adapter: lora, or dequantize: true: quantised weights are not trained") !=
          std::string::npos);
    REQUIRE(train("full", {"--adapter", "", "--dequantize", "true"}).status == 0);
    succeed({"merge", base(), "--adapter", output("lora"), "--out", output("merged")});
    for (const char* name : {"full", "merged"})
      CHECK_FALSE(read_json(job_.output(name) / "config.json").contains("quantization_config"));
    return trained;
  }

  // Checks that the base is asked, evaluated and planned with that adapter. REQUIRES: check_training().
  void check_uses() const {
    const auto ids = [&](const std::vector<std::string>& model) {
      std::vector<std::string> args = {"generate", "--prompt",      "w5 w9 w12", "--max-new-tokens",
                                       "6",        "--temperature", "0",         "--json"};
      args.insert(args.begin() + 1, model.begin(), model.end());
      return nlohmann::json::parse(succeed(args))["ids"];
    };
    CHECK(ids({output("merged")}) == ids({base(), "--adapter", output("lora")}));
    const auto evaluated = nlohmann::json::parse(
        succeed({"eval", base(), "--adapter", output("lora"), "--config", config(), "--training-rows", "--json"}));
    CHECK(evaluated["loss"].get<double>() > 0);
    const auto planned = nlohmann::json::parse(succeed({"plan", config(), "--base_model", base(), "--json"}));
    CHECK(planned["fits"] == true);
  }

 private:
  [[nodiscard]] Finished train(const std::string& name, std::vector<std::string> more) const {
    more.insert(more.end(), {"--base_model", base(), "--max_steps", "4"});
    return run_spillway(job_.train(name, more));
  }

  TinyJob job_;
  std::filesystem::path base_;
};

// Checks that a training reads the parts of a weight where the model's files have them. Returns their types.
inline std::vector<ValueType> types_in_files(const TinyTraining& training, const std::string& weight) {
  const Parameter* p = training.training().model.parameters.find(weight);
  REQUIRE(p != nullptr);
  std::vector<ValueType> types;
  for (const ValueId id : p->values) {
    const auto& homes = training.plan().program.homes;
    const auto home = std::find_if(homes.begin(), homes.end(), [&](const Operand& o) { return o.value == id; });
    REQUIRE(home != homes.end());
    CHECK(home->place.tier == Tier::kFiles);
    types.push_back(training.training().graph.value(id).type);
  }
  return types;
}

}  // namespace spillway::testing
