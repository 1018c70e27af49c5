#include "model/gguf/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/index.h"

namespace spillway {
namespace {

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// Calls copy(element of the tensor, element of the view, count) for each run of elements that lie one behind the other
// in both.
template <typename Copy>
void for_each_run(const GgufPart& part, const Copy& copy) {
  if (part.axes.empty()) return copy(0, 0, part.elems_in_files());
  const bool is_run = part.axes.back().stride == 1;
  const size_t outer = part.axes.size() - (is_run ? 1 : 0);
  const int64_t run = is_run ? part.axes.back().count : 1, end = part.elems();
  std::vector<int64_t> at(outer, 0);
  int64_t from = part.first;
  for (int64_t to = 0; to < end; to += run) {
    copy(from, to, run);
    for (size_t axis = outer; axis-- > 0;) {
      from += part.axes[axis].stride;
      if (++at[axis] < part.axes[axis].count) break;
      from -= part.axes[axis].count * part.axes[axis].stride;
      at[axis] = 0;
    }
  }
}

}  // namespace

int64_t GgufPart::elems_in_files() const { return product(shape); }

int64_t GgufPart::elems() const {
  if (axes.empty()) return elems_in_files();
  int64_t result = 1;
  for (const GgufAxis& axis : axes) result *= axis.count;
  return result;
}

void GgufPart::gather(const float* from, float* to) const {
  for_each_run(*this, [&](int64_t source, int64_t view, int64_t run) { std::copy_n(from + source, run, to + view); });
  for (const float factor : factors)
    for (float& value : std::span(to, static_cast<size_t>(elems()))) value *= factor;
}

void GgufPart::scatter(const float* from, float* to) const {
  SPILLWAY_CHECK(factors.empty(), "{} has factors in GGUF", name);
  for_each_run(*this, [&](int64_t source, int64_t view, int64_t run) { std::copy_n(from + view, run, to + source); });
}

GgufPart view_of_factor(const GgufPart& part, char which, int64_t rank) {
  SPILLWAY_CHECK(part.shape.size() == 2, "{} is no matrix", part.name);
  const int64_t rows = part.shape[0], row = part.shape[1];
  GgufPart view{.name = part.name, .shape = {which == 'B' ? rows : rank, which == 'B' ? rank : row}};
  if (which == 'B') view.factors = part.factors;
  if (part.axes.empty()) return view;
  if (which == 'A') view.axes = {{rank, row}};
  for (const GgufAxis& axis : part.axes) {
    const bool is_of_rows = axis.stride >= row;
    if (is_of_rows && which == 'B') view.axes.push_back({axis.count, axis.stride / row * rank});
    if (!is_of_rows && which == 'A') view.axes.push_back(axis);
  }
  if (which == 'B') {
    view.first = part.first / row * rank;
    view.axes.push_back({rank, 1});
  }
  return view;
}

void GgufWeight::to_gguf(std::span<float> values) const {
  if (shift != 0)
    for (float& value : values) value += shift;
  if (is_rate)
    for (float& value : values) value = static_cast<float>(-std::exp(double{value}));
}

void GgufWeight::to_files(std::span<float> values) const {
  if (is_rate)
    for (float& value : values) value = static_cast<float>(std::log(-static_cast<double>(value)));
  if (shift != 0)
    for (float& value : values) value -= shift;
}

int64_t unread_gguf_layers(const GgufFile& file) {
  const auto& name = file.get<std::string>("general.architecture");
  const int64_t* layers = file.find<int64_t>(fmt::format("{}.nextn_predict_layers", name));
  return layers == nullptr ? 0 : *layers;
}

}  // namespace spillway
