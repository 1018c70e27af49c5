// The identity of a run, which tells to which run a checkpoint belongs. A run starts where training starts, and
// continues when it resumes from one of its checkpoints.
//
// OUTPUT/spillway_run.json has the identity of the run that last started in an output folder, and every checkpoint has
// that of the run that wrote it. Resuming from a checkpoint that the user names starts a new run; the steps of the old
// run up to that checkpoint count as its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace spillway::train {

struct RunIdentity {
  // A run from which this one was resumed, and the step.
  struct Ancestor {
    std::string id;
    int64_t step = 0;
    bool operator==(const Ancestor&) const = default;
  };

  std::string id;       // 16 hexadecimal digits; empty: of a version that knew none
  std::string started;  // base/local_time.h; of the first ancestor, since chat templates show it; empty: not known
  std::vector<Ancestor> ancestors;

  bool operator==(const RunIdentity&) const = default;
  // Returns true if a checkpoint that `other` wrote at `step` is part of this run.
  [[nodiscard]] bool holds(const RunIdentity& other, int64_t step) const;
};

// Returns a run that starts now, from step 0.
[[nodiscard]] RunIdentity fresh_run();
// Returns a run that starts now, from a checkpoint of another run.
[[nodiscard]] RunIdentity run_from(const RunIdentity& other, int64_t step);

// run_from_json() throws the exceptions of the JSON library.
[[nodiscard]] nlohmann::ordered_json to_json(const RunIdentity& run);
[[nodiscard]] RunIdentity run_from_json(const nlohmann::ordered_json& json);

// Returns the run that last started in the folder; nothing if the folder does not say. Throws InputError for a file
// that is not ours.
[[nodiscard]] std::optional<RunIdentity> read_run(const std::filesystem::path& output);
void write_run(const std::filesystem::path& output, const RunIdentity& run);

}  // namespace spillway::train
