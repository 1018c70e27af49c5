#include "cli/cmd_plan.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"

namespace spillway {
namespace {

constexpr CommandFlag kFlags[] = {{"--check-config", "", "look at keys and values only, not at the model or the data"},
                                  {"--json", "", "print one JSON document"}};

int print_checked(const ConfigArguments& arguments, const train::LoadedConfig& loaded) {
  if (arguments.has("--json")) {
    const nlohmann::ordered_json document = {{"config", arguments.path}, {"ok", true}, {"ignored", loaded.ignored}};
    fmt::print("{}\n", document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    fmt::print("{}: all keys and values are fine\n", arguments.path);
  }
  return kDone;
}

}  // namespace

int cmd_plan(std::span<const std::string> args) {
  const auto arguments = parse_config_arguments(
      "plan", "Shows where every byte will live and what a step costs; trains nothing.", kFlags, args);
  if (!arguments) return kDone;
  const train::LoadedConfig loaded = load_config(*arguments, train::ConfigUse::kTrain);
  if (arguments->has("--check-config")) return print_checked(*arguments, loaded);
  throw input_error("spillway plan", "expected --check-config, got none; plans of whole jobs are not yet supported");
}

}  // namespace spillway
