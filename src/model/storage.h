// How the content of a weight is kept: as its elements, or as codes and what decodes them. To the planner and the tiers
// the parts of a coded weight are frozen values like any other. docs/add-a-storage.md says how to add one.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "graph/builder.h"
#include "ops/matmul/matmul.h"
#include "tensor/view.h"

namespace spillway {

// A value that holds a part of a weight; in the graph and in files it is called as the weight, and then `suffix`.
struct StoragePart {
  std::string_view suffix;
  DType dtype;
  Shape shape;
};

struct StorageDef {
  std::string_view name;
  // Of a weight of that shape, which the graph computes with in `dtype`.
  std::vector<StoragePart> (*parts)(const Shape& weight, DType dtype);
  // As ops::linear with the weight [O, I] that the parts hold, in the dtype of x. Differentiated for x alone, unless
  // the storage is dense.
  ValueId (*linear)(Builder& builder, ValueId x, std::span<const ValueId> parts, const ops::LinearOptions& options);
  // The weight's elements from whole parts, as `linear` computes with them in f32. Null where `parts` holds them.
  void (*decode)(std::span<const TensorView> parts, float* weight);
};

// One part: the elements in the dtype that the graph computes with. Files may have them in any floating dtype.
extern const StorageDef kDense;

}  // namespace spillway
