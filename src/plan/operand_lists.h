// The operands of many operations side by side in one array: the content of two lists for each, without an allocation
// for each.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/math.h"
#include "base/sizes.h"

namespace spillway {

// The positions of one operation's operands: inputs [begin, outputs), then outputs [outputs, end).
struct OperandRange {
  int32_t begin = 0, outputs = 0, end = 0;
};

template <typename Id>
class OperandLists {
 public:
  [[nodiscard]] std::span<const Id> inputs(const OperandRange& range) const {
    return subspan_of(ids_, range.begin, range.outputs - range.begin);
  }
  [[nodiscard]] std::span<const Id> outputs(const OperandRange& range) const {
    return subspan_of(ids_, range.outputs, range.end - range.outputs);
  }
  [[nodiscard]] int64_t size() const { return std::ssize(ids_); }
  void reserve(int64_t ids) { spillway::reserve(ids_, ids); }

  // Adds one more operation's operands: the result of `input_id` for each input, then that of `output_id` for each
  // output.
  template <typename Inputs, typename Outputs, typename InputId = std::identity, typename OutputId = std::identity>
  OperandRange add(const Inputs& inputs, const Outputs& outputs, const InputId& input_id = {},
                   const OutputId& output_id = {}) {
    const auto here = [&] { return narrow<int32_t>(size()); };
    OperandRange range{.begin = here()};
    for (const auto& input : inputs) ids_.push_back(input_id(input));
    range.outputs = here();
    for (const auto& output : outputs) ids_.push_back(output_id(output));
    range.end = here();
    return range;
  }

 private:
  std::vector<Id> ids_;
};

}  // namespace spillway
