#include "cli/cmd_merge.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "model/merge.h"
#include "report/progress.h"

namespace spillway {

int cmd_merge(std::span<const std::string> args) {
  std::string model, adapter, out;
  std::string base = "files";
  bool json = false;
  CommandLine line("spillway merge", "Folds a LoRA adapter into its base and writes a complete model folder.");
  line.model(model, "the base's folder");
  line.required_adapter(adapter, "the PEFT adapter");
  line.required("--out FOLDER", out, "the folder to write: new, empty, or one that this command wrote");
  line.option(
      "--base WHICH", base,
      "merge into the weights in MODEL (files), or into what the adapter was trained on where that was quantised "
      "from them (quantised)");
  line.flag("--json", json, "print one JSON document");
  line.example("spillway merge ./base --adapter ./model-out --out ./merged");
  if (!line.parse(args)) return kDone;
  if (base != "files" && base != "quantised")
    throw input_error("--base", "expected files or quantised, got {}; choose one of them", quote(base));
  Progress progress({});
  merge_adapter(model, adapter, out, base == "files" ? MergeBase::kFiles : MergeBase::kQuantised,
                [&](int64_t done, int64_t total) {
                  progress.load({.what = "weights", .bytes = done, .total_bytes = total}, now_seconds());
                });
  progress.clear();
  if (json) {
    fmt::print("{}\n", json_text(nlohmann::ordered_json{{"out", out}}, 2));
  } else {
    fmt::print("the merged model is in {}\n", shown_line(out));
  }
  return kDone;
}

}  // namespace spillway
