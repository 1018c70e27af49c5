// The base of a run that restarts its adapter (ReLoRA): a model folder with what was merged so far. The run's own is
// OUTPUT/relora, written anew at each restart; a checkpoint has the same files in checkpoint-STEP/relora, so that it
// stands alone wherever it is moved to, as hard links, which take no room of their own.
#pragma once

#include <cstdint>
#include <filesystem>

#include "job/job.h"
#include "saved/base_identity.h"
#include "saved/saved_model.h"

namespace spillway::train {

inline constexpr const char* kMergedBase = "relora";

// The base that a checkpoint's adapter belongs to.
struct MergedBase {
  int64_t step = 0;      // of the last restart; 0: base_model itself
  BaseIdentity weights;  // empty with it
};

// Writes OUTPUT/relora, the model's base with its adapter merged, and returns it. Replaces what is there at once, at
// the end; that may be `model.base_folder`. Throws as save_merged_model().
std::filesystem::path write_merged_base(const std::filesystem::path& output, const ModelInTraining& model);

// Makes a new folder of the files in `from`: links, or copies where the file system has none.
void link_merged_base(const std::filesystem::path& from, const std::filesystem::path& to);

// Opens the base of a checkpoint in `folder`. Throws InputError if it is not the one that was written.
[[nodiscard]] SafetensorsFolder open_merged_base(const std::filesystem::path& folder, const Job& job,
                                                 const MergedBase& written);

}  // namespace spillway::train
