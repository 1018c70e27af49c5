#include "cli/cmd_plan.h"

#include "base/error.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"
#include "io/file.h"
#include "plan/print.h"
#include "report/report_html.h"
#include "report/report_json.h"
#include "runtime/measure.h"
#include "train/job.h"
#include "train/measure_job.h"

namespace spillway {
namespace {

// Points of the frontier: enough to see its shape, few enough that planning stays a matter of a second.
constexpr int kFrontierPoints = 9;

constexpr CommandFlag kFlags[] = {
    {"--check-config", "", "look at keys and values only, not at the model or the data"},
    {"--machine", "FILE.json", "plan for a machine that `spillway doctor --json` described, not for this one"},
    {"--html", "FILE", "write the page that a run would leave, with predictions only"},
    {"--json", "", "print one JSON document"}};

int print_checked(const ConfigArguments& arguments, const train::LoadedConfig& loaded) {
  if (arguments.has("--json")) {
    const nlohmann::ordered_json document = {{"config", arguments.path}, {"ok", true}, {"ignored", loaded.ignored}};
    fmt::print("{}\n", json_text(document, 2));
  } else {
    fmt::print("{}: all keys and values are fine\n", arguments.path);
  }
  return kDone;
}

Machine read_machine(const std::string& path) {
  const nlohmann::json json = parse_json(read_file(path, int64_t{1} << 20), path);
  if (json.is_discarded()) {
    throw input_error(path, "expected JSON, got something else; write the file with `spillway doctor --json`");
  }
  // What doctor prints holds the machine beside what else it found.
  return machine_from_json(json.contains("machine") ? json["machine"] : json, path);
}

}  // namespace

int cmd_plan(std::span<const std::string> args) {
  const auto arguments = parse_config_arguments(
      "plan", "Shows where every byte will live and what a step costs; trains nothing.", kFlags, args);
  if (!arguments) return kDone;
  const train::LoadedConfig loaded = load_config(*arguments, train::ConfigUse::kTrain);
  if (arguments->has("--check-config")) return print_checked(*arguments, loaded);

  const bool elsewhere = arguments->has("--machine");
  Machine machine =
      elsewhere ? read_machine(arguments->value("--machine")) : this_machine(train::disk_paths(loaded.config).front());
  const train::Job job = train::make_job(loaded.config, machine);
  if (!elsewhere) train::measure_job(job, machine);
  const train::PlannedJob planned = train::plan_job(job, machine, kFrontierPoints);
  if (arguments->has("--json")) {
    fmt::print("{}\n", json_text(plan_json(planned.training.graph, planned.plan, planned.context), 2));
  } else {
    fmt::print("{}", print_plan(planned.training.graph, planned.plan, planned.context));
  }
  if (planned.plan.fits) {
    if (arguments->has("--html")) write_file(arguments->value("--html"), report_html(plan_report(planned, machine)));
    return kDone;
  }
  throw InputError(shortage_message(planned.plan, planned.context));
}

}  // namespace spillway
