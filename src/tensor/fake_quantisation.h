// Quantisation-aware training: the formats to which weights and inputs of linear layers are rounded in its passes, as
// torchao's fake quantisers have them (torchao 0.18, quantization/qat and prototype/qat).
#pragma once

#include <cstdint>
#include <vector>

namespace spillway {

// A format, and the neighbours in a row that share a scale.
enum class FakeFormat : uint8_t {
  kInt4,          // a group: 16 steps from its least to its largest element
  kInt4OfFloat8,  // a group: whole numbers from -8 to 7, in steps of an eighth of its largest magnitude
  kInt8,          // a row: 256 steps over its range and 0, which is one of them
  kFloat8,        // a row: e4m3, its largest magnitude at 448
  kMxfp4,         // 32: e2m1 in steps of a power of two (OCP Microscaling Formats 1.0; rounded up)
  kNvfp4,         // 16: e2m1 in steps of an e4m3, which is in steps of the whole tensor's
};

// Returns the group that a format fixes; 0: none.
[[nodiscard]] constexpr int64_t fixed_group_of(FakeFormat format) {
  if (format == FakeFormat::kMxfp4) return 32;
  return format == FakeFormat::kNvfp4 ? 16 : 0;
}

// The rounding of a model in training. Linear layers, the head among them, compute with rounded weights and inputs.
struct FakeQuantisation {
  std::vector<FakeFormat> weights, inputs;  // one after another
  int64_t group = 32;                       // of formats with groups: a multiple of 16
  bool has_embedding = false;               // whether look-ups read rounded rows
  // Training begins with that many steps without it. Passes that are not differentiated have it from the start.
  int64_t after_steps = 0;
};

}  // namespace spillway
