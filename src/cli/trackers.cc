#include "cli/trackers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>

#include "base/json.h"
#include "base/log.h"
#include "base/this_host.h"
#include "config/file_uri.h"
#include "config/keys.h"
#include "config/wandb_id.h"
#include "io/checksum.h"
#include "report/event_file.h"
#include "saved/run_settings.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Returns a value as it would be in a config: a number, true or false where it is one, else the text.
Json value_of(const std::string& text) {
  Json value = parse_json<Json>(text, "config");
  if (value.is_number() || value.is_boolean()) return value;
  return text;
}

// Returns the first that is not empty.
std::string first_of(std::initializer_list<std::string> texts) {
  for (const std::string& text : texts) {
    if (!text.empty()) return text;
  }
  return {};
}

std::string variable(const Environment& environment, const char* name) {
  const char* const value = environment(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

bool is_true(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text == "1" || text == "true" || text == "on" || text == "yes";
}

std::string folder_name(const fs::path& folder) {
  return (fs::absolute(folder) / "").lexically_normal().parent_path().filename().string();
}

// 32 hexadecimal digits.
std::string mlflow_run_id(const train::RunIdentity& run) {
  Checksum sum;
  sum.add(std::as_bytes(std::span(run.id)));
  return run.id + sum.text();
}

}  // namespace

Json tracked_settings(const config::LoadedConfig& loaded, const train::Job& job, const train::TrainingLength& length) {
  constexpr std::string_view kToken = "hub_token";
  Json settings = Json::object();
  for (const auto& [name, where] : loaded.given) {
    const config::ConfigKey* key = config::find_key(name);
    if (key == nullptr || key->status != config::KeyStatus::kSupported || name == kToken) continue;
    if (const std::string value = key->print(&loaded.keys); !value.empty()) settings[name] = value_of(value);
  }
  for (const auto& [name, value] : train::settings_of(job, length)) settings[name] = value_of(value);
  return settings;
}

bool is_wandb_enabled(const config::WandbSettings& wandb, const Environment& environment) {
  return first_of({wandb.mode, variable(environment, "WANDB_MODE")}) != "disabled" &&
         !is_true(variable(environment, "WANDB_DISABLED"));
}

WandbRunInfo wandb_info(const config::WandbSettings& wandb, const train::RunIdentity& run, Json settings,
                        const Environment& environment) {
  constexpr size_t kIdLetters = 8;  // as many as wandb's own
  if (wandb.run_id.empty()) config::check_wandb_id(variable(environment, "WANDB_RUN_ID"), "WANDB_RUN_ID");
  return {.id = first_of({wandb.run_id, variable(environment, "WANDB_RUN_ID"), run.id.substr(0, kIdLetters)}),
          .project = first_of({wandb.project, variable(environment, "WANDB_PROJECT"), "huggingface"}),
          .entity = first_of({wandb.entity, variable(environment, "WANDB_ENTITY")}),
          .name = first_of({wandb.name, variable(environment, "WANDB_NAME")}),
          .group = variable(environment, "WANDB_RUN_GROUP"),
          .job_type = variable(environment, "WANDB_JOB_TYPE"),
          .notes = variable(environment, "WANDB_NOTES"),
          .tags = parts_of(variable(environment, "WANDB_TAGS")),
          .started = run.started,
          .host = host_name(),
          .config = std::move(settings)};
}

fs::path wandb_folder(const fs::path& output, const Environment& environment) {
  const std::string folder = variable(environment, "WANDB_DIR");
  return (folder.empty() ? output : fs::path(folder)) / "wandb";
}

MlflowRunInfo mlflow_info(const config::MlflowSettings& mlflow, const train::RunIdentity& run, const fs::path& output,
                          Json settings, const Environment& environment) {
  return {.id = mlflow_run_id(run),
          .experiment = first_of({mlflow.experiment, variable(environment, "MLFLOW_EXPERIMENT_NAME"), "Default"}),
          .name = first_of({mlflow.name, folder_name(output)}),
          .params = std::move(settings)};
}

fs::path mlflow_store(const config::MlflowSettings& mlflow, const fs::path& output, const Environment& environment) {
  fs::path store = output / "mlruns";
  const std::string uri = first_of({mlflow.tracking_uri, variable(environment, "MLFLOW_TRACKING_URI")});
  if (uri.empty()) return store;
  if (const std::optional<fs::path> folder = config::folder_of_uri(uri)) return *folder;
  log_warning("MLFLOW_TRACKING_URI names no folder, and nothing is sent to a server: the run is written to {}",
              store.string());
  return store;
}

TrackioRunInfo trackio_info(const config::TrackioSettings& trackio, const train::RunIdentity& run,
                            const fs::path& output, Json settings) {
  return {.id = run.id,
          .project = first_of({trackio.project, "huggingface"}),
          .name = first_of({trackio.name, folder_name(output)}),
          .config = std::move(settings)};
}

fs::path trackio_folder(const fs::path& output, const Environment& environment) {
  const std::string folder = variable(environment, "TRACKIO_DIR");
  return folder.empty() ? output / "trackio" : fs::path(folder);
}

std::vector<std::unique_ptr<Tracker>> open_trackers(const config::OutputSettings& output,
                                                    const config::TrackerSettings& settings,
                                                    const train::RunIdentity& run, ResumePoint resumed,
                                                    const Json& values, const Environment& environment) {
  std::vector<std::unique_ptr<Tracker>> trackers;
  const fs::path folder = output.output_dir;
  if (output.tensorboard)
    trackers.push_back(std::make_unique<EventFile>(event_folder(folder, run.started), resumed.step));
  if (settings.wandb && is_wandb_enabled(*settings.wandb, environment)) {
    trackers.push_back(std::make_unique<WandbRun>(wandb_folder(folder, environment),
                                                  wandb_info(*settings.wandb, run, values, environment), resumed));
  } else if (settings.wandb) {
    log_info("wandb is disabled, and nothing is written for it");
  }
  if (settings.mlflow)
    trackers.push_back(std::make_unique<MlflowRun>(mlflow_store(*settings.mlflow, folder, environment),
                                                   mlflow_info(*settings.mlflow, run, folder, values, environment),
                                                   resumed));
  if (settings.trackio)
    trackers.push_back(std::make_unique<TrackioRun>(trackio_folder(folder, environment),
                                                    trackio_info(*settings.trackio, run, folder, values), resumed));
  return trackers;
}

}  // namespace spillway
