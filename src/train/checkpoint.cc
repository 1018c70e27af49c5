#include "train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "io/file.h"

namespace spillway::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint-";
constexpr const char* kPositionFile = "spillway_state.json";
constexpr const char* kStateFile = "spillway_state.safetensors";
constexpr int kVersion = 1;  // of the two files; another is another program's

// The complete checkpoints of a folder, by step.
std::vector<std::pair<int64_t, fs::path>> checkpoints(const fs::path& output) {
  std::vector<std::pair<int64_t, fs::path>> result;
  if (!fs::is_directory(output)) return result;
  for (const fs::directory_entry& entry : fs::directory_iterator(output)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !fs::is_regular_file(entry.path() / kPositionFile)) continue;
    int64_t step = 0;
    const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
    if (error == std::errc() && end == name.data() + name.size()) result.emplace_back(step, entry.path());
  }
  std::sort(result.begin(), result.end());
  return result;
}

// Leaves the newest `limit`, the one of `step` among them. Those of later steps are of an earlier run in this folder,
// so they go first.
void remove_oldest(const fs::path& output, int64_t step, int64_t limit) {
  auto all = checkpoints(output);
  std::stable_partition(all.begin(), all.end(), [step](const auto& checkpoint) { return checkpoint.first > step; });
  for (size_t i = 0; i + static_cast<size_t>(limit) < all.size(); ++i) remove_folder(all[i].second);
}

TrainingPosition read_position(const fs::path& path) {
  try {
    const nlohmann::json json = nlohmann::json::parse(read_file(path, int64_t{1} << 20));
    if (json.at("version") != kVersion) {
      throw input_error(path.string(),
                        "expected a checkpoint of version {}, got {}; resume with the program that wrote it", kVersion,
                        json["version"].dump());
    }
    TrainingPosition position{.step = json.at("step"),
                              .num_tokens = json.at("num_tokens"),
                              .rows = json.at("rows"),
                              .rows_checksum = json.value("rows_checksum", ""),
                              .steps_per_epoch = json.at("steps_per_epoch")};
    if (json.contains("stream")) {
      const nlohmann::json& stream = json["stream"];
      position.stream = {.epoch = stream.at("epoch"), .block = stream.at("block"), .line = stream.at("line")};
      position.stream_identity = stream.at("options");
    }
    return position;
  } catch (const nlohmann::json::exception& error) {
    throw input_error(path.string(), "expected the position of a run, got '{}'; resume from another checkpoint",
                      error.what());
  }
}

// Steps count through the rows, so those of another data set would be seen twice or never.
void check_data(const std::string& path, const TrainingPosition& position, const TrainingPosition& expected) {
  if (position.stream.has_value() != expected.stream.has_value()) {
    throw input_error(path,
                      "expected a run that {} its rows, as in this config, got one that {} them; "
                      "resume with the config that wrote it",
                      expected.stream ? "streams" : "prepares", position.stream ? "streams" : "prepares");
  }
  if (position.stream_identity != expected.stream_identity) {
    throw input_error(path,
                      "expected the stream options that wrote it, got others; resume with the config that wrote it");
  }
  const data::StreamPosition stream = position.stream.value_or(data::StreamPosition());
  if (stream.epoch < 0 || stream.block < 0 || stream.line < 0)
    throw input_error(path, "expected a place in a stream, got one below 0; resume from another checkpoint");
  if (position.rows != expected.rows || position.steps_per_epoch != expected.steps_per_epoch || position.step < 0) {
    throw input_error(path,
                      "expected {} rows and {} steps per epoch as in this config, got {} and {}; resume with the data "
                      "and batches that wrote it",
                      expected.rows, expected.steps_per_epoch, position.rows, position.steps_per_epoch);
  }
  if (position.rows_checksum != expected.rows_checksum) {
    throw input_error(path,
                      "expected the rows of this config, got {} others; resume with the data, tokenizer and template "
                      "that wrote it, or begin a new run with this folder as base_model (lora_model_dir, if it is an "
                      "adapter)",
                      position.rows);
  }
}

}  // namespace

void save_checkpoint(const fs::path& output, const TrainingPosition& position, const Job& job,
                     const TrainingGraph& training, ValueStore& store, int64_t limit) {
  AtomicFolder folder(output / fmt::format("{}{}", kPrefix, position.step), "train");
  save_model(folder.path(), job, training, store);
  save_optimizer_state(folder.path() / kStateFile, training, store);
  nlohmann::ordered_json json = {{"version", kVersion},
                                 {"step", position.step},
                                 {"num_tokens", position.num_tokens},
                                 {"rows", position.rows},
                                 {"rows_checksum", position.rows_checksum},
                                 {"steps_per_epoch", position.steps_per_epoch}};
  if (const auto& stream = position.stream)
    json["stream"] = {{"epoch", stream->epoch},
                      {"block", stream->block},
                      {"line", stream->line},
                      {"options", position.stream_identity}};
  write_file(folder.path() / kPositionFile, json.dump(2) + "\n");
  folder.publish();
  if (limit > 0) remove_oldest(output, position.step, limit);
}

std::optional<fs::path> last_checkpoint(const fs::path& output) {
  const auto all = checkpoints(output);
  if (all.empty()) return std::nullopt;
  return all.back().second;
}

TrainingPosition load_checkpoint(const fs::path& folder, const TrainingPosition& expected,
                                 const TrainingGraph& training, ValueStore& store) {
  const fs::path path = folder / kPositionFile;
  TrainingPosition position = read_position(path);
  if (position.rows_checksum.empty()) position.rows_checksum = expected.rows_checksum;  // of an older version
  check_data(path.string(), position, expected);
  load_optimizer_state(folder / kStateFile, training, store);
  return position;
}

}  // namespace spillway::train
