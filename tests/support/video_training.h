// Tiny video transformers, trained in memory as TinyTraining trains tiny decoders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "job/job.h"
#include "tests/support/video_run.h"
#include "train/session.h"

namespace spillway::testing {

// A micro-batch of clips, as FlatBatch is one of text.
struct ClipBatch {
  data::MicroBatch clips;
  int64_t targets = 0;

  [[nodiscard]] infer::Batch batch() const { return infer::batch_of(clips); }
};

// The golden's clips in bf16, with what `lines` of a config say more.
[[nodiscard]] train::Job video_job(const std::string& name, bool has_lora, const std::filesystem::path& output,
                                   const Machine& machine, const std::string& lines = "");
// The job's micro-batches of so many steps, one after another.
[[nodiscard]] std::vector<ClipBatch> clip_batches(const train::Job& job, int64_t steps);

}  // namespace spillway::testing
