#include "job/epoch_size.h"

#include <algorithm>
#include <cmath>

namespace spillway::train {

// The epoch of the change ends where one of the present size would.
int64_t EpochSize::ahead() const {
  if (!change) return 0;
  return (change->epoch + 1) * steps() - div_ceil(batches_of(lines - change->line), step_batches) - change->step;
}

int64_t EpochSize::steps_of(double epochs) const {
  return static_cast<int64_t>(std::ceil(epochs * static_cast<double>(steps()))) - ahead();
}

EpochSize::Place EpochSize::place(int64_t step) const {
  const int64_t even = even_step(step), epoch = even / steps();
  const bool is_in_rest = change && epoch == change->epoch;
  const int64_t first = is_in_rest ? step - change->step : even % steps();
  return {.epoch = epoch, .batch = first * step_batches, .is_in_rest = is_in_rest};
}

double EpochSize::epochs_after(int64_t step) const {
  const Place at = place(step);
  const int64_t before = at.is_in_rest ? change->line : 0, batches = batches_of(lines - before);
  const double share = static_cast<double>(before) / static_cast<double>(lines);
  const double begun = static_cast<double>(std::min(at.batch, batches)) / static_cast<double>(batches);
  return static_cast<double>(at.epoch) + share + (1 - share) * begun;
}

int64_t EpochSize::lines_of_epoch_before(const Place& place) const {
  return std::min(lines, (place.is_in_rest ? change->line : 0) + place.batch * batch_lines);
}

int64_t EpochSize::lines_before(int64_t step) const {
  const Place at = place(step);
  return at.epoch * lines + lines_of_epoch_before(at);
}

BatchChange EpochSize::change_at(int64_t step) const {
  const Place at = place(step);
  return {.step = step,
          .epoch = at.epoch,
          .line = lines_of_epoch_before(at),
          .order_lines = at.is_in_rest ? change->order_lines : batch_lines,
          .order_batches = at.is_in_rest ? change->order_batches : step_batches};
}

}  // namespace spillway::train
