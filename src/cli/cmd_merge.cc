#include "cli/cmd_merge.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "model/merge.h"

namespace spillway {

int cmd_merge(std::span<const std::string> args) {
  std::string model, adapter, out;
  bool json = false;
  CLI::App app("Fold a LoRA adapter into its base and write a complete model folder.", "spillway merge");
  app.add_option("MODEL", model, "the base's folder")->required();
  app.add_option("--adapter", adapter, "the PEFT adapter folder")->required();
  app.add_option("--out", out, "the folder to write")->required();
  app.add_flag("--json", json, "print one JSON document");
  if (!parse_command_line(app, args)) return kDone;
  merge_adapter(model, adapter, out);
  if (json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"out", out}}.dump(2));
  } else {
    fmt::print("the merged model is in {}\n", out);
  }
  return kDone;
}

}  // namespace spillway
