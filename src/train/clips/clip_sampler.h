// Clips that a model in training generates from the texts of a few rows, from the same noise each time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infer/clips/sampling.h"
#include "job/clips/clip_job.h"
#include "train/session.h"

namespace spillway::train {

struct SampledClip {
  std::string prompt;  // the row's caption, or its place
  data::ClipShape shape;
  std::vector<float> latents;  // in normalised units
};

class ClipSampler {
 public:
  // Chooses up to six rows, evenly spread over the validation rows, or over the training rows if there are none.
  // Borrows its arguments.
  ClipSampler(const ClipJob& job, const ClipSets& sets);

  // Generates the clips with the evaluation program and the current weights.
  [[nodiscard]] std::vector<SampledClip> sample(TrainingSession& session) const;
  // Returns the clips of the rows themselves.
  [[nodiscard]] std::vector<SampledClip> originals() const;

 private:
  [[nodiscard]] std::string prompt_of(int64_t row) const;

  const ClipJob& job_;
  const ClipSet& set_;
  std::vector<int64_t> rows_;
};

}  // namespace spillway::train
