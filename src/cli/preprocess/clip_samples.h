// The files that `preprocess` writes for a job over clips: every sample of the run, as training would see it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/config.h"
#include "model/model.h"
#include "report/progress.h"

namespace spillway {

// Writes samples.jsonl, a line per sample in the order of training, and a file for each sample into `folder`. The
// folder is a dataset: in file order it gives the same run, to the last bit. Returns the summary, which is also written
// to summary.json. Throws InputError as make_clip_job() does, and for invalid rows. REQUIRES: model.video().
nlohmann::ordered_json write_clip_samples(const std::filesystem::path& folder, const config::Config& config,
                                          const Model& model, Progress& progress);

}  // namespace spillway
