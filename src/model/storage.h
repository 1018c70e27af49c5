// The storage of a weight's content: its elements, or codes and what decodes them. To the planner and the tiers, the
// parts of a quantised weight are frozen values like any other. docs/add-a-storage.md says how to add one.
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
#include "ops/grouped_linear/grouped_linear.h"
#include "ops/matmul/matmul.h"
#include "tensor/view.h"

namespace spillway {

// A value that holds a part of a weight. Its name in the graph is that of the weight followed by `suffix`.
struct StoragePart {
  std::string_view suffix;
  DType dtype;
  Shape shape;
};

// A tensor of a model's files that holds a weight, or a part of it.
struct ParameterTensor {
  std::string name;
  Shape shape;
  std::optional<DType> dtype;           // empty: any floating dtype, or
  std::string_view foreign_dtype = {};  // that of files which has no DType here, "F8_E4M3"
};

// The shape of a weight, and the dtype in which the graph computes.
struct WeightSpec {
  Shape shape;
  DType dtype = DType::kF32;
};

class Storage {
 public:
  virtual ~Storage() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  // Returns the parts of a weight in a graph.
  [[nodiscard]] virtual std::vector<StoragePart> parts(const WeightSpec& weight) const = 0;
  // Appends ops::linear with the weight [O, I] that the parts hold, in the dtype of x. It is differentiated only for x,
  // unless the storage is dense.
  [[nodiscard]] virtual ValueId linear(Builder& builder, ValueId x, const WeightSpec& weight,
                                       std::span<const ValueId> parts, const ops::LinearOptions& options) const = 0;
  // Appends ops::grouped_linear with the weights [O, I] of some experts, whose parts follow one another. It is
  // differentiated likewise.
  [[nodiscard]] virtual ValueId grouped_linear(Builder& builder, ValueId x, ValueId offsets, int64_t pairs_per_token,
                                               const WeightSpec& weight, std::span<const ValueId> parts,
                                               const ops::GroupedLinearOptions& options) const = 0;

  // Returns true if the parts are not the elements in a floating dtype. The functions below are for such storages.
  [[nodiscard]] virtual bool is_coded() const { return true; }

  // tensors() returns the tensors that hold a weight called `name` in a model's files; read() reads elements [first,
  // first + piece.elems()) of a part from them. They throw InputError. By default every part is a tensor, named as in
  // the graph.
  [[nodiscard]] virtual std::vector<ParameterTensor> tensors(const std::string& name, const WeightSpec& weight) const;
  virtual void read(const SafetensorsFolder& folder, const std::string& name, const WeightSpec& weight, size_t part,
                    const TensorView& piece, int64_t first) const;

  // The dtype to which decoded elements are rounded, and which a dense copy of the weight has.
  [[nodiscard]] virtual DType decoded_dtype(const WeightSpec& weight) const { return weight.dtype; }

  // Encodes a weight. `source` gives its elements in order; `append` takes the elements of each part in order, in any
  // interleaving of the parts. Throws InputError if `source` does, and with `name` for a weight that cannot be encoded.
  using Source = std::function<void(int64_t first, int64_t count, float* into)>;
  using Append = std::function<void(size_t part, const void* elements, int64_t count)>;
  virtual void encode(const std::string& name, const WeightSpec& weight, const Source& source, const Append& append,
                      ThreadPool& pool) const = 0;
  // Decodes the elements of rows [first, first + rows) from whole parts, with the values that `linear` computes with,
  // in f32.
  virtual void decode(const WeightSpec& weight, std::span<const TensorView> parts, int64_t first, int64_t rows,
                      float* elements) const = 0;
};
using StoragePtr = std::shared_ptr<const Storage>;

// The storage with one part: the elements in the dtype in which the graph computes. Files may have them in any floating
// dtype.
[[nodiscard]] const StoragePtr& dense_storage();

// The storage of the weights of linear layers that are not trained.
struct LinearStorage {
  StoragePtr storage = dense_storage();
  std::set<std::string, std::less<>> dense_modules = {};  // paths of those that are dense all the same
  bool has_experts = false;  // the experts of mixtures are stored likewise; else they are dense

  [[nodiscard]] const StoragePtr& of(std::string_view module) const {
    return dense_modules.contains(module) ? dense_storage() : storage;
  }
  // The same for the experts of a layer, `module` being the one that has them all.
  [[nodiscard]] const StoragePtr& of_experts(std::string_view module) const {
    return has_experts ? of(module) : dense_storage();
  }
};

}  // namespace spillway
