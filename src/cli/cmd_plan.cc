#include "cli/cmd_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/math.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "cli/cmd_plan_fit.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"
#include "cli/plan_machine.h"
#include "cli/ranks/start_ranks.h"
#include "io/file.h"
#include "io/output_folder.h"
#include "job/changes_that_fit.h"
#include "job/fit/catalogue.h"
#include "job/initial_state.h"
#include "job/measure_job.h"
#include "job/planned_job.h"
#include "job/tiers.h"
#include "plan/host_sums.h"
#include "plan/plan_json.h"
#include "plan/print.h"
#include "report/progress.h"
#include "report/report_html.h"
#include "report/report_json.h"
#include "runtime/cpu_share.h"
#include "runtime/machine_cache.h"
#include "runtime/process_memory.h"
#include "saved/output.h"

namespace spillway {
namespace {

constexpr CommandFlag kPlanFlags[] = {
    {"--check-config", "", "look at keys and values only, not at the model or the data"},
    {"--machine", "FILE.json", "plan for a machine that `spillway doctor --json` described, not for this one"},
    {"--gpu", "NAME", "plan for a GPU or computer of machines/, by its name there: rtx3060-12gb, laptop-cpu-16gb, ..."},
    {"--model", "MODEL",
     "plan for this model: a folder, or a name that is known without one: llama-3-8b, qwen3-4b, ..."},
    {"--method", "NAME", "with --model alone: lora, qlora or full; left out: a table of all"},
    {"--write", "CONFIG.yml", "with --model alone: the config of the fastest plan"},
    {"--ranks", "N", "plan what each of so many ranks does: num_processes"},
    {"--html", "FILE", "write the page that a run would leave, with predictions only, or with what is missing"},
    {"--json", "", "print one JSON document"},
    kIsaFlag};
constexpr std::string_view kPlanExamples[] = {
    "spillway plan config.yml", "spillway plan config.yml --memory.device 6GiB",
    "spillway plan config.yml --check-config", "spillway plan --model llama-3-8b --gpu rtx3060-12gb --method qlora"};
constexpr ConfigCommand kPlanCommand = {"plan",
                                        "Shows where every byte will live and what a step costs; trains nothing.",
                                        kPlanFlags, kPlanExamples, "--model"};

void print_verdicts_json(const std::string& path, const config::LoadedConfig& loaded) {
  auto keys = nlohmann::ordered_json::array();
  auto problems = nlohmann::ordered_json::array();
  for (const config::KeyVerdict& key : loaded.verdicts.keys()) {
    keys.push_back(
        {{"key", key.key}, {"name", key.name}, {"verdict", config::name_of(key.verdict)}, {"note", key.note}});
    if (!key.message.empty()) problems.push_back(key.message);
  }
  for (const std::string& problem : {loaded.other_trainer, loaded.conflict})
    if (!problem.empty()) problems.push_back(problem);
  const nlohmann::ordered_json document = {{"config", path},
                                           {"ok", problems.empty()},
                                           {"ignored", loaded.ignored},
                                           {"keys", std::move(keys)},
                                           {"problems", std::move(problems)}};
  fmt::print("{}\n", json_text(document, 2));
}

void print_verdicts(const std::string& path, const config::LoadedConfig& loaded, bool is_fine) {
  size_t width = 0;
  for (const config::KeyVerdict& key : loaded.verdicts.keys()) width = std::max(width, shown_line(key.key).size());
  for (const config::KeyVerdict& key : loaded.verdicts.keys()) {
    fmt::print("  {:<{}}  {}{}\n", shown_line(key.key), width, config::name_of(key.verdict),
               key.note.empty() ? "" : ": " + shown_line(key.note));
  }
  if (is_fine) {
    fmt::print("{}: all keys and values are fine\n", shown_line(path));
  } else if (!loaded.conflict.empty()) {
    fmt::print("  {}\n", shown_line(loaded.conflict));
  }
}

// Prints the verdict on every key; then the first problem is the command's error.
int check_keys(const ConfigArguments& arguments) {
  const config::LoadedConfig loaded =
      config::check_config_file(arguments.path, arguments.overrides, config::ConfigUse::kTrain);
  const std::string problem = config::first_problem(loaded);
  if (arguments.has("--json")) {
    print_verdicts_json(arguments.shown_path(), loaded);
  } else {
    print_verdicts(arguments.shown_path(), loaded, problem.empty());
  }
  if (!problem.empty()) throw InputError(problem);
  log_notes(loaded);
  return kDone;
}

// Returns true if the command asks what would fit, which needs no file.
bool asks_what_fits(const ConfigArguments& arguments) {
  if (arguments.path.empty() && arguments.has("--model")) return true;
  for (const std::string_view flag : {"--method", "--write"}) {
    if (arguments.has(flag))
      throw input_error(flag, "expected --model without a config beside it, got {}; remove one",
                        quote(arguments.shown_path()));
  }
  return false;
}

}  // namespace

int cmd_plan(std::span<const std::string> args) {
  auto arguments = parse_config_arguments(kPlanCommand, args);
  if (!arguments) return kDone;
  apply_isa_flag(*arguments);
  if (arguments->has("--ranks")) {
    const int ranks = ranks_from(arguments->value("--ranks"), 1'000'000, "from 1 to 1000000");
    arguments->overrides.push_back({"num_processes", fmt::format("{}", ranks)});
  }
  if (asks_what_fits(*arguments)) return plan_fit(*arguments);
  std::optional<TemporaryFolder> room;
  if (arguments->has("--model")) {
    const NamedModel model = named_model(arguments->value("--model"), room, "--model");
    arguments->overrides.push_back({"base_model", model.folder});
  }
  if (arguments->has("--check-config")) return check_keys(*arguments);
  config::LoadedConfig loaded = load_config(*arguments, config::ConfigUse::kTrain, HubNames::kCached);

  const std::string html = arguments->value("--html");
  std::vector<CommandInput> inputs = train::inputs_of(loaded.config);
  inputs.push_back({"CONFIG.yml", arguments->path});
  inputs.push_back({"--machine", arguments->value("--machine")});
  check_apart("--html", html, inputs);
  if (!html.empty()) check_writable_place("--html", html);
  Progress progress({});
  progress.hint("planning");
  const bool elsewhere = is_elsewhere(*arguments);
  const std::shared_ptr<Device> device = open_device(elsewhere ? "cpu" : loaded.config.device);
  BusyNotes busy;
  const int ranks = narrow<int>(loaded.config.ranks.count);
  Machine machine = elsewhere ? machine_elsewhere(*arguments, ranks) : train::machine_of(loaded.config, *device, ranks);
  if (ranks > 1) loaded.config.ranks.place_on_hosts(std::gcd(ranks, machine.ranks_on_host));
  const train::Job job = train::make_job(loaded.config, machine);
  for (const std::string& note : job.notes) log_line(note);
  (void)train::open_weight_files(job, train::MissingWeights::kAllowed);
  train::TrainingGraph training = train::build_training_graph(*job.model, job.graph);
  if (!elsewhere) {
    train::measure_job(job, training, machine, *device, measuring_progress(progress));
    // The ranks will share the CPUs that this command had alone.
    share_rates(machine, 1.0 / ranks);
  }
  std::vector<FrontierPoint> frontier;
  train::PlannedJob planned = train::plan_job(job, machine, std::move(training), &frontier);
  planned.context.frontier = std::move(frontier);
  planned.context.host_sums = host_sums(planned.training.graph, planned.plan, machine, planned.context);
  if (!planned.plan.fits) {
    if (!elsewhere) measure_new_disks(machine, loaded.config.memory.disk_paths, *device);
    progress.hint("looking for what would fit");
    train::add_changes_that_fit(loaded, job, machine, planned);
  } else {
    release_free_memory();
    planned.context.process_bytes = train::predicted_rss_bytes(job, planned, machine);
  }
  progress.clear();
  if (planned.plan.fits) busy.say();
  if (arguments->has("--json")) {
    fmt::print("{}\n", json_text(plan_json(planned.training.graph, planned.plan, planned.context), 2));
  } else {
    fmt::print("{}", shown_text(print_plan(planned.training.graph, planned.plan, planned.context)));
  }
  if (!html.empty()) write_file(html, report_html(plan_report(planned, machine)));
  train::check_fits(planned);
  return kDone;
}

}  // namespace spillway
