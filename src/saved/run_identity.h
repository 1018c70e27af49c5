// Which run a checkpoint belongs to. A run begins where training begins, and goes on where a checkpoint of it does.
//
// The run that last began in an output folder has its identity in OUTPUT/spillway_run.json, and every checkpoint has
// that of the run that wrote it. Who goes on from a checkpoint of the user's choice begins a new run, which has what
// the other did up to there as its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace spillway::train {

struct RunIdentity {
  // A run that this one goes on from, up to a step.
  struct Ancestor {
    std::string id;
    int64_t step = 0;
    bool operator==(const Ancestor&) const = default;
  };

  std::string id;       // 16 hexadecimal digits; empty: of a version that knew none
  std::string started;  // base/local_time.h; of the first ancestor, since chat templates show it; empty: not known
  std::vector<Ancestor> ancestors;

  bool operator==(const RunIdentity&) const = default;
  // Whether a checkpoint that `other` wrote at `step` is part of this run.
  [[nodiscard]] bool holds(const RunIdentity& other, int64_t step) const;
};

// A run that begins now, from nothing.
[[nodiscard]] RunIdentity fresh_run();
// One that begins now, from a checkpoint of another.
[[nodiscard]] RunIdentity run_from(const RunIdentity& other, int64_t step);

// from_json throws what the JSON library throws.
[[nodiscard]] nlohmann::ordered_json to_json(const RunIdentity& run);
[[nodiscard]] RunIdentity run_from_json(const nlohmann::ordered_json& json);

// The run that last began in the folder; nothing where the folder does not say. Throws InputError for a file that is
// none of ours.
[[nodiscard]] std::optional<RunIdentity> read_run(const std::filesystem::path& output);
void write_run(const std::filesystem::path& output, const RunIdentity& run);

}  // namespace spillway::train
