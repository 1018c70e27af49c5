// The frame of updates whose moments are all codes (block_codes.h): the operands as a kernel of either side sees them.
#pragma once

#include <algorithm>
#include <array>

#include "base/math.h"
#include "ops/optimizers/block_codes.h"
#include "ops/optimizers/states.h"
#include "ops/optimizers/update.h"

namespace spillway::ops {

// The codes and scales of a slice's moments, from its first block on. The states of the operation: codes, absmax of
// each.
template <int kStates>
struct BlockViews {
  explicit BlockViews(const KernelArgs& args) : weights(args) {
    const size_t first_output = args.inputs[update_input::kMaster].data != nullptr ? 2 : 1;
    for (size_t i = 0; i < kStates; ++i) {
      codes_in[i] = args.inputs[update_input::kStates + 2 * i].as<uint8_t>();
      absmax_in[i] = args.inputs[update_input::kStates + 2 * i + 1].as<float>();
      codes[i] = args.outputs[first_output + 2 * i].as<uint8_t>();
      absmax[i] = args.outputs[first_output + 2 * i + 1].as<float>();
    }
  }
  [[nodiscard]] int64_t elems() const { return weights.slice.end - weights.slice.begin; }
  [[nodiscard]] int64_t blocks() const { return div_ceil(elems(), kStateBlock); }

  UpdateViews<0> weights;
  std::array<const uint8_t*, kStates> codes_in{};
  std::array<const float*, kStates> absmax_in{};
  std::array<uint8_t*, kStates> codes{};
  std::array<float*, kStates> absmax{};
};

}  // namespace spillway::ops
