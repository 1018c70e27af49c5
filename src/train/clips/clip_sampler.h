// Clips that a model in training makes of the texts of a few rows, from the same noise each time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infer/clips/sampling.h"
#include "job/clip_job.h"
#include "train/session.h"

namespace spillway::train {

struct SampledClip {
  std::string prompt;  // the row's caption, or its place
  data::ClipShape shape;
  std::vector<float> latents;  // in normalised units
};

class ClipSampler {
 public:
  // Of up to six rows, spread over those that validate, else those that are trained on. All is borrowed.
  ClipSampler(const ClipJob& job, const ClipSets& sets);

  // By the evaluation program, with the weights as they are.
  [[nodiscard]] std::vector<SampledClip> sample(TrainingSession& session) const;
  // The rows themselves.
  [[nodiscard]] std::vector<SampledClip> originals() const;

 private:
  [[nodiscard]] std::string prompt_of(int64_t row) const;

  const ClipJob& job_;
  const ClipSet& set_;
  std::vector<int64_t> rows_;
};

}  // namespace spillway::train
