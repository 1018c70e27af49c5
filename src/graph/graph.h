// What is computed: values in single assignment, operations on them, and the blocks that a model repeats.
//
// A Graph knows no memory and no device. Its operations stand in the order in which a plain run executes them. One
// optimizer step runs the forward and backward operations once per micro-batch and the update operations once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/attributes.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace spillway {

struct OpDef;

using ValueId = int32_t;
using OpId = int32_t;
using BlockId = int32_t;
constexpr int32_t kNone = -1;

enum class ValueKind : uint8_t {
  kFrozenWeight,
  kTrainableWeight,
  kOptimizerState,  // f32 master weights and moments
  kGradient,        // of a trainable weight
  kActivation,      // saved where the backward reads it, else transient
  kBatch,           // token ids, labels, positions, and the numbers that change with each step
  kCache,           // keys and values during generation
};
constexpr int kValueKinds = 7;
// "frozen_weight", ...
[[nodiscard]] std::string_view name_of(ValueKind kind);

struct ValueType {
  DType dtype = DType::kF32;
  Shape shape;
  // The first extent counts tokens of the stream: a plan reserves all of it, a run may fill fewer rows.
  bool per_token = false;

  [[nodiscard]] int64_t bytes() const { return shape.elems() * size_of(dtype); }
  bool operator==(const ValueType&) const = default;
};
// "bf16[2048t, 576]"; t marks the token axis.
[[nodiscard]] std::string to_string(const ValueType& type);

struct Value {
  std::string name;  // unique; weights carry their Hugging Face names
  ValueType type;
  ValueKind kind = ValueKind::kActivation;
  OpId producer = kNone;    // kNone: an input of the graph
  BlockId block = kNone;    // the block whose operation produced it; for a weight, the block that owns it
  ValueId updates = kNone;  // the persistent value whose next version this is; it takes that value's place
};

enum class Phase : uint8_t {
  kForward,   // once per micro-batch; evaluation runs these alone
  kBackward,  // once per micro-batch
  kUpdate,    // once per optimizer step: clipping, optimizer, clearing of accumulators
};
[[nodiscard]] std::string_view name_of(Phase phase);

struct Operation {
  const OpDef* def = nullptr;
  std::vector<ValueId> inputs;  // kNone where an optional input is absent
  std::vector<ValueId> outputs;
  Attributes attributes;
  Phase phase = Phase::kForward;
  BlockId block = kNone;  // for a backward operation, the block of the forward operation that it differentiates
};

struct Block {
  std::string name;  // "layer 3"
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Operation> ops;  // phases in order: forward, backward, update
  std::vector<Block> blocks;
  std::vector<ValueId> results;  // what the host reads: each stays live to the end of the phase that produces it
  int64_t tokens = 0;            // T, the capacity of the token stream

  [[nodiscard]] const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  [[nodiscard]] Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  [[nodiscard]] const Operation& op(OpId id) const { return ops[static_cast<size_t>(id)]; }
  // An input that keeps its content from step to step: a weight, a state, an accumulator, a cache.
  [[nodiscard]] bool is_persistent(ValueId id) const;
  // The persistent value whose place `id` takes: itself, or the root of its chain of updates; kNone for others.
  [[nodiscard]] ValueId persistent_root(ValueId id) const;
  // The value of that name, or kNone.
  [[nodiscard]] ValueId find(std::string_view value_name) const;
};

}  // namespace spillway
