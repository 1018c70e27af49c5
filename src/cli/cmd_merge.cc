#include "cli/cmd_merge.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "model/merge.h"

namespace spillway {

int cmd_merge(std::span<const std::string> args) {
  std::string model, adapter, out;
  bool json = false;
  CommandLine line("spillway merge", "Folds a LoRA adapter into its base and writes a complete model folder.");
  line.required("MODEL", model, "the base's folder");
  line.required("--adapter FOLDER", adapter, "the PEFT adapter folder");
  line.required("--out FOLDER", out, "the folder to write: new, empty, or one that this command wrote");
  line.flag("--json", json, "print one JSON document");
  line.example("spillway merge ./base --adapter ./model-out --out ./merged");
  if (!line.parse(args)) return kDone;
  merge_adapter(model, adapter, out);
  if (json) {
    fmt::print("{}\n", json_text(nlohmann::ordered_json{{"out", out}}, 2));
  } else {
    fmt::print("the merged model is in {}\n", shown_line(out));
  }
  return kDone;
}

}  // namespace spillway
