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
  if (!change || epochs >= static_cast<double>(change->epoch + 1))
    return static_cast<int64_t>(std::ceil(epochs * static_cast<double>(steps()))) - ahead();
  // The run ends within the epoch of the change, whose first lines had steps of another size. A product that should be
  // whole may be a little more.
  constexpr double kRounding = 1e-9;
  const double left =
      (epochs - static_cast<double>(change->epoch)) * static_cast<double>(lines) - static_cast<double>(change->line);
  const double more = std::ceil(left / static_cast<double>(batch_lines * step_batches) - kRounding);
  return change->step + std::max<int64_t>(0, static_cast<int64_t>(more));
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
