#include "saved/run_start.h"

#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace spillway::train {
namespace {

namespace fs = std::filesystem;

RunStart start_from(const fs::path& folder) {
  CheckpointRecord checkpoint = read_checkpoint(folder);
  if (checkpoint.is_only_model)
    throw input_error(
        folder.string(),
        "expected a checkpoint to go on from, got a model alone (save_only_model); name another, or begin "
        "a new run with it as base_model (lora_model_dir, if it is an adapter)");
  RunIdentity run = run_from(checkpoint.position.run, checkpoint.position.step);
  return {std::move(run), std::move(checkpoint)};
}

// Returns the last checkpoint of the run that last started in the folder. If the folder does not say which run that is,
// because its files were copied from elsewhere, takes the run of the last checkpoint.
RunStart start_from_last(const fs::path& output, const std::vector<FoundCheckpoint>& found) {
  const std::optional<RunIdentity> run = read_run(output);
  if (!run) return found.empty() ? RunStart{fresh_run(), {}} : start_from(found.back().folder);
  bool has_models = false;
  for (auto it = found.rbegin(); it != found.rend(); ++it) {
    CheckpointRecord checkpoint = read_checkpoint(it->folder);
    if (!run->holds(checkpoint.position.run, it->step)) continue;
    if (!checkpoint.is_only_model) return {*run, std::move(checkpoint)};
    has_models = true;
  }
  if (has_models)
    log_warning("the checkpoints in {} are models alone (save_only_model): the run begins anew", output.string());
  return {fresh_run(), {}};
}

// Returns true if a checkpoint is of the run. One that cannot be read belongs to no run.
bool is_of(const RunIdentity& run, const FoundCheckpoint& checkpoint) {
  try {
    return run.holds(read_checkpoint(checkpoint.folder).position.run, checkpoint.step);
  } catch (const InputError&) {
    return false;
  }
}

void say_what_stays(const std::vector<FoundCheckpoint>& found, const RunIdentity& run) {
  std::vector<std::string> others;
  for (const FoundCheckpoint& checkpoint : found) {
    if (!is_of(run, checkpoint)) others.push_back(checkpoint.folder.filename().string());
  }
  if (others.empty()) return;
  const std::string last = others.size() > 1 ? " to " + others.back() : "";
  log_info(
      "of an earlier run, and not counted as this run's: {}{}; one of a step that this run saves, too, is replaced",
      others.front(), last);
}

RunStart choose(const config::OutputSettings& output, const std::vector<FoundCheckpoint>& found) {
  if (!output.resume_from_checkpoint.empty()) return start_from(output.resume_from_checkpoint);
  if (output.auto_resume_from_checkpoints) return start_from_last(output.output_dir, found);
  return {fresh_run(), {}};
}

}  // namespace

RunStart choose_start(const config::OutputSettings& output) {
  const std::vector<FoundCheckpoint> found = find_checkpoints(output.output_dir);
  RunStart start = choose(output, found);
  say_what_stays(found, start.run);
  return start;
}

std::string first_start(const config::OutputSettings& output) {
  return choose(output, find_checkpoints(output.output_dir)).run.started;
}

}  // namespace spillway::train
