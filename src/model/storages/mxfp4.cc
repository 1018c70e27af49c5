#include "model/storages/mxfp4.h"

#include <algorithm>

#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "ops/quantised_grouped_linear/quantised_grouped_linear.h"
#include "ops/quantised_matmul/quantised_matmul.h"

namespace spillway {
namespace {

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales", kWeightEnding = ".weight";
constexpr int64_t kBlockBytes = 16;
constexpr int64_t kDecodedRows = 64;  // that are transposed at a time

class Mxfp4Storage final : public Storage {
 public:
  [[nodiscard]] std::string_view name() const override { return name_of(WeightCoding::kMxfp4); }
  [[nodiscard]] std::vector<StoragePart> parts(const WeightSpec& weight) const override {
    const std::vector<ValueType> types = ops::quantised_parts(kMxfp4Format, weight.shape[1], weight.shape[0]);
    return {{".blocks", types[0].dtype, types[0].shape}, {".scales", types[1].dtype, types[1].shape}};
  }
  [[nodiscard]] ValueId linear(Builder& builder, ValueId x, const WeightSpec& weight, std::span<const ValueId> parts,
                               const ops::LinearOptions& options) const override {
    return ops::quantised_matmul(builder, x, transposed(weight, parts),
                                 {.transpose = false,
                                  .addend = options.addend,
                                  .bias = options.bias,
                                  .out_dtype = options.out_dtype,
                                  .tail = options.tail});
  }
  [[nodiscard]] ValueId grouped_linear(Builder& builder, ValueId x, ValueId offsets, int64_t pairs_per_token,
                                       const WeightSpec& weight, std::span<const ValueId> parts,
                                       const ops::GroupedLinearOptions& options) const override {
    ops::GroupedLinearOptions of_transposed = options;
    of_transposed.are_in_by_out = !options.are_in_by_out;
    return ops::quantised_grouped_linear(builder, x, offsets, pairs_per_token, transposed(weight, parts),
                                         of_transposed);
  }

  [[nodiscard]] std::vector<ParameterTensor> tensors(const std::string& name, const WeightSpec& weight) const override {
    const Shape& shape = weight.shape;
    if (shape.rank() != 3) return {{name, shape, {}}};  // no tensor of experts, which the folder lacks
    if (shape[1] % kMxfp4Format.block_size != 0) {
      throw input_error(quote(name), "expected rows of a multiple of {} for mxfp4, got {}; check config.json",
                        kMxfp4Format.block_size, shape[1]);
    }
    const int64_t blocks = shape[1] / kMxfp4Format.block_size;
    return {{fmt::format("{}{}", name, kBlocks), {shape[0], shape[2], blocks, kBlockBytes}, DType::kU8},
            {fmt::format("{}{}", name, kScales), {shape[0], shape[2], blocks}, DType::kU8}};
  }
  void read(const SafetensorsFolder& folder, const std::string& name, const WeightSpec&, size_t part,
            const TensorView& piece, int64_t first) const override {
    const std::string tensor = fmt::format("{}{}", name, part == 0 ? kBlocks : kScales);
    folder.read_bytes(tensor, first, span_of(piece.as<std::byte>(), piece.bytes()));
    if (part == 0) return;
    const std::span<const uint8_t> scales = span_of(piece.as<uint8_t>(), piece.elems());
    const auto bad = std::find_if(scales.begin(), scales.end(), [](uint8_t scale) { return scale > kMaxMxfp4Scale; });
    if (bad != scales.end()) {
      throw input_error(quote(tensor), "expected scales of at most {}, got {}, which stands for {}; {}", kMaxMxfp4Scale,
                        *bad, *bad == 255 ? "no number" : "numbers beyond bf16", "download the file again");
    }
  }

  [[nodiscard]] DType decoded_dtype(const WeightSpec&) const override { return DType::kBF16; }
  void encode(const std::string&, const WeightSpec&, const Source&, const Append&, ThreadPool&) const override {
    report_bug(__FILE__, __LINE__, "encode", "nothing is encoded in mxfp4");
  }
  void decode(const WeightSpec& weight, std::span<const TensorView> parts, int64_t first, int64_t rows,
              float* elements) const override {
    const int64_t columns = weight.shape[1];
    const ops::QuantisedWeight codes = ops::quantised_weight(kMxfp4Format, columns, weight.shape[0], parts);
    auto piece = make_vector<float>(kDecodedRows * rows);
    for (int64_t column = 0; column < columns; column += kDecodedRows) {
      const int64_t count = std::min(kDecodedRows, columns - column);
      ops::decode(codes, {.row = column, .rows = count, .column = first, .columns = rows}, DType::kF32, rows,
                  piece.data());
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < count; ++i) elements[row * columns + column + i] = nth(piece, i * rows + row);
    }
  }

 private:
  static ops::QuantisedOperand transposed(const WeightSpec& weight, std::span<const ValueId> parts) {
    return {.parts = parts, .rows = weight.shape[1], .columns = weight.shape[0], .format = kMxfp4Format};
  }
};

}  // namespace

const StoragePtr& mxfp4_storage() {
  static const StoragePtr storage = std::make_shared<Mxfp4Storage>();
  return storage;
}

LinearStorage stored_mxfp4(const SafetensorsFolder& folder) {
  LinearStorage result{.storage = mxfp4_storage(), .has_experts = true};
  bool has_codes = false;
  for (const auto& [name, entry] : folder.tensors()) {
    const bool is_code = entry.tensor->dtype() == DType::kU8;
    has_codes |= is_code && name.ends_with(kBlocks);
    const bool is_dense_tensor_of_experts = !is_code && entry.tensor->shape.size() == 3;
    if (name.ends_with(kWeightEnding) || is_dense_tensor_of_experts)
      result.dense_modules.insert(name.substr(0, name.rfind('.')));
  }
  if (has_codes) return result;
  throw input_error(folder.path().string(),
                    "expected experts in mxfp4, as config.json's quantization_config says, got none; remove "
                    "quantization_config, or download the folder again");
}

}  // namespace spillway
