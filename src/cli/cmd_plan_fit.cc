#include "cli/cmd_plan_fit.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "base/math.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/plan_machine.h"
#include "io/file.h"
#include "io/output_folder.h"
#include "job/fit/catalogue.h"
#include "job/fit/fit.h"
#include "job/tiers.h"
#include "report/progress.h"

namespace spillway {
namespace {

using nlohmann::ordered_json;

std::span<const FitMethod> methods_of(const ConfigArguments& arguments, const FitFamily& family) {
  if (!arguments.has("--method")) return family.methods;
  const std::string name = arguments.value("--method");
  std::vector<std::string_view> known;
  for (size_t i = 0; i < family.methods.size(); ++i) {
    if (family.methods[i].name == name) return family.methods.subspan(i, 1);
    known.push_back(family.methods[i].name);
  }
  throw input_error("--method", "expected {}, got {}; name one of them", joined_names(known), quote(name));
}

std::string gib(int64_t bytes) { return fmt::format("{:.1f}", static_cast<double>(bytes) / static_cast<double>(kGiB)); }

// One line: what it takes of each tier and how fast it is, or what is missing.
std::string row_line(const FitRow& row) {
  std::string line = fmt::format("  {:<6} {:>8}", row.method, gib(row.budget.device.value_or(0)));
  if (!row.fits) {
    line += "        does not fit";
    for (size_t i = 0; i < kBudgetedTiers; ++i) {
      if (row.missing_bytes[i] > 0)
        line += fmt::format("; {} more of {}", format_bytes(row.missing_bytes[i]), name_of(static_cast<Tier>(i)));
    }
    return line;
  }
  line += fmt::format(" {:>10} {:>6}", fmt::format("{:.0f}", row.tokens_per_second), row.micro_batch_size);
  for (const int64_t bytes : row.peak_bytes) line += fmt::format(" {:>8}", bytes == 0 ? "-" : gib(bytes));
  return line;
}

void print_head(const NamedModel& model, const FitQuestion& question) {
  fmt::print("{} on {}\n\n", shown_line(model.name), question.machine.name);
  fmt::print("         memory of                       what the fastest plan takes, GiB\n");
  fmt::print("  method  device {:>9}   rows   device     host     disk\n", fmt::format("{}/s", question.family.unit));
  std::fflush(stdout);
}

ordered_json row_json(const FitRow& row) {
  ordered_json tiers = ordered_json::object();
  for (size_t i = 0; i < kBudgetedTiers; ++i) {
    const auto tier = static_cast<Tier>(i);
    const std::optional<int64_t> budget = row.budget.of(tier);
    tiers[std::string(name_of(tier))] = {{"budget_bytes", budget ? ordered_json(*budget) : ordered_json(nullptr)},
                                         {"peak_bytes", row.peak_bytes[i]},
                                         {"missing_bytes", row.missing_bytes[i]}};
  }
  return {{"method", row.method},
          {"micro_batch_size", row.micro_batch_size},
          {"fits", row.fits},
          {"step_seconds", row.step_seconds},
          {"tokens_per_second", row.tokens_per_second},
          {"tiers", std::move(tiers)}};
}

// Returns the rows, and prints each as soon as it is found unless `is_quiet`.
std::vector<FitRow> all_rows(const FitQuestion& question, std::span<const FitMethod> methods, bool is_quiet) {
  Progress progress({});
  std::mutex mutex;  // of `progress` and the output
  const auto on_plan = [&](const FitRow& tried) {
    const std::lock_guard lock(mutex);
    progress.hint(fmt::format("planning {} in {} GiB, {} rows per micro-batch", tried.method,
                              gib(tried.budget.device.value_or(0)), tried.micro_batch_size));
  };
  std::string_view last;
  const auto on_row = [&](const FitRow& row) {
    if (is_quiet) return;
    const std::lock_guard lock(mutex);
    progress.clear();
    fmt::print("{}{}\n", last.empty() || last == row.method ? "" : "\n", row_line(row));
    std::fflush(stdout);
    last = row.method;
  };
  std::vector<FitRow> rows = fit_rows(question, methods, on_plan, on_row);
  progress.clear();
  return rows;
}

// Returns the config of the fastest plan. Omits budgets that the user did not set, so that the machine's defaults
// apply.
std::string config_of(const NamedModel& model, const FitQuestion& question, const FitRow& best) {
  const std::span<const FitMethod> methods = question.family.methods;
  const auto method =
      std::find_if(methods.begin(), methods.end(), [&](const FitMethod& one) { return one.name == best.method; });
  return config::written_config({fit_config(model.name, question.family, *method, best.micro_batch_size), "--model",
                                 question.overrides, config::ConfigUse::kTrain});
}

// Returns this machine, as a run of the config would see it, unless another is named.
Machine machine_for(const ConfigArguments& arguments, const NamedModel& model, const FitFamily& family) {
  const config::LoadedConfig loaded = config::load_config(fit_config(model.folder, family, family.methods.front(), 1),
                                                          "--model", arguments.overrides, config::ConfigUse::kTrain);
  const int64_t ranks = loaded.config.ranks.count;
  if (is_elsewhere(arguments)) return machine_elsewhere(arguments, ranks);
  return train::machine_of(loaded.config, *open_device(loaded.config.device), narrow<int>(ranks));
}

}  // namespace

int plan_fit(const ConfigArguments& arguments) {
  const std::string file = arguments.value("--write");
  if (arguments.has("--html"))
    throw input_error("--html", "expected a config beside it, whose plan the page shows, got --model alone; remove it");
  if (!file.empty()) check_new_file("--write", file);
  std::optional<TemporaryFolder> room;
  const NamedModel model = named_model(arguments.value("--model"), room, "--model");
  const FitFamily family = fit_family(model.folder);
  const std::span<const FitMethod> methods = methods_of(arguments, family);
  const FitQuestion question = {model.folder, family, machine_for(arguments, model, family), arguments.overrides};
  const bool is_json = arguments.has("--json");
  if (!is_json) print_head(model, question);
  const std::vector<FitRow> rows = all_rows(question, methods, is_json);
  const FitRow* best = fastest(rows);
  const std::string config = best == nullptr ? "" : config_of(model, question, *best);
  if (is_json) {
    ordered_json document = {
        {"model", model.name}, {"machine", question.machine.name}, {"rows", ordered_json::array()}};
    for (const FitRow& row : rows) document["rows"].push_back(row_json(row));
    document["fastest"] = best == nullptr ? ordered_json(nullptr) : row_json(*best);
    document["config"] = config;
    fmt::print("{}\n", json_text(document, 2));
  }
  if (best == nullptr)
    throw input_error("memory",
                      "expected a way of training that fits, got none; name a smaller model, a larger machine or "
                      "a shorter --sequence_len");
  if (!file.empty()) write_file(file, config);
  if (!is_json) {
    fmt::print("\nthe fastest: {}\n", best->title);
    fmt::print("{}\n", file.empty() ? "--write CONFIG.yml writes its config" : "its config is in " + shown_line(file));
  }
  return kDone;
}

}  // namespace spillway
