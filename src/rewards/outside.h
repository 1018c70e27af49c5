// Reward functions that run in processes of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rewards/child_process.h"
#include "rewards/protocol.h"
#include "rewards/rewards.h"

namespace spillway::rewards {

// Runs any program that speaks the protocol.
class ProgramFunction final : public RewardFunction {
 public:
  // Throws InputError if the program cannot be run.
  ProgramFunction(const RewardEntry& entry, double timeout_seconds);
  RewardOutput evaluate(const RewardInput& input) override;

 private:
  std::string name_;
  double timeout_seconds_;
  ChildProcess process_;
  int64_t calls_ = 0;
};

// Runs all Python functions of a config, in one process.
class PythonFunctions {
 public:
  // Throws InputError for an interpreter, a function or a package that is missing.
  PythonFunctions(std::vector<PythonFunction> functions, const RewardSettings& settings);

  // Returns the outputs in the order of the functions. Throws as RewardFunction::evaluate.
  [[nodiscard]] std::vector<RewardOutput> evaluate(const RewardInput& input);

 private:
  void say_hello(const std::string& python);

  std::vector<PythonFunction> functions_;
  double timeout_seconds_;
  ChildProcess process_;
  int64_t calls_ = 0;
};

// Runs a Python function that makes rows of prompts from the records of a data set: axolotl's prompt transforms.
class RowFunction {
 public:
  // `cfg` is the part of the config that it gets. Throws InputError for an interpreter or a function that is missing.
  // `where` names the dataset in errors.
  RowFunction(std::string name, std::string where, Json cfg, const RewardSettings& settings);

  // Returns a row for each record, in their order: the record without the columns to remove, updated with the
  // function's result. Throws as RewardFunction::evaluate.
  [[nodiscard]] std::vector<Json> rows_of(std::vector<Json> records);

 private:
  std::string name_, where_;
  Json cfg_;
  double timeout_seconds_;
  ChildProcess process_;
  int64_t calls_ = 0;
};

// Returns the last part of a path.
[[nodiscard]] std::string file_name(std::string_view path);

}  // namespace spillway::rewards
