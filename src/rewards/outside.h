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

// The last part of a path.
[[nodiscard]] std::string file_name(std::string_view path);

}  // namespace spillway::rewards
