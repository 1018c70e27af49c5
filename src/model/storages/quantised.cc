#include "model/storages/quantised.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "io/convert.h"
#include "ops/quantise/four_bit.h"
#include "ops/quantise/int8_rows.h"
#include "ops/quantised_grouped_linear/quantised_grouped_linear.h"
#include "ops/quantised_matmul/quantised_matmul.h"

namespace spillway {
namespace {

constexpr int64_t kCodedElems = int64_t{1} << 20;  // that are encoded at a time; whole blocks

class QuantisedStorage final : public Storage {
 public:
  explicit QuantisedStorage(const QuantisedFormat& format) : format_(format) {}

  [[nodiscard]] std::string_view name() const override { return name_of(format_.coding); }
  [[nodiscard]] std::vector<StoragePart> parts(const WeightSpec& weight) const override {
    constexpr std::array<std::string_view, 3> kFourBit = {"", ".absmax", ".nested_absmax"}, kInt8 = {"", ".SCB", ""};
    const auto& suffixes = is_int8() ? kInt8 : kFourBit;
    std::vector<StoragePart> result;
    for (const ValueType& type : ops::quantised_parts(format_, weight.shape[0], weight.shape[1]))
      result.push_back({suffixes[result.size()], type.dtype, type.shape});
    return result;
  }
  [[nodiscard]] ValueId linear(Builder& builder, ValueId x, const WeightSpec& weight, std::span<const ValueId> parts,
                               const ops::LinearOptions& options) const override {
    return ops::quantised_matmul(
        builder, x, {.parts = parts, .rows = weight.shape[0], .columns = weight.shape[1], .format = format_},
        {.addend = options.addend, .bias = options.bias, .out_dtype = options.out_dtype, .tail = options.tail});
  }
  [[nodiscard]] ValueId grouped_linear(Builder& builder, ValueId x, ValueId offsets, int64_t pairs_per_token,
                                       const WeightSpec& weight, std::span<const ValueId> parts,
                                       const ops::GroupedLinearOptions& options) const override {
    return ops::quantised_grouped_linear(
        builder, x, offsets, pairs_per_token,
        {.parts = parts, .rows = weight.shape[0], .columns = weight.shape[1], .format = format_}, options);
  }
  void encode(const std::string& name, const WeightSpec& weight, const Source& source, const Append& append,
              ThreadPool& pool) const override {
    is_int8() ? encode_int8(name, weight, source, append, pool) : encode_four_bit(name, weight, source, append, pool);
  }
  void decode(const WeightSpec& weight, std::span<const TensorView> parts, int64_t first, int64_t rows,
              float* elements) const override {
    ops::decode(ops::quantised_weight(format_, weight.shape[0], weight.shape[1], parts),
                {.row = first, .rows = rows, .columns = weight.shape[1]}, DType::kF32, weight.shape[1], elements);
  }

  [[nodiscard]] const QuantisedFormat& format() const { return format_; }

 private:
  [[nodiscard]] bool is_int8() const { return format_.coding == WeightCoding::kInt8; }

  void encode_four_bit(const std::string& name, const WeightSpec& weight, const Source& source, const Append& append,
                       ThreadPool& pool) const {
    const int64_t elems = weight.shape.elems();
    auto absmax = make_vector<float>(four_bit_blocks(elems, format_.block_size));
    auto piece = make_vector<float>(std::min(kCodedElems, elems));
    auto codes = make_vector<uint8_t>(four_bit_code_bytes(std::ssize(piece)));
    for (int64_t first = 0; first < elems; first += kCodedElems) {
      const int64_t count = std::min(kCodedElems, elems - first), bytes = four_bit_code_bytes(count);
      const std::span<float> some = first_of(piece, count);
      source(first, count, some.data());
      round_to(format_.weight_dtype, some);
      ops::quantise_four_bit(some, format_, first_of(codes, bytes),
                             subspan_of(absmax, first / format_.block_size, four_bit_blocks(count, format_.block_size)),
                             pool);
      append(0, codes.data(), bytes);
    }
    expect_finite(name, absmax);
    if (!format_.double_quant) return append(1, absmax.data(), std::ssize(absmax));
    std::vector<uint8_t> nested_codes(absmax.size());
    auto nested = make_vector<float>(div_ceil(std::ssize(absmax), kNestedBlockSize));
    const float offset = ops::double_quantise(absmax, nested_codes, nested, pool);
    nested.push_back(offset);
    append(1, nested_codes.data(), std::ssize(nested_codes));
    append(2, nested.data(), std::ssize(nested));
  }

  void encode_int8(const std::string& name, const WeightSpec& weight, const Source& source, const Append& append,
                   ThreadPool& pool) const {
    const int64_t rows = weight.shape[0], columns = weight.shape[1];
    const int64_t step = std::max<int64_t>(1, kCodedElems / std::max<int64_t>(1, columns));
    auto piece = make_vector<float>(std::min(step, rows) * columns), scales = make_vector<float>(rows);
    std::vector<int8_t> codes(piece.size());
    for (int64_t row = 0; row < rows; row += step) {
      const int64_t count = std::min(step, rows - row);
      const std::span<float> some = first_of(piece, count * columns);
      source(row * columns, std::ssize(some), some.data());
      round_to(format_.weight_dtype, some);
      ops::quantise_int8_rows(some, std::span(codes).first(some.size()), subspan_of(scales, row, count), pool);
      append(0, codes.data(), std::ssize(some));
    }
    expect_finite(name, scales);
    append(1, scales.data(), rows);
  }

  static void expect_finite(const std::string& name, std::span<const float> scales) {
    if (std::all_of(scales.begin(), scales.end(), [](float scale) { return std::isfinite(scale); })) return;
    throw input_error(name,
                      "expected weights within f16 for int8, and below the largest f32, got one that is larger; choose "
                      "nf4, or quantise none");
  }

  QuantisedFormat format_;
};

}  // namespace

StoragePtr quantised_storage(const QuantisedFormat& format) { return std::make_shared<QuantisedStorage>(format); }

std::optional<QuantisedFormat> quantised_format(const Storage& storage) {
  const auto* quantised = dynamic_cast<const QuantisedStorage*>(&storage);
  return quantised ? std::optional(quantised->format()) : std::nullopt;
}

}  // namespace spillway
