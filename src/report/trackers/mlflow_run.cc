#include "report/trackers/mlflow_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <span>
#include <sstream>

#include "base/json.h"
#include "base/utf8.h"
#include "io/checksum.h"
#include "io/file.h"
#include "report/metrics.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

enum Status { kRunning = 1, kFinished = 3, kFailed = 4, kKilled = 5 };  // of mlflow.entities.RunStatus

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Returns a text as a scalar of YAML: JSON's strings are some.
std::string yaml_text(std::string_view text) { return json_text(Json(text)); }

std::string file_uri(const fs::path& path) {
  constexpr std::string_view kPlain = "-._~/";
  std::string uri = "file://";
  for (const char c : path.string()) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || kPlain.find(c) != std::string_view::npos) {
      uri += c;
    } else {
      uri += fmt::format("%{:02X}", byte);
    }
  }
  return uri;
}

// Returns the value of a key on a line of its own; empty if there is none. Reads quoted and plain scalars.
std::string value_of(const std::string& yaml, std::string_view key) {
  std::istringstream lines(yaml);
  const std::string begin = fmt::format("{}: ", key);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(begin)) continue;
    std::string value = line.substr(begin.size());
    if (value.starts_with('"')) {  // YAML has escapes that JSON lacks; such a name is not ours
      const Json text = parse_json<Json>(value, "meta.yaml");
      return text.is_string() ? text.get<std::string>() : value;
    }
    if (value.size() < 2 || !value.starts_with('\'')) return value;
    value = value.substr(1, value.size() - 2);
    for (size_t at = value.find("''"); at != std::string::npos; at = value.find("''", at + 1)) value.erase(at, 1);
    return value;
  }
  return "";
}

constexpr int64_t kMaxMetaBytes = 1 << 20;

std::string meta_of(const fs::path& folder) {
  return fs::is_regular_file(folder / "meta.yaml") ? read_file(folder / "meta.yaml", kMaxMetaBytes) : "";
}

// Returns the id of the experiment of this name, which is created if there is none. MLflow's ids have 18 digits; here
// they follow from the name, so that two runs that begin at once make the same.
std::string experiment_id(const fs::path& store, const std::string& name) {
  create_folders(store);
  for (const fs::directory_entry& entry : fs::directory_iterator(store)) {
    if (entry.is_directory() && value_of(meta_of(entry.path()), "name") == name)
      return entry.path().filename().string();
  }
  constexpr std::string_view kDefault = "Default";
  constexpr uint64_t kIds = 900'000'000'000'000'000, kFirstId = 100'000'000'000'000'000;
  Checksum sum;
  sum.add(std::as_bytes(std::span(name)));
  std::string id = name == kDefault ? "0" : fmt::to_string(kFirstId + sum.value() % kIds);
  create_folders(store / id);
  write_file(store / id / "meta.yaml",
             fmt::format("artifact_location: {}\ncreation_time: {}\nexperiment_id: '{}'\nlast_update_time: {}\n"
                         "lifecycle_stage: active\nname: {}\n",
                         yaml_text(file_uri(store / id)), now_ms(), id, now_ms(), yaml_text(name)));
  return id;
}

// Returns a name with '_' in place of what MLflow takes in no name.
std::string allowed_name(std::string name) {
  constexpr std::string_view kAllowed = "_-. :/";
  std::replace_if(
      name.begin(), name.end(),
      [&](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) == 0 && kAllowed.find(c) == std::string_view::npos;
      },
      '_');
  return name;
}

// Returns the text of a value as Python prints it.
std::string value_text(const Json& value) {
  constexpr size_t kMaxBytes = 6000;  // MLflow takes no longer ones
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_null()) return "None";
  std::string text = value.is_string() ? value.get<std::string>() : json_text(value);
  if (text.size() > kMaxBytes) text.resize(previous_character(text, kMaxBytes));
  return text;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  fmt::memory_buffer text;
  append_number(value, text);
  return fmt::to_string(text);
}

// The beginning of the names of an evaluation's metrics. transformers gives MLflow its Trainer's own names, "loss" and
// "eval_loss", where TensorBoard and wandb get "train/loss" and "eval/loss".
const std::string kOfEvaluations = fmt::format("{}_", kEvaluationPrefix);

