#include "graph/graph.h"

#include "base/error.h"
#include "base/math.h"

namespace spillway {

std::string_view name_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::kFrozenWeight:
      return "frozen_weight";
    case ValueKind::kTrainableWeight:
      return "trainable_weight";
    case ValueKind::kOptimizerState:
      return "optimizer_state";
    case ValueKind::kGradient:
      return "gradient";
    case ValueKind::kActivation:
      return "activation";
    case ValueKind::kBatch:
      return "batch";
    case ValueKind::kCache:
      return "cache";
  }
  report_bug(__FILE__, __LINE__, "kind", "unknown");
}

std::string to_string(const ValueType& type) {
  std::string mark;
  if (type.axis == kTokenAxis) {
    mark = "t";
  } else if (type.follows_axis()) {
    mark = fmt::format(":{}", static_cast<int>(type.axis));
  }
  std::string text = fmt::format("{}[", name_of(type.dtype));
  for (int i = 0; i < type.shape.rank(); ++i)
    text += fmt::format("{}{}{}", i ? ", " : "", type.shape[i], i == 0 ? mark : "");
  return text + "]";
}

int64_t rows_of(const Axis& axis, int64_t rows) {
  const int64_t all = rows * axis.per_token;
  return axis.tiles > 1 ? align_up(div_ceil(all, axis.tiles), kTileRows) : all;
}

bool Graph::is_persistent(ValueId id) const {
  const Value& v = value(id);
  return v.producer == kNone && v.kind != ValueKind::kBatch;
}

ValueId Graph::persistent_root(ValueId id) const {
  while (value(id).updates != kNone) id = value(id).updates;
  return is_persistent(id) ? id : kNone;
}

GroupId Graph::find_group(ValueKind kind, BlockId block, std::string_view part) const {
  // The last groups are the likeliest: a graph is built block by block.
  for (size_t i = groups.size(); i-- > 0;) {
    const Group& group = groups[i];
    if (group.kind == kind && group.block == block && group.part == part) return static_cast<GroupId>(i);
  }
  return kNone;
}

ValueId Graph::find(std::string_view value_name) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].name == value_name) return static_cast<ValueId>(i);
  }
  return kNone;
}

}  // namespace spillway
