#include "report/trackers/wandb_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>

#include "base/json.h"
#include "base/local_time.h"
#include "io/file.h"
#include "report/metrics.h"
#include "report/trackers/protobuf.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Fields of wandb_internal.proto, by their numbers.
namespace record_field {
constexpr int kNum = 1, kHistory = 2, kSummary = 3, kFiles = 6, kMetric = 12, kRun = 17, kExit = 18, kHeader = 21;
}
namespace run_field {
constexpr int kId = 1, kEntity = 2, kProject = 3, kConfig = 4, kGroup = 6, kJobType = 7, kName = 8, kNotes = 9,
              kTags = 10, kHost = 13, kStartTime = 17;
}
namespace item_field {  // of configs, histories and summaries
constexpr int kKey = 1, kNestedKey = 2, kValueJson = 16;
}
namespace metric_field {
constexpr int kName = 1, kGlobName = 2, kStepMetric = 4, kOptions = 6;
}
// The only fields of their messages.
constexpr int kUpdate = 1, kHistoryItem = 1, kHistoryStep = 2, kStepNum = 1, kVersionInfo = 1, kExitCode = 1,
              kRuntime = 2, kOptionStepSync = 1, kOptionDefined = 3, kProducer = 1, kMinConsumer = 2, kSeconds = 1,
              kNanos = 2, kFilesItem = 1, kPath = 1;

constexpr std::string_view kGlobalStep = "train/global_step", kRuntimeKey = "_runtime",
                           kMetadataFile = "wandb-metadata.json";

// Returns a number as Python's json has it, which is what wandb reads.
std::string number_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  fmt::memory_buffer text;
  append_number(value, text);
  return fmt::to_string(text);
}

// Append a field as proto3 has it: a value that is nothing is left out.
void append_whole(std::string& message, int field, int64_t value) {
  if (value != 0) protobuf::append_number(message, field, static_cast<uint64_t>(value));
}
void append_text(std::string& message, int field, std::string_view text) {
  if (!text.empty()) protobuf::append_bytes(message, field, text);
}

// Appends an item of a history or a summary. The name may have slashes and dots, so that it is one part of a path.
void append_item(std::string& message, int field, std::string_view name, std::string_view json, std::string& item) {
  item.clear();
  protobuf::append_bytes(item, item_field::kNestedKey, name);
  protobuf::append_bytes(item, item_field::kValueJson, json);
  protobuf::append_bytes(message, field, item);
}

std::string config_of(const Json& values) {
  std::string config, item;
  const auto append = [&](std::string_view key, std::string_view json) {
    item.clear();
    protobuf::append_bytes(item, item_field::kKey, key);
    protobuf::append_bytes(item, item_field::kValueJson, json);
    protobuf::append_bytes(config, kUpdate, item);
  };
  append("_wandb", "{}");
  for (const auto& [key, value] : values.items()) append(key, json_text(value));
  return config;
}

std::string timestamp(double seconds) {
  constexpr double kNanosPerSecond = 1e9;
  const double whole = std::floor(seconds);
  std::string message;
  protobuf::append_number(message, kSeconds, static_cast<uint64_t>(whole));
  append_whole(message, kNanos, static_cast<int64_t>((seconds - whole) * kNanosPerSecond));
  return message;
}

// Returns the definition of a metric: all but the step itself are drawn over the step, as transformers asks for.
std::string metric_definition(int name_field, std::string_view name, std::string_view over) {
  std::string options, message;
  if (!over.empty()) protobuf::append_number(options, kOptionStepSync, 1);
  protobuf::append_number(options, kOptionDefined, 1);
  protobuf::append_bytes(message, name_field, name);
  append_text(message, metric_field::kStepMetric, over);
  protobuf::append_bytes(message, metric_field::kOptions, options);
  return message;
}

// The numbers of a row that a run has to know when it goes on.
struct Row {
  int64_t step = 0;
  double runtime = 0;
  bool is_evaluation = false;
};

Row row_of(std::string_view history) {
  Row row;
  protobuf::Reader items(history);
  while (const std::optional<protobuf::Field> one = items.next()) {
    if (one->number != kHistoryItem) continue;
    std::string_view name, json;
    protobuf::Reader parts(one->bytes);
    while (const std::optional<protobuf::Field> part = parts.next()) {
      if (part->number == item_field::kNestedKey) name = part->bytes;
      if (part->number == item_field::kValueJson) json = part->bytes;
    }
    const double value = std::strtod(std::string(json).c_str(), nullptr);
    if (name == kGlobalStep) row.step = static_cast<int64_t>(value);
    if (name == kRuntimeKey) row.runtime = value;
    row.is_evaluation = row.is_evaluation || name.starts_with(fmt::format("{}/", kEvaluationPrefix));
  }
  return row;
}

}  // namespace

