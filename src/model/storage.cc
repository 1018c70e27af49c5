#include "model/storage.h"

#include "base/error.h"

namespace spillway {
namespace {

class DenseStorage final : public Storage {
 public:
  [[nodiscard]] std::string_view name() const override { return "dense"; }
  [[nodiscard]] std::vector<StoragePart> parts(const WeightSpec& weight) const override {
    return {{"", weight.dtype, weight.shape}};
  }
  [[nodiscard]] ValueId linear(Builder& builder, ValueId x, const WeightSpec&, std::span<const ValueId> parts,
                               const ops::LinearOptions& options) const override {
    return ops::linear(builder, x, parts[0], options);
  }
  [[nodiscard]] ValueId grouped_linear(Builder& builder, ValueId x, ValueId offsets, int64_t pairs_per_token,
                                       const WeightSpec&, std::span<const ValueId> parts,
                                       const ops::GroupedLinearOptions& options) const override {
    return ops::grouped_linear(builder, x, offsets, pairs_per_token, parts, options);
  }
  [[nodiscard]] bool is_coded() const override { return false; }
  [[nodiscard]] std::vector<ParameterTensor> tensors(const std::string& name, const WeightSpec& weight) const override {
    return {{name, weight.shape, {}}};
  }
  void encode(const std::string&, const WeightSpec&, const Source&, const Append&, ThreadPool&) const override {
    report_bug(__FILE__, __LINE__, "encode", "a dense weight has no codes");
  }
  void decode(const WeightSpec&, std::span<const TensorView>, int64_t, int64_t, float*) const override {
    report_bug(__FILE__, __LINE__, "decode", "a dense weight has no codes");
  }
};

}  // namespace

std::vector<ParameterTensor> Storage::tensors(const std::string& name, const WeightSpec& weight) const {
  std::vector<ParameterTensor> result;
  for (const StoragePart& part : parts(weight))
    result.push_back({fmt::format("{}{}", name, part.suffix), part.shape, part.dtype});
  return result;
}

void Storage::read(const SafetensorsFolder& folder, const std::string& name, const WeightSpec& weight, size_t part,
                   const TensorView& piece, int64_t first) const {
  folder.read(tensors(name, weight)[part].name, first, piece.elems(), piece.dtype, piece.data);
}

const StoragePtr& dense_storage() {
  static const StoragePtr storage = std::make_shared<DenseStorage>();
  return storage;
}

}  // namespace spillway
