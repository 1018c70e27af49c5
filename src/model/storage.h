// How the content of a weight is kept: as its elements, or as codes and what decodes them. To the planner and the tiers
// the parts of a coded weight are frozen values like any other. docs/add-a-storage.md says how to add one.
//
// A storage is immutable, and any thread may use it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/parallel.h"
#include "graph/builder.h"
#include "io/safetensors.h"
#include "ops/matmul/matmul.h"
#include "tensor/view.h"

namespace spillway {

// A value that holds a part of a weight; in the graph it is called as the weight, and then `suffix`.
struct StoragePart {
  std::string_view suffix;
  DType dtype;
  Shape shape;
};

// A tensor of a model's files that holds a weight, or a part of it.
struct ParameterTensor {
  std::string name;
  Shape shape;
  std::optional<DType> dtype;  // empty: any floating dtype
};

// The shape of a weight, and the dtype that the graph computes with.
struct WeightSpec {
  Shape shape;
  DType dtype = DType::kF32;
};

class Storage {
 public:
  virtual ~Storage() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  // What holds a weight in a graph.
  [[nodiscard]] virtual std::vector<StoragePart> parts(const WeightSpec& weight) const = 0;
  // As ops::linear with the weight [O, I] that the parts hold, in the dtype of x. Differentiated for x alone, unless
  // the storage is dense.
  [[nodiscard]] virtual ValueId linear(Builder& builder, ValueId x, const WeightSpec& weight,
                                       std::span<const ValueId> parts, const ops::LinearOptions& options) const = 0;

  // Whether parts are something else than the elements in any floating dtype; what follows is of such storages.
  [[nodiscard]] virtual bool is_coded() const { return true; }

  // What holds a weight called `name` in a model's files, and the content of a part of it there, elements [first, first
  // + piece.elems()). Throws InputError. By default every part is a tensor, called as in the graph.
  [[nodiscard]] virtual std::vector<ParameterTensor> tensors(const std::string& name, const WeightSpec& weight) const;
  virtual void read(const SafetensorsFolder& folder, const std::string& name, const WeightSpec& weight, size_t part,
                    const TensorView& piece, int64_t first) const;

  // What decoded elements are rounded to, and a dense copy of the weight has.
  [[nodiscard]] virtual DType decoded_dtype(const WeightSpec& weight) const { return weight.dtype; }

  // From a weight's elements, which `source` gives in order, to the parts, whose elements `append` takes in order, of
  // any part at a time. Throws InputError where `source` does, and with `name` for a weight that has no codes.
  using Source = std::function<void(int64_t first, int64_t count, float* into)>;
  using Append = std::function<void(size_t part, const void* elements, int64_t count)>;
  virtual void encode(const std::string& name, const WeightSpec& weight, const Source& source, const Append& append,
                      ThreadPool& pool) const = 0;
  // The elements of rows [first, first + rows) from whole parts, as `linear` computes with them in f32.
  virtual void decode(const WeightSpec& weight, std::span<const TensorView> parts, int64_t first, int64_t rows,
                      float* elements) const = 0;
};
using StoragePtr = std::shared_ptr<const Storage>;

// One part: the elements in the dtype that the graph computes with. Files may have them in any floating dtype.
[[nodiscard]] const StoragePtr& dense_storage();

// How the weights of linear layers are kept, where they are not trained.
struct LinearStorage {
  StoragePtr storage = dense_storage();
  std::set<std::string, std::less<>> dense_modules = {};  // paths of those that are dense all the same

  [[nodiscard]] const StoragePtr& of(std::string_view module) const {
    return dense_modules.contains(module) ? dense_storage() : storage;
  }
};

}  // namespace spillway
