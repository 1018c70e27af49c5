// The computation of a job: values in single assignment, operations on them, and the blocks that a model repeats.
//
// A Graph knows no memory and no device. Its operations stand in the order in which a plain run executes them, in
// sections: a training step runs "forward" and "backward" once per micro-batch, then "update" once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/index.h"
#include "graph/attributes.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace spillway {

struct OpDef;

using ValueId = int32_t;
using OpId = int32_t;
using BlockId = int32_t;
using SectionId = int32_t;
using GroupId = int32_t;
constexpr int32_t kNone = -1;

// The index of an axis in Graph::axes.
enum class AxisId : int8_t {};
constexpr AxisId kNoAxis{-1};
// The stream of tokens, the first axis of every graph that has any.
constexpr AxisId kTokenAxis{0};

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
// Returns "frozen_weight", ...
[[nodiscard]] std::string_view name_of(ValueKind kind);

// Values that always live in the same tier. A plan chooses a home for each group.
struct Group {
  ValueKind kind = ValueKind::kActivation;
  BlockId block = kNone;  // kNone: outside blocks
  std::string part;       // distinguishes groups of one kind in one block: kTablePart; empty for most
};
// The part of an embedding that is not the head, too: passes over a micro-batch read only some of its rows.
inline constexpr std::string_view kTablePart = "table";
// The part of a mixture's experts, where operations take a few of them: they come for one use, not for their block's.
inline constexpr std::string_view kExpertPart = "experts";

struct ValueType {
  DType dtype = DType::kF32;
  Shape shape;
  // The axis along which the first extent counts: a plan reserves the axis's capacity, a run may fill fewer rows.
  AxisId axis = kNoAxis;

  [[nodiscard]] bool follows_axis() const { return axis != kNoAxis; }
  [[nodiscard]] int64_t bytes() const { return shape.elems() * size_of(dtype); }
  bool operator==(const ValueType&) const = default;
};
// Returns text such as "bf16[2048t, 576]"; t marks the token axis, and another axis is marked by its number,
// "f32[8:1]".
[[nodiscard]] std::string to_string(const ValueType& type);

// A kind of row whose number varies from run to run: tokens, pairs of sequences.
struct Axis {
  std::string name;
  int64_t capacity = 0;
  AxisId of = kNoAxis;    // the axis whose rows decide how many this one has; kNoAxis: they are set by themselves
  int64_t per_token = 1;  // rows for each of those
  int64_t tiles = 1;      // above 1: it has the rows of one of so many tiles of them, in whole kTileRows
};
// The rows of a tile of tokens are a multiple of this.
constexpr int64_t kTileRows = 16;
// Returns the rows of an axis if that which it is `of` has `rows`.
[[nodiscard]] int64_t rows_of(const Axis& axis, int64_t rows);

struct Value {
  std::string name;  // unique; weights carry their Hugging Face names
  ValueType type;
  ValueKind kind = ValueKind::kActivation;
  OpId producer = kNone;    // kNone: an input of the graph
  BlockId block = kNone;    // the block whose operation produced it; for a weight, the block that owns it
  ValueId updates = kNone;  // the persistent value whose next version this is; it takes that value's place
  GroupId group = kNone;    // of persistent values and of gradients
  bool split = false;       // the value is a part (tensor/cut.h): every rank has another one
};

// The frequency at which a section runs.
enum class Repeats : uint8_t {
  kMicroBatch,  // once per micro-batch
  kStep,        // once per optimizer step, after its micro-batches; all its operations may run on the host
};

// A group of operations that run at one time, in their order. Between sections the host fills batch values and reads
// results, and nothing moves.
struct Section {
  std::string name;  // "forward"
  Repeats repeats = Repeats::kMicroBatch;
  // Whether outputs of its operations may be dropped, and computed again in the section that reads them.
  bool recomputable = false;
};
[[nodiscard]] inline Section forward_section() { return {.name = "forward", .recomputable = true}; }
[[nodiscard]] inline Section backward_section() { return {.name = "backward"}; }
// The section for clipping, the optimizer and the clearing of accumulators.
[[nodiscard]] inline Section update_section() { return {.name = "update", .repeats = Repeats::kStep}; }

struct Operation {
  const OpDef* def = nullptr;
  std::vector<ValueId> inputs;  // kNone where an optional input is absent
  std::vector<ValueId> outputs;
  Attributes attributes;
  SectionId section = 0;
  BlockId block = kNone;  // for a backward operation, the block of the forward operation that it differentiates
};

struct Block {
  std::string name;  // "layer 3"
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Operation> ops;  // section after section
  std::vector<Section> sections;
  std::vector<Block> blocks;
  std::vector<Group> groups;
  std::vector<ValueId> results;  // the values that the host reads: each stays live to the end of the section that makes
                                 // it
  std::vector<Axis> axes;

  [[nodiscard]] const Value& value(ValueId id) const { return nth(values, id); }
  [[nodiscard]] Value& value(ValueId id) { return nth(values, id); }
  [[nodiscard]] const Operation& op(OpId id) const { return nth(ops, id); }
  [[nodiscard]] const Section& section_of(OpId id) const { return nth(sections, op(id).section); }
  [[nodiscard]] const Section& section_of(const Operation& op) const { return nth(sections, op.section); }
  [[nodiscard]] const Axis& axis(AxisId id) const { return nth(axes, id); }
  // Returns the capacity of the token stream; 0 without one.
  [[nodiscard]] int64_t tokens() const { return axes.empty() ? 0 : axis(kTokenAxis).capacity; }
  // Returns true for an input that keeps its content from step to step: a weight, a state, an accumulator, a cache.
  [[nodiscard]] bool is_persistent(ValueId id) const;
  // Returns the persistent value whose place `id` takes (itself, or the root of its chain of updates), else kNone.
  [[nodiscard]] ValueId persistent_root(ValueId id) const;
  // Returns the group of that kind, block and part, or kNone.
  [[nodiscard]] GroupId find_group(ValueKind kind, BlockId block, std::string_view part = {}) const;
  // Returns the value of that name, or kNone.
  [[nodiscard]] ValueId find(std::string_view value_name) const;
};

}  // namespace spillway
