#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "config/file_uri.h"
#include "config/resolve.h"
#include "config/tracker_settings.h"
#include "config/wandb_id.h"

namespace spillway::config {
namespace {

// transformers' names.
constexpr std::array<std::string_view, 15> kTrackers = {"tensorboard", "wandb",    "mlflow",  "trackio",  "none",
                                                        "all",         "azure_ml", "clearml", "comet_ml", "codecarbon",
                                                        "dagshub",     "dvclive",  "flyte",   "neptune",  "swanlab"};
constexpr std::span<const std::string_view> kWritten = std::span(kTrackers).first<4>();

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Throws InputError where report_to and `use_NAME` say different things. Beside all, `use_NAME: false` makes an
// exception.
void check_same(const Resolution& r, std::string_view name, bool uses) {
  const std::vector<std::string>& names = r.keys.report_to;
  const std::string key = fmt::format("use_{}", name);
  if (!r.given(key) || !r.given("report_to")) return;
  const bool differs = uses ? holds(names, "none") : holds(names, name);
  if (differs)
    throw input_error(r.where("report_to"), "expected the same as {}: {}, got {}; remove one", key, uses,
                      quote(uses ? "none" : name));
}

// Returns true if the config asks for this tracker's files; `uses` is the value of its own key.
bool is_asked(const LoadedConfig& loaded, std::string_view name, bool uses) {
  const std::vector<std::string>& names = loaded.keys.report_to;
  const bool is_exception = loaded.given.contains(fmt::format("use_{}", name)) && !uses;
  return uses || holds(names, name) || (holds(names, "all") && !is_exception);
}

void check_names(const Resolution& r) {
  std::vector<std::string_view> others;
  for (const std::string& name : r.keys.report_to) {
    if (std::find(kTrackers.begin(), kTrackers.end(), name) == kTrackers.end()) {
      const std::string_view near = nearest_name(name, kTrackers);
      throw input_error(
          r.where("report_to"),
          "expected tensorboard, wandb, mlflow, trackio, none or another of transformers' trackers, got {}; {}",
          quote(name), near.empty() ? "write tensorboard" : fmt::format("did you mean {}?", near));
    }
    if (std::find(kWritten.begin(), kWritten.end(), name) == kWritten.end() && name != "none" && name != "all")
      others.emplace_back(name);
  }
  if (!others.empty())
    r.note(
        fmt::format("report_to: nothing is written for {}; metrics.jsonl has every step, report.html shows the run, "
                    "{} write files of theirs",
                    fmt::join(others, ", "), fmt::join(kWritten, ", ")));
}

void check_wandb(const Resolution& r) {
  constexpr std::array<std::string_view, 5> kModes = {"online", "offline", "disabled", "dryrun", "run"};
  const std::string& mode = r.keys.wandb_mode;
  if (!mode.empty() && std::find(kModes.begin(), kModes.end(), mode) == kModes.end())
    throw input_error(r.where("wandb_mode"), "expected online, offline or disabled, got {}; choose one", quote(mode));
  check_wandb_id(r.keys.wandb_run_id, r.where("wandb_run_id"));
}

void check_mlflow(const Resolution& r) {
  const std::string& uri = r.keys.mlflow_tracking_uri;
  if (!uri.empty() && !folder_of_uri(uri))
    throw input_error(r.where("mlflow_tracking_uri"),
                      "expected a folder or a file: URI, as nothing is sent to a server, got {}; name a folder",
                      quote(uri));
}

}  // namespace

TrackerSettings trackers_of(const LoadedConfig& loaded) {
  const Spelled& keys = loaded.keys;
  const auto name = [&](const std::string& own) { return own.empty() ? keys.run_name : own; };
  TrackerSettings trackers;
  if (is_asked(loaded, "wandb", keys.use_wandb))
    trackers.wandb = {.project = keys.wandb_project,
                      .entity = keys.wandb_entity,
                      .name = name(keys.wandb_name),
                      .run_id = keys.wandb_run_id,
                      .mode = keys.wandb_mode};
  if (is_asked(loaded, "mlflow", keys.use_mlflow))
    trackers.mlflow = {.tracking_uri = keys.mlflow_tracking_uri,
                       .experiment = keys.mlflow_experiment_name,
                       .name = name(keys.mlflow_run_name)};
  if (is_asked(loaded, "trackio", keys.use_trackio))
    trackers.trackio = {.project = keys.trackio_project_name, .name = name(keys.trackio_run_name)};
  return trackers;
}

bool resolve_trackers(const Resolution& r) {
  const Spelled& keys = r.keys;
  check_names(r);
  check_same(r, "tensorboard", keys.use_tensorboard);
  check_same(r, "wandb", keys.use_wandb);
  check_same(r, "mlflow", keys.use_mlflow);
  check_same(r, "trackio", keys.use_trackio);
  const TrackerSettings trackers = trackers_of(r.loaded);
  if (trackers.wandb) {
    check_wandb(r);
  } else {
    for (const char* key : {"wandb_project", "wandb_entity", "wandb_name", "wandb_run_id", "wandb_mode"})
      r.ignore(key, "report_to: wandb writes a run that `wandb sync` sends");
  }
  if (trackers.mlflow) {
    check_mlflow(r);
  } else {
    for (const char* key : {"mlflow_tracking_uri", "mlflow_experiment_name", "mlflow_run_name"})
      r.ignore(key, "report_to: mlflow writes a run into MLflow's file store");
  }
  if (!trackers.trackio) {
    for (const char* key : {"trackio_project_name", "trackio_run_name"})
      r.ignore(key, "report_to: trackio writes a run for its dashboard");
  }
  if (!trackers.wandb && !trackers.mlflow && !trackers.trackio)
    r.ignore("run_name", "it is the name of a run in wandb, MLflow and trackio");
  return is_asked(r.loaded, "tensorboard", keys.use_tensorboard);
}

}  // namespace spillway::config
