#include "graph/builder.h"

#include "base/error.h"

namespace spillway {

void Builder::adopt(const Graph& other) {
  SPILLWAY_CHECK(graph_.values.empty() && graph_.blocks.empty(), "{} is not empty", graph_.name);
  graph_.blocks = other.blocks;
  for (const Block& block : graph_.blocks)
    adopted_blocks_.emplace(block.name, static_cast<BlockId>(adopted_blocks_.size()));
  for (ValueId id = 0; id < static_cast<ValueId>(other.values.size()); ++id) {
    if (!other.is_persistent(id)) continue;
    adopted_values_.emplace(other.value(id).name, static_cast<ValueId>(graph_.values.size()));
    graph_.values.push_back(other.value(id));
  }
}

ValueId Builder::input(std::string name, const ValueType& type, ValueKind kind) {
  if (const auto adopted = adopted_values_.find(name); adopted != adopted_values_.end()) {
    const ValueType& known = graph_.value(adopted->second).type;
    SPILLWAY_CHECK(known == type, "{} is {} elsewhere in the job, not {}", name, to_string(known), to_string(type));
    return adopted->second;
  }
  graph_.values.push_back({.name = std::move(name), .type = type, .kind = kind, .block = block_});
  return static_cast<ValueId>(graph_.values.size() - 1);
}

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
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string name = fmt::format("{}.{}", def.name, id);
    if (outputs.size() > 1) name += fmt::format("/{}", i);
    op.outputs.push_back(static_cast<ValueId>(graph_.values.size()));
    graph_.values.push_back({.name = std::move(name), .type = outputs[i], .producer = id, .block = block_});
  }
  graph_.ops.push_back(op);
  return op.outputs;
}

ValueId Builder::append_one(const OpDef& def, std::vector<ValueId> inputs, Attributes attributes) {
  const std::vector<ValueId> outputs = append(def, std::move(inputs), std::move(attributes));
  SPILLWAY_CHECK(outputs.size() == 1, "{} has {} outputs", def.name, outputs.size());
  return outputs[0];
}

void Builder::update(ValueId value, ValueId next) {
  SPILLWAY_CHECK(graph_.value(value).type == graph_.value(next).type, "{} is {}, its next version {}",
                 graph_.value(value).name, to_string(graph_.value(value).type), to_string(graph_.value(next).type));
  graph_.value(next).updates = value;
  graph_.value(next).kind = graph_.value(value).kind;
}

AxisId Builder::add_axis(std::string name, int64_t capacity) {
  graph_.axes.push_back({std::move(name), capacity});
  return static_cast<AxisId>(graph_.axes.size() - 1);
}

SectionId Builder::begin_section(Section section) {
  graph_.sections.push_back(std::move(section));
  return static_cast<SectionId>(graph_.sections.size() - 1);
}

BlockId Builder::begin_block(std::string name) {
  if (const auto adopted = adopted_blocks_.find(name); adopted != adopted_blocks_.end())
    return block_ = adopted->second;
  graph_.blocks.push_back({std::move(name)});
  return block_ = static_cast<BlockId>(graph_.blocks.size() - 1);
}

std::vector<bool> adopted_flags(const std::vector<bool>& by_value, const Graph& first, const Graph& graph) {
  std::vector<bool> result;
  for (ValueId id = 0; id < static_cast<ValueId>(first.values.size()); ++id) {
    if (!by_value.empty() && first.is_persistent(id)) result.push_back(by_value[static_cast<size_t>(id)]);
  }
  if (!by_value.empty()) result.resize(graph.values.size());
  return result;
}

}  // namespace spillway