WandbRun::WandbRun(const fs::path& folder, const WandbRunInfo& info, ResumePoint resumed, std::function<double()> clock)
    : clock_(std::move(clock)), began_(clock_()) {
  const std::tm time = time_from_text(info.started).value_or(local_now());
  std::array<char, 32> text{};
  (void)std::strftime(text.data(), text.size(), "%Y%m%d_%H%M%S", &time);
  folder_ = folder / fmt::format("offline-run-{}-{}", text.data(), info.id);
  create_folders(folder_ / "files");
  const fs::path file = folder_ / fmt::format("run-{}.wandb", info.id);
  if (resumed.step == 0) {
    log_.emplace(file);
  } else {
    log_.emplace(file, [&](std::string_view record) { return keeps(record, resumed); });
  }
  if (log_->records() == 0) begin(info);
}

// Returns false for the first row to take back, and for the end of the run.
bool WandbRun::keeps(std::string_view record, ResumePoint resumed) {
  protobuf::Reader fields(record);
  while (const std::optional<protobuf::Field> field = fields.next()) {
    if (field->number == record_field::kExit) return false;
    if (field->number != record_field::kHistory) continue;
    const Row row = row_of(field->bytes);
    if (!resumed.keeps(row.step, row.is_evaluation)) return false;
    ++rows_;
    runtime_before_ = row.runtime;
  }
  return true;
}

void WandbRun::begin(const WandbRunInfo& info) {
  std::string version, header;
  protobuf::append_bytes(version, kProducer, "spillway");
  protobuf::append_bytes(version, kMinConsumer, "0.12.0");
  protobuf::append_bytes(header, kVersionInfo, version);
  write(record_field::kHeader, header);

  std::string message;
  protobuf::append_bytes(message, run_field::kId, info.id);
  append_text(message, run_field::kEntity, info.entity);
  append_text(message, run_field::kProject, info.project);
  protobuf::append_bytes(message, run_field::kConfig, config_of(info.config));
  append_text(message, run_field::kGroup, info.group);
  append_text(message, run_field::kJobType, info.job_type);
  append_text(message, run_field::kName, info.name);
  append_text(message, run_field::kNotes, info.notes);
  for (const std::string& tag : info.tags) append_text(message, run_field::kTags, tag);
  append_text(message, run_field::kHost, info.host);
  protobuf::append_bytes(message, run_field::kStartTime, timestamp(began_));
  write(record_field::kRun, message);

  write_file(
      folder_ / "files" / kMetadataFile,
      json_text(Json{{"program", "spillway train"}, {"host", info.host}, {"startedAt", info.started}}, 2) + "\n");
  std::string file, files;
  protobuf::append_bytes(file, kPath, kMetadataFile);
  protobuf::append_bytes(files, kFilesItem, file);
  write(record_field::kFiles, files);
  write(record_field::kMetric, metric_definition(metric_field::kName, kGlobalStep, ""));
  write(record_field::kMetric, metric_definition(metric_field::kGlobName, "*", kGlobalStep));
}

double WandbRun::runtime() const { return runtime_before_ + (clock_() - began_); }

void WandbRun::write(int field, std::string_view content) {
  record_.clear();
  protobuf::append_number(record_, record_field::kNum, static_cast<uint64_t>(log_->records() + 1));
  protobuf::append_bytes(record_, field, content);
  log_->write(record_);
}

void WandbRun::begin_step(int64_t step) {
  step_ = step;
  row_.clear();
}

void WandbRun::add(std::string_view prefix, std::string_view key, double value) {
  append_item(row_, kHistoryItem, fmt::format("{}/{}", prefix, key), number_json(value), item_);
}

// The summary has the last value of each number. It is the same message but for the row's number, and follows the row,
// so that both are there or the row alone.
void WandbRun::end_step() {
  append_item(row_, kHistoryItem, kGlobalStep, fmt::to_string(step_), item_);
  append_item(row_, kHistoryItem, "_timestamp", number_json(clock_()), item_);
  append_item(row_, kHistoryItem, kRuntimeKey, number_json(runtime()), item_);
  append_item(row_, kHistoryItem, "_step", fmt::to_string(rows_), item_);
  const std::string summary = row_;
  std::string number;
  append_whole(number, kStepNum, rows_);
  protobuf::append_bytes(row_, kHistoryStep, number);
  write(record_field::kHistory, row_);
  write(record_field::kSummary, summary);
  ++rows_;
}

void WandbRun::finish(RunEnd end) {
  constexpr uint64_t kInterruptedExit = 255, kFailedExit = 1;  // as wandb's own client has them
  std::string message;
  if (end != RunEnd::kDone)
    protobuf::append_number(message, kExitCode, end == RunEnd::kInterrupted ? kInterruptedExit : kFailedExit);
  append_whole(message, kRuntime, static_cast<int64_t>(runtime()));
  write(record_field::kExit, message);
  sync();
}

std::string WandbRun::note() const {
  return fmt::format("wandb: nothing was sent; `wandb sync {}` sends the run", folder_.string());
}

}  // namespace spillway
