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

// Any program that speaks the protocol.
class ProgramFunction final : public RewardFunction {
 public:
  // Throws InputError where the program cannot be run.
  ProgramFunction(const RewardEntry& entry, double timeout_seconds);
  RewardOutput evaluate(const RewardInput& input) override;

 private:
  std::string name_;
  double timeout_seconds_;
  ChildProcess process_;
  int64_t calls_ = 0;
};

// All Python functions of a config, in one process.
class PythonFunctions {
 public:
  // Throws InputError for an interpreter, a function or a package that is not there.
  PythonFunctions(std::vector<PythonFunction> functions, const RewardSettings& settings);

  // In the order of the functions. Throws as RewardFunction::evaluate.
  [[nodiscard]] std::vector<RewardOutput> evaluate(const RewardInput& input);

 private:
  void say_hello(const std::string& python);

  std::vector<PythonFunction> functions_;
  double timeout_seconds_;
  ChildProcess process_;
  int64_t calls_ = 0;
};

// A Python function that makes rows of prompts out of the records of a data set: axolotl's prompt transforms.
class RowFunction {
 public:
  // `cfg` is what it gets of the config. Throws InputError for an interpreter or a function that is not there. `where`
  // names the dataset in errors.
  RowFunction(std::string name, std::string where, Json cfg, const RewardSettings& settings);

  // A row for each record, in their order: the record without the columns that are to be removed, and what the function
  // returns over it. Throws as RewardFunction::evaluate.
  [[nodiscard]] std::vector<Json> rows_of(std::vector<Json> records);

 private:
  std::string name_, where_;
  Json cfg_;
  double timeout_seconds_;
  ChildProcess process_;
  int64_t calls_ = 0;
};

// The last part of a path.
[[nodiscard]] std::string file_name(std::string_view path);

}  // namespace spillway::rewards
