// Adds noise to embeddings while a model is trained (Jain et al., NEFTune, 2023).
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// The length L that the noise is scaled by. The rows of transformers' batches (integrations/neftune.py) are as long as
// the longest sequence, or, where sequences follow each other without padding, as all of them.
enum class NoiseLength : int64_t { kLongestSequence, kAllSequences };

// Adds to each element of x [T, D] (f32 or bf16) a number between -alpha / sqrt(L D) and alpha / sqrt(L D); nothing to
// rows behind the last sequence. seq_offsets i32 [sequences + 1]. Element c of row t draws number c % 4 of philox(seed,
// stream, t ceil(D / 4) + c / 4), see base/random.h: seed i64 [1] changes with each micro-batch, a negative one leaves
// x unchanged (evaluation). May take the place of x. Of a part of a stream, seq_offsets count from its own first row,
// which is row t = -seq_offsets[0].
[[nodiscard]] ValueId embedding_noise(Builder& builder, ValueId x, ValueId seed, ValueId seq_offsets, double alpha,
                                      NoiseLength length, int64_t stream);

}  // namespace spillway::ops
