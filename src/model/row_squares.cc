#include "model/row_squares.h"

#include <algorithm>

#include "base/error.h"
#include "base/sizes.h"
#include "io/convert.h"

namespace spillway {
namespace {

// The number of elements that are decoded at once.
constexpr int64_t kDecodedElems = int64_t{1} << 18;

// The parts are in memory while rows are decoded, some at a time.
void add_decoded(const Parameter& weight, ValueStore& store, RowSquares& squares) {
  const WeightSpec spec = weight.spec();
  std::vector<std::vector<std::byte>> contents;
  std::vector<TensorView> parts;
  for (const StoragePart& part : weight.storage->parts(spec)) {
    TensorView view{nullptr, part.dtype, part.shape};
    view.data = contents.emplace_back(make_vector<std::byte>(view.bytes())).data();
    store.read(weight.values[parts.size()], [&](const TensorView& piece, int64_t first) {
      copy_memory(view.as<std::byte>() + first * size_of(part.dtype), piece.data, piece.bytes());
    });
    parts.push_back(view);
  }
  const int64_t rows = spec.shape[0], columns = spec.shape[1], step = std::max<int64_t>(1, kDecodedElems / columns);
  auto elements = make_vector<float>(std::min(step, rows) * columns);
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t count = std::min(step, rows - first), elems = count * columns;
    const std::span<float> decoded = first_of(elements, elems);
    weight.storage->decode(spec, parts, first, count, decoded.data());
    round_to(spec.dtype, decoded);  // as the product has them
    squares.add(decoded);
  }
}

}  // namespace

RowSquares::RowSquares(int64_t rows, int64_t columns) : columns_(columns), sums_(make_vector<double>(rows * kSums)) {}

void RowSquares::add(std::span<const float> elements) {
  while (!elements.empty()) {
    const int64_t row = next_ / columns_, column = next_ % columns_;
    const auto count = static_cast<size_t>(std::min(columns_ - column, std::ssize(elements)));
    double* const sums = sums_.data() + row * kSums;
    for (size_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(elements[i]);
      sums[(static_cast<size_t>(column) + i) % kSums] += value * value;
    }
    next_ += static_cast<int64_t>(count);
    elements = elements.subspan(count);
  }
}

std::vector<float> RowSquares::result() const {
  std::vector<float> result;
  for (size_t first = 0; first < sums_.size(); first += kSums) {
    double total = 0;
    for (size_t i = 0; i < kSums; ++i) total += sums_[first + i];
    result.push_back(static_cast<float>(total));
  }
  return result;
}

void load_row_squares(const Parameter& squares, const Parameter& weight, ValueStore& store) {
  RowSquares sums(weight.shape[0], weight.shape[1]);
  if (weight.storage->is_coded()) {
    add_decoded(weight, store, sums);
  } else {
    store.read(weight.value(), [&](const TensorView& piece, int64_t first) {
      for_each_f32(piece, first, [&](std::span<const float> elements, int64_t) { sums.add(elements); });
    });
  }
  const std::vector<float> result = sums.result();
  store.write(squares.value(), [&](const TensorView& piece, int64_t first) {
    std::copy_n(result.begin() + first, piece.elems(), piece.as<float>());
  });
}

}  // namespace spillway
