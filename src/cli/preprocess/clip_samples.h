// What `preprocess` writes of a job over clips: every sample of the run, as training would see it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/config.h"
#include "model/model.h"
#include "report/progress.h"

namespace spillway {

// Into `folder`: samples.jsonl, a line a sample in the order of training, and the file of each. The folder is a
// dataset: in file order it gives the same run, to the last bit. Returns the summary, which is in summary.json, too.
// Throws InputError as make_clip_job() and for rows that cannot be. REQUIRES: model.video().
nlohmann::ordered_json write_clip_samples(const std::filesystem::path& folder, const config::Config& config,
                                          const Model& model, Progress& progress);

}  // namespace spillway
