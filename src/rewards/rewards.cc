#include "rewards/rewards.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "rewards/builtin.h"
#include "rewards/outside.h"

namespace spillway::rewards {
namespace {

std::string plain_name(const RewardEntry& entry) {
  switch (entry.kind) {
    case RewardEntry::Kind::kBuiltin:
      return std::string(find_builtin(entry.name)->metrics_name);
    case RewardEntry::Kind::kPython:
      return entry.name.substr(entry.name.rfind('.') + 1);
    case RewardEntry::Kind::kProgram:
      return file_name(entry.command.front());
    case RewardEntry::Kind::kModel:
      break;
  }
  return file_name(entry.name);
}

bool is_in_python(const RewardEntry& entry) {
  return entry.kind == RewardEntry::Kind::kPython ||
         (entry.kind == RewardEntry::Kind::kBuiltin && find_builtin(entry.name)->in_python);
}

void check_entry(const RewardEntry& entry, const ModelRewardFactory& make_model) {
  if (entry.kind == RewardEntry::Kind::kBuiltin) check_arguments(entry);
  if (entry.kind == RewardEntry::Kind::kModel && !make_model)
    throw input_error(entry.where, "expected a function, got the model {}; use a program that runs models",
                      quote(entry.name));
}

}  // namespace

std::vector<std::string> names_of(std::span<const RewardEntry> entries) {
  std::vector<std::string> names;
  const auto is_taken = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const RewardEntry& entry : entries) {
    const std::string plain = plain_name(entry);
    std::string name = plain;
    for (int i = 2; is_taken(name); ++i) name = fmt::format("{}_{}", plain, i);
    names.push_back(std::move(name));
  }
  return names;
}

class RewardFunctions::Python : public PythonFunctions {
 public:
  using PythonFunctions::PythonFunctions;
};

RewardFunctions::RewardFunctions(const RewardSettings& settings, const ModelRewardFactory& make_model)
    : names_(names_of(settings.functions)) {
  for (const RewardEntry& entry : settings.functions) check_entry(entry, make_model);
  std::vector<PythonFunction> in_python;
  for (size_t i = 0; i < settings.functions.size(); ++i) {
    const RewardEntry& entry = settings.functions[i];
    auto& function = functions_.emplace_back();
    if (is_in_python(entry)) {
      in_python.push_back({entry.kind == RewardEntry::Kind::kPython ? entry.name : names_[i], entry});
    } else if (entry.kind == RewardEntry::Kind::kProgram) {
      function = std::make_unique<ProgramFunction>(entry, settings.timeout_seconds);
    } else {
      function = entry.kind == RewardEntry::Kind::kModel ? make_model(entry) : make_builtin(entry);
    }
  }
  if (!in_python.empty()) python_ = std::make_unique<Python>(std::move(in_python), settings);
}

RewardFunctions::~RewardFunctions() = default;

std::vector<RewardOutput> RewardFunctions::evaluate(const RewardInput& input) {
  std::vector<RewardOutput> of_python;
  if (python_) of_python = python_->evaluate(input);
  std::vector<RewardOutput> outputs;
  auto next = of_python.begin();
  for (const auto& function : functions_) outputs.push_back(function ? function->evaluate(input) : std::move(*next++));
  return outputs;
}

}  // namespace spillway::rewards
