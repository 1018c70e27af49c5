#include "cli/cmd_make_example.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/examples/moving_shapes.h"
#include "io/file.h"
#include "io/output_folder.h"
#include "report/progress.h"

namespace spillway {

int cmd_make_example(std::span<const std::string> args) {
  constexpr std::string_view kName = "moving-shapes";
  std::string name, out;
  bool json = false;
  MovingShapesOptions options;
  CommandLine line("spillway make-example", "Writes a model and the data of an example.");
  line.required("NAME", name, "moving-shapes: a video transformer, and clips of shapes that move");
  line.required("--out FOLDER", out, "the folder to write: new, empty, or one that this command wrote");
  line.option("--clips N", options.clips, "clips to train on", 1, 1'000'000);
  line.option("--seed N", options.seed, "of the clips");
  line.flag("--json", json, "print one JSON document");
  line.example("spillway make-example moving-shapes --out ./moving-shapes");
  if (!line.parse(args)) return kDone;
  if (name != kName)
    throw input_error("spillway make-example", "expected {}, got {}; there are no others", kName, quote(name));
  check_replaceable("--out", out, "make-example");
  Progress progress({});
  AtomicFolder folder(out, "make-example");
  write_moving_shapes(folder.path(), options, [&](int64_t done, int64_t of) {
    progress.count(fmt::format("of {} clips written", of), done, now_seconds());
  });
  folder.publish();
  progress.clear();
  if (json) {
    const nlohmann::ordered_json document = {
        {"out", out}, {"clips", options.clips}, {"other_clips", options.other_clips}, {"seed", options.seed}};
    fmt::print("{}\n", json_text(document, 2));
  } else {
    fmt::print("{}: a model, and {} clips\n", shown_line(out), options.clips + options.other_clips);
  }
  return kDone;
}

}  // namespace spillway
