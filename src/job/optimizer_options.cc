#include "job/optimizer_options.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace spillway::train {
namespace {

// torchao's name; an option of any optimizer here.
constexpr std::string_view kStochasticRounding = "bf16_stochastic_round";

void take_keys(const ops::OptimizerDef& optimizer, const config::OptimizerSettings& settings,
               ops::OptimizerOptions& options) {
  const std::pair<std::string_view, std::optional<double>> keys[] = {
      {"weight_decay", settings.weight_decay}, {"adam_beta1", settings.adam_beta1},
      {"adam_beta2", settings.adam_beta2},     {"adam_beta3", settings.adam_beta3},
      {"adam_epsilon", settings.adam_epsilon}, {"adam_epsilon2", settings.adam_epsilon2}};
  for (const ops::OptimizerOption& option : optimizer.options) {
    for (const auto& [key, value] : keys) {
      if (value && key == option.key) options.set(option.name, *value);
    }
  }
}

void take_arg(const ops::OptimizerDef& optimizer, const config::OptimArg& arg, ops::OptimizerOptions& options) {
  const auto found = std::find_if(optimizer.options.begin(), optimizer.options.end(),
                                  [&](const ops::OptimizerOption& option) { return option.name == arg.name; });
  if (found == optimizer.options.end()) {
    std::vector<std::string_view> names;
    for (const ops::OptimizerOption& option : optimizer.options) names.push_back(option.name);
    const std::string_view near = nearest_name(arg.name, names);
    throw input_error(arg.where, "expected an option of this optimizer ({}), got {}; {}", joined_names(names),
                      quote(arg.name), near.empty() ? "remove it" : fmt::format("did you mean {}?", near));
  }
  if (arg.value < found->least || arg.value > found->most) {
    throw input_error(arg.where, "expected {} from {} to {}, got {}; change the value", arg.name, found->least,
                      found->most, arg.value);
  }
  options.set(found->name, arg.value);
}

}  // namespace

ops::OptimizerOptions optimizer_options(const ops::OptimizerDef& optimizer, const config::OptimizerSettings& settings) {
  ops::OptimizerOptions options = ops::options_of(optimizer);
  take_keys(optimizer, settings, options);
  for (const config::OptimArg& arg : settings.args.items) {
    if (arg.name != kStochasticRounding) take_arg(optimizer, arg, options);
  }
  const std::string_view conflict = optimizer.conflict ? optimizer.conflict(options) : "";
  if (!conflict.empty()) {
    throw input_error(settings.args.items.empty() ? "optim_args" : settings.args.items.front().where,
                      "expected {}, got {}; change the options", conflict, to_string(options));
  }
  return options;
}

std::vector<std::string_view> unread_keys(const ops::OptimizerDef& optimizer,
                                          const config::OptimizerSettings& settings) {
  std::vector<std::string_view> unread;
  for (const auto& [key, value] : {std::pair{std::string_view("adam_beta1"), settings.adam_beta1},
                                   {"adam_beta2", settings.adam_beta2},
                                   {"adam_epsilon", settings.adam_epsilon}}) {
    const auto reads = [name = key](const ops::OptimizerOption& option) { return option.key == name; };
    if (value && std::none_of(optimizer.options.begin(), optimizer.options.end(), reads)) unread.push_back(key);
  }
  return unread;
}

bool rounds_stochastically(const config::OptimizerSettings& settings, bool has_masters) {
  for (const config::OptimArg& arg : settings.args.items) {
    if (arg.name != kStochasticRounding) continue;
    if (arg.value != 0 && arg.value != 1)
      throw input_error(arg.where, "expected true or false, got {}; write one of them", arg.value);
    if (arg.value == 0) return false;
    if (!has_masters) return true;
    throw input_error(arg.where, "expected bf16: full beside {}, got f32 masters, of which nothing is rounded; set it",
                      kStochasticRounding);
  }
  return false;
}

std::string spelled_name(const ops::OptimizerOption& option) {
  return option.key.empty() ? fmt::format("optim_args.{}", option.name) : std::string(option.key);
}

}  // namespace spillway::train
