// The steps of an epoch, and where in the rows each of them begins.
#pragma once

#include <cstdint>
#include <optional>

#include "base/math.h"

namespace spillway::train {

// The place at which a run went on with batches of another size.
struct BatchChange {
  int64_t step = 0;             // optimizer steps done before
  int64_t epoch = 0, line = 0;  // and lines of that epoch; a line is a row, or several that are packed
  // The size of the batches by which that epoch is ordered (group_by_length): what is left of it keeps its order.
  int64_t order_lines = 1, order_batches = 1;
};

// Counts steps as transformers does: the last step of an epoch has the micro-batches that are left. So does that before
// a run goes on with batches of another size: no line is left out or comes twice. (Trainer of transformers skips as
// many batches of the new size as it has done steps.)
struct EpochSize {
  int64_t lines = 0;
  int64_t step_batches = 1;  // micro-batches of a step
  int64_t batch_lines = 1;   // lines of a micro-batch
  bool drops_last = false;   // what is left of an epoch where it is less than a micro-batch
  std::optional<BatchChange> change{};

  // Where a step begins: behind so many micro-batches of the epoch, or of the rest of it that followed the change.
  struct Place {
    int64_t epoch = 0, batch = 0;
    bool is_in_rest = false;
  };

  // Returns the number in a whole epoch.
  [[nodiscard]] int64_t micro_batches() const { return batches_of(lines); }
  [[nodiscard]] int64_t steps() const { return div_ceil(micro_batches(), step_batches); }
  // Returns the number that a step would have if all steps of the run were of this size, by which epochs end at
  // multiples of steps(). REQUIRES: as all below, steps() > 0.
  [[nodiscard]] int64_t even_step(int64_t step) const { return step + ahead(); }
  // Returns the number of steps of a run of so many epochs.
  [[nodiscard]] int64_t steps_of(double epochs) const;
  [[nodiscard]] Place place(int64_t step) const;
  // Returns the number of epochs done after `step` steps, as `epoch` of transformers' Trainer: a short last step counts
  // as a smaller part of its epoch.
  [[nodiscard]] double epochs_after(int64_t step) const;
  // Returns the lines before a step, those of all epochs.
  [[nodiscard]] int64_t lines_before(int64_t step) const;
  // Returns where a run that has done `step` steps of this size goes on with another one.
  [[nodiscard]] BatchChange change_at(int64_t step) const;

 private:
  [[nodiscard]] int64_t batches_of(int64_t count) const {
    return drops_last ? count / batch_lines : div_ceil(count, batch_lines);
  }
  [[nodiscard]] int64_t ahead() const;
  [[nodiscard]] int64_t lines_of_epoch_before(const Place& place) const;
};

}  // namespace spillway::train