// Returns the file of a metric. The store has a folder for each "/" in a name, and no folder in place of a file: where
// there are both "loss" and "loss/policy_avg", the latter is "loss.policy_avg". REQUIRES: "loss" was added first.
fs::path metric_file(const fs::path& metrics, std::string name) {
  for (size_t at = name.find('/'); at != std::string::npos; at = name.find('/', at + 1))
    if (fs::is_regular_file(metrics / name.substr(0, at))) name[at] = '.';
  return metrics / name;
}

}  // namespace

MlflowRun::MlflowRun(const fs::path& store, const MlflowRunInfo& info, ResumePoint resumed)
    : store_(fs::absolute(store).lexically_normal()), info_(info), started_ms_(now_ms()) {
  experiment_id_ = experiment_id(store_, info.experiment);
  folder_ = store_ / experiment_id_ / info.id;
  if (const std::string meta = meta_of(folder_); resumed.step > 0 && !meta.empty())
    started_ms_ = std::strtoll(value_of(meta, "start_time").c_str(), nullptr, 10);
  for (const char* part : {"artifacts", "metrics", "params", "tags"}) create_folders(folder_ / part);
  take_back(resumed);
  for (const auto& [key, value] : info.params.items()) {
    const fs::path file = folder_ / "params" / allowed_name(key);
    create_folders(file.parent_path());
    write_file(file, value_text(value));
  }
  write_file(folder_ / "tags" / "mlflow.runName", info.name);
  write_file(folder_ / "tags" / "mlflow.source.name", "spillway train");
  write_file(folder_ / "tags" / "mlflow.source.type", "LOCAL");
  write_meta(kRunning, 0);
}

void MlflowRun::write_meta(int status, int64_t ended_ms) const {
  write_file(folder_ / "meta.yaml",
             fmt::format("artifact_uri: {}\nend_time: {}\nentry_point_name: ''\nexperiment_id: '{}'\n"
                         "lifecycle_stage: active\nrun_id: {}\nrun_name: {}\nsource_name: ''\nsource_type: 4\n"
                         "source_version: ''\nstart_time: {}\nstatus: {}\ntags: []\nuser_id: ''\n",
                         yaml_text(file_uri(folder_ / "artifacts")), ended_ms > 0 ? fmt::to_string(ended_ms) : "null",
                         experiment_id_, yaml_text(info_.id), yaml_text(info_.name), started_ms_, status));
}

// Cuts each metric's lines before the first that the checkpoint does not have.
void MlflowRun::take_back(ResumePoint resumed) const {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_ / "metrics")) {
    if (!entry.is_regular_file()) continue;
    const bool is_evaluation =
        fs::relative(entry.path(), folder_ / "metrics").generic_string().starts_with(kOfEvaluations);
    std::ifstream lines(entry.path());
    int64_t kept = 0;
    for (std::string line; std::getline(lines, line) && !lines.eof();) {
      const int64_t step = std::strtoll(line.c_str() + line.rfind(' ') + 1, nullptr, 10);
      if (!resumed.keeps(step, is_evaluation)) break;
      kept += std::ssize(line) + 1;
    }
    (void)AppendFile(entry.path(), kept);
  }
}

void MlflowRun::add(std::string_view prefix, std::string_view key, double value) {
  const std::string name = allowed_name(fmt::format("{}{}", prefix == kEvaluationPrefix ? kOfEvaluations : "", key));
  auto file = metrics_.find(name);
  if (file == metrics_.end()) {
    const fs::path path = metric_file(folder_ / "metrics", name);
    create_folders(path.parent_path());
    file = metrics_.emplace(name, AppendFile(path, std::numeric_limits<int64_t>::max())).first;
  }
  file->second.write(fmt::format("{} {} {}\n", now_ms(), number_text(value), step_));
}

void MlflowRun::sync() {
  for (auto& [name, file] : metrics_) file.sync();
}

void MlflowRun::finish(RunEnd end) {
  sync();
  write_meta(end == RunEnd::kDone ? kFinished : end == RunEnd::kInterrupted ? kKilled : kFailed, now_ms());
}

std::string MlflowRun::note() const {
  return fmt::format(
      "mlflow: run {} is in {}; `MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {}` shows it", info_.id,
      store_.string(), store_.string());
}

}  // namespace spillway
