// The time that choosing the next tokens takes. The host does it between two runs of the decoding program, so that no
// plan includes it; it is measured and cached as the times of operations are.
#pragma once

#include <cstdint>
#include <optional>

#include "infer/generation/sampling.h"
#include "plan/machine.h"

namespace spillway::infer {

// The choice of one token for each of `sequences` sequences, as Decoder::decode() makes it.
struct ChoosingWork {
  int64_t sequences = 0, vocabulary = 0;
  Sampling sampling;
  std::optional<double> logprob_temperature;
};

// Measures the work with the machine's threads and adds its time to machine.operations. Returns false, and measures
// nothing, if it is known already from a machine that was not busier than now (cpu_share.h).
bool measure_choosing(const ChoosingWork& work, Machine& machine);

// Returns the measured time; if there is none, the time to read the logits.
[[nodiscard]] double choosing_seconds(const ChoosingWork& work, const Machine& machine);

}  // namespace spillway::infer
