#include "job/state_pruning.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "base/index.h"
#include "base/random.h"
#include "io/convert.h"
#include "job/state_tensors.h"
#include "model/fresh_factors.h"
#include "ops/optimizers/adamw/adamw.h"
#include "ops/optimizers/adamw_8bit/adamw_8bit.h"
#include "ops/optimizers/block_codes.h"
#include "ops/optimizers/states.h"

namespace spillway::train {
namespace {

template <typename T>
std::vector<T> read_all(const StateTensor& tensor, ValueStore& store) {
  std::vector<T> values;
  read_tensor(store, tensor, [&](const TensorView& piece, int64_t) {
    values.insert(values.end(), piece.as<T>(), piece.as<T>() + piece.elems());
  });
  return values;
}

template <typename T>
void write_all(const StateTensor& tensor, const std::vector<T>& values, ValueStore& store) {
  write_tensor(store, tensor, [&](const TensorView& piece, int64_t first) {
    std::copy_n(values.begin() + first, piece.elems(), piece.as<T>());
  });
}

// Returns the quantile of the magnitudes, linear between the two that are nearest.
float quantile(std::vector<float> magnitudes, double ratio) {
  const double at = ratio * static_cast<double>(magnitudes.size() - 1);
  const auto low = static_cast<int64_t>(at);
  const auto place = magnitudes.begin() + low;
  std::nth_element(magnitudes.begin(), place, magnitudes.end());
  const float below = *place;
  if (static_cast<double>(low) == at) return below;
  const float above = *std::min_element(place + 1, magnitudes.end());
  return below + (above - below) * static_cast<float>(at - static_cast<double>(low));
}

// Decides which elements of a moment stay.
class Chooser {
 public:
  Chooser(const config::RestartSettings& settings, uint64_t seed, int64_t step)
      : settings_(settings), seed_(seed), step_(step) {}

  [[nodiscard]] std::vector<bool> kept(const std::string& name, const std::vector<float>& values) const {
    std::vector<bool> kept(values.size());
    if (settings_.prune_method != config::PruneMethod::kMagnitude) {
      RandomStream random(seed_, random_stream_of(fmt::format("restart.{}.{}", step_, name)));
      for (size_t i = 0; i < values.size(); ++i)
        kept[i] = static_cast<double>(random.uniform()) > settings_.prune_ratio;
      return kept;
    }
    std::vector<float> magnitudes = values;
    for (float& value : magnitudes) value = std::abs(value);
    const float least = quantile(magnitudes, settings_.prune_ratio);
    for (size_t i = 0; i < values.size(); ++i) kept[i] = magnitudes[i] > least;
    return kept;
  }

 private:
  const config::RestartSettings& settings_;
  uint64_t seed_;
  int64_t step_;
};

void prune(const StateTensor& moment, const Chooser& chooser, ValueStore& store) {
  std::vector<float> values;
  read_tensor(store, moment, [&](const TensorView& piece, int64_t first) {
    for_each_f32(piece, first,
                 [&](std::span<const float> some, int64_t) { values.insert(values.end(), some.begin(), some.end()); });
  });
  const std::vector<bool> kept = chooser.kept(moment.name, values);
  for (size_t i = 0; i < values.size(); ++i)
    if (!kept[i]) values[i] = 0;
  write_tensor(store, moment, [&](const TensorView& piece, int64_t first) {
    fill_from_f32(piece, first, [&](std::span<float> some, int64_t begin) {
      std::copy_n(values.begin() + begin, some.size(), some.begin());
    });
  });
}

void prune_codes(const StateTensor& moment, const StateTensor& absmax, const ops::BlockCodes& map,
                 const Chooser& chooser, ValueStore& store) {
  auto codes = read_all<uint8_t>(moment, store);
  const auto largest = read_all<float>(absmax, store);
  std::vector<float> values(codes.size());
  for (size_t i = 0; i < codes.size(); ++i)
    values[i] = map.values[codes[i]] * largest[i / static_cast<size_t>(ops::kStateBlock)];
  const auto zero = static_cast<uint8_t>(std::find(map.values, map.values + map.count(), 0.0F) - map.values);
  const std::vector<bool> kept = chooser.kept(moment.name, values);
  for (size_t i = 0; i < codes.size(); ++i)
    if (!kept[i]) codes[i] = zero;
  write_all(moment, codes, store);
}

}  // namespace

bool has_prunable_moments(const ops::OptimizerDef& optimizer) {
  return &optimizer == &ops::kAdamw || &optimizer == &ops::kAdamw8bit;
}

void prune_moments(const TrainingGraph& training, const config::RestartSettings& settings, uint64_t seed, int64_t step,
                   ValueStore& store) {
  const Chooser chooser(settings, seed, step);
  for (const TrainedWeight& t : training.trained_of_model()) {
    if (!training.parameter_of(t).is_factor()) continue;
    for (size_t i = 0; i < t.schema.values.size(); ++i) {
      const StateTensor moment = state_tensor(training, t, i);
      if (is_floating(moment.type.dtype)) {
        prune(moment, chooser, store);
        continue;
      }
      const bool is_signed = t.schema.values[i].name == "exp_avg";
      const StateTensor absmax = state_tensor(training, t, ++i);
      prune_codes(moment, absmax, is_signed ? ops::kBnbSigned : ops::kBnbUnsigned, chooser, store);
    }
  }
}

}  // namespace spillway::train
