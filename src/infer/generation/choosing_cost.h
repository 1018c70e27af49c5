// What choosing the next tokens takes. The host does it between two runs of the decoding program, so that no plan knows
// it: it is measured as operations are, and kept with them.
#pragma once

#include <cstdint>
#include <optional>

#include "infer/generation/sampling.h"
#include "plan/machine.h"

namespace spillway::infer {

// One token of each of `sequences` sequences, as Decoder::decode chooses them.
struct ChoosingWork {
  int64_t sequences = 0, vocabulary = 0;
  Sampling sampling;
  std::optional<double> logprob_temperature;
};

// Adds to machine.operations what it takes with the machine's threads, or on one less busy than before (cpu_share.h);
// false where that is known already.
bool measure_choosing(const ChoosingWork& work, Machine& machine);

// As measured; else no more than reading the logits takes.
[[nodiscard]] double choosing_seconds(const ChoosingWork& work, const Machine& machine);

}  // namespace spillway::infer
