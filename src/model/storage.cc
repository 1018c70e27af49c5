#include "model/storage.h"

namespace spillway {
namespace {

std::vector<StoragePart> dense_parts(const Shape& weight, DType dtype) { return {{"", dtype, weight}}; }

ValueId dense_linear(Builder& builder, ValueId x, std::span<const ValueId> parts, const ops::LinearOptions& options) {
  return ops::linear(builder, x, parts[0], options);
}

}  // namespace

const StorageDef kDense{.name = "dense", .parts = dense_parts, .linear = dense_linear, .decode = nullptr};

}  // namespace spillway
