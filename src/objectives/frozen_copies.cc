#include "objectives/frozen_copies.h"

#include <utility>

namespace spillway::train {

ParameterTable declare_copies(Builder& builder, const Model& model, ModelOptions options, size_t among) {
  options.tokens = options.max_sequences = options.context_ranks = 1;
  Graph other;
  Builder scratch(other);
  const auto blocks = static_cast<int64_t>(among);
  ParameterTable result;
  for (Parameter p : model.build(scratch, options).parameters) {
    if (!p.is_copy) continue;
    for (ValueId& value : p.values) {
      const Value& there = other.value(value);
      const bool is_outside = there.block == kNone || blocks == 0;
      builder.set_block(is_outside ? kNone : static_cast<BlockId>(there.block * blocks / std::ssize(other.blocks)));
      value = builder.input(there.name, there.type, there.kind);
    }
    result.add(std::move(p));
  }
  builder.end_block();
  return result;
}

}  // namespace spillway::train
