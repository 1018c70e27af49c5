#include "job/layer_draws.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/error.h"
#include "base/index.h"
#include "base/random.h"
#include "base/sizes.h"

namespace spillway::train {
namespace {

// Returns the number that `text` begins with, if a dot follows it.
std::optional<int64_t> leading_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data() + text.size() || *end != '.') return {};
  return number;
}

std::optional<int64_t> layer_in(std::string_view list, std::string_view weight) {
  if (!weight.starts_with(list) || weight.size() <= list.size() || weight[list.size()] != '.') return {};
  return leading_number(weight.substr(list.size() + 1));
}

}  // namespace

std::optional<int64_t> DrawnLayers::layer_of(std::string_view weight) const { return layer_in(list, weight); }

std::optional<size_t> DrawnLayers::place_of(std::string_view weight) const {
  const std::optional<int64_t> layer = layer_of(weight);
  if (!layer) return {};
  const auto found = std::lower_bound(numbers.begin(), numbers.end(), *layer);
  if (found == numbers.end() || *found != *layer) return {};
  return static_cast<size_t>(found - numbers.begin());
}

std::string layer_list(const ParameterTable& parameters) {
  for (const Parameter& p : parameters) {
    for (size_t dot = p.name.find('.'); dot != std::string::npos; dot = p.name.find('.', dot + 1))
      if (leading_number(std::string_view(p.name).substr(dot + 1))) return p.name.substr(0, dot);
  }
  return "";
}

std::string layers_text(const std::vector<int64_t>& numbers) {
  return fmt::format("{} {}", numbers.size() == 1 ? "layer" : "layers", fmt::join(numbers, ", "));
}

int64_t count_layers(const ParameterTable& parameters, std::string_view list) {
  int64_t count = 0;
  for (const Parameter& p : parameters) count = std::max(count, layer_in(list, p.name).value_or(-1) + 1);
  return count;
}

// The first `drawn_` of a shuffle (Fisher and Yates).
std::vector<int64_t> LayerDraws::drawn_before(int64_t step) const {
  constexpr uint64_t kStream = uint64_t{0x4C495341} << 32;  // "LISA", apart from the streams of other random numbers
  RandomStream random(seed_, kStream + static_cast<uint64_t>(step));
  std::vector<int64_t> numbers(static_cast<size_t>(layers_));
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  for (int64_t i = 0; i < drawn_; ++i)
    std::swap(nth(numbers, i), nth(numbers, i + random.below(static_cast<uint32_t>(layers_ - i))));
  resize(numbers, drawn_);
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

LayerDraw LayerDraws::at(int64_t step) const {
  std::vector<int64_t> trained(static_cast<size_t>(layers_), 0);
  const auto next_after = [&](int64_t begin) {
    const int64_t multiple = (begin / interval_ + 1) * interval_;
    return begin < 1 ? std::min<int64_t>(1, multiple) : multiple;
  };
  LayerDraw draw{.first_step = step};
  for (int64_t begin = 0; begin <= step; begin = next_after(begin)) {
    draw.numbers = drawn_before(begin);
    const int64_t steps = std::min(next_after(begin), step) - begin;
    for (const int64_t layer : draw.numbers) nth(trained, layer) += steps;
  }
  for (const int64_t layer : draw.numbers) draw.steps_before.push_back(nth(trained, layer));
  return draw;
}

}  // namespace spillway::train
