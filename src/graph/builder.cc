#include "graph/builder.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"

namespace spillway {

void Builder::adopt(const Graph& other) {
  SPILLWAY_CHECK(graph_.values.empty() && graph_.blocks.empty(), "{} is not empty", graph_.name);
  graph_.blocks = other.blocks;
  graph_.groups = other.groups;
  for (const Block& block : graph_.blocks) blocks_.emplace(block.name, static_cast<BlockId>(blocks_.size()));
  for (ValueId id = 0; id < static_cast<ValueId>(other.values.size()); ++id) {
    if (!other.is_persistent(id)) continue;
    inputs_.emplace(other.value(id).name, static_cast<ValueId>(graph_.values.size()));
    graph_.values.push_back(other.value(id));
  }
}

ValueId Builder::input(std::string name, const ValueType& type, ValueKind kind, std::string_view part) {
  const auto [known, is_new] = inputs_.try_emplace(name, static_cast<ValueId>(graph_.values.size()));
  if (is_new) {
    const GroupId its_group = kind == ValueKind::kBatch ? kNone : group(kind, block_, part);
    graph_.values.push_back({.name = std::move(name), .type = type, .kind = kind, .block = block_, .group = its_group});
  } else {
    const ValueType& there = graph_.value(known->second).type;
    SPILLWAY_CHECK(there == type, "{} is {} elsewhere in the job, not {}", name, to_string(there), to_string(type));
  }
  return known->second;
}

namespace {

bool makes_parts(const Graph& graph, const Operation& op) {
  if (op.def->held != Held::kAsInputs) return op.def->held == Held::kPart;
  return std::any_of(op.inputs.begin(), op.inputs.end(),
                     [&](ValueId id) { return id != kNone && graph.value(id).split; });
}

}  // namespace

std::vector<ValueId> Builder::append(const OpDef& def, std::vector<ValueId> inputs, Attributes attributes) {
  std::vector<const ValueType*> types;
  for (const ValueId id : inputs) types.push_back(id == kNone ? nullptr : &graph_.value(id).type);
  const std::vector<ValueType> outputs = def.infer(types, attributes);

  const auto id = static_cast<OpId>(graph_.ops.size());
  Operation op{.def = &def,
               .inputs = std::move(inputs),
               .attributes = std::move(attributes),
               .section = static_cast<SectionId>(graph_.sections.size() - 1),
               .block = block_};
  const bool split = makes_parts(graph_, op);
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string name = fmt::format("{}.{}", def.name, id);
    if (outputs.size() > 1) name += fmt::format("/{}", i);
    op.outputs.push_back(static_cast<ValueId>(graph_.values.size()));
    graph_.values.push_back(
        {.name = std::move(name), .type = outputs[i], .producer = id, .block = block_, .split = split});
  }
  graph_.ops.push_back(op);
  return op.outputs;
}

ValueId Builder::append_one(const OpDef& def, std::vector<ValueId> inputs, Attributes attributes) {
  const std::vector<ValueId> outputs = append(def, std::move(inputs), std::move(attributes));
  SPILLWAY_CHECK(outputs.size() == 1, "{} has {} outputs", def.name, outputs.size());
  return outputs[0];
}

GroupId Builder::group(ValueKind kind, BlockId block, std::string_view part) {
  const GroupId known = graph_.find_group(kind, block, part);
  if (known != kNone) return known;
  graph_.groups.push_back({kind, block, std::string(part)});
  return static_cast<GroupId>(graph_.groups.size() - 1);
}

void Builder::update(ValueId value, ValueId next) {
  SPILLWAY_CHECK(graph_.value(value).type == graph_.value(next).type, "{} is {}, its next version {}",
                 graph_.value(value).name, to_string(graph_.value(value).type), to_string(graph_.value(next).type));
  graph_.value(next).updates = value;
  graph_.value(next).kind = graph_.value(value).kind;
}

AxisId Builder::add_axis(Axis axis) {
  const auto known =
      std::find_if(graph_.axes.begin(), graph_.axes.end(), [&](const Axis& one) { return one.name == axis.name; });
  if (known == graph_.axes.end()) {
    graph_.axes.push_back(std::move(axis));
    return static_cast<AxisId>(graph_.axes.size() - 1);
  }
  SPILLWAY_CHECK(known->capacity == axis.capacity, "{} has room for {} elsewhere in the graph, not {}", axis.name,
                 known->capacity, axis.capacity);
  return static_cast<AxisId>(known - graph_.axes.begin());
}

SectionId Builder::begin_section(Section section) {
  graph_.sections.push_back(std::move(section));
  return static_cast<SectionId>(graph_.sections.size() - 1);
}

BlockId Builder::begin_block(std::string name) {
  const auto [known, is_new] = blocks_.try_emplace(name, static_cast<BlockId>(graph_.blocks.size()));
  if (is_new) graph_.blocks.push_back({std::move(name)});
  return block_ = known->second;
}

std::vector<bool> adopted_flags(const std::vector<bool>& by_value, const Graph& first, const Graph& graph) {
  std::vector<bool> result;
  for (ValueId id = 0; id < static_cast<ValueId>(first.values.size()); ++id) {
    if (!by_value.empty() && first.is_persistent(id)) result.push_back(nth(by_value, id));
  }
  if (!by_value.empty()) result.resize(graph.values.size());
  return result;
}

}  // namespace spillway
