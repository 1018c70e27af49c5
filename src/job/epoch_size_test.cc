#include "job/epoch_size.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using spillway::train::EpochSize;

namespace {

// Counts one by one how often each line of all epochs is trained on by steps [first, last) of a size.
void count_lines(const EpochSize& size, int64_t first, int64_t last, std::vector<int>& seen) {
  for (int64_t step = first; step < last; ++step)
    for (int64_t line = size.lines_before(step); line < size.lines_before(step + 1); ++line)
      ++seen[static_cast<size_t>(line)];
}

}  // namespace

TEST_CASE("a short step at the end of an epoch is a smaller part of it, as in transformers") {
  // The epochs that Trainer of transformers 5.23 logs for 21 rows, per_device_train_batch_size 2,
  // gradient_accumulation_steps 4.
  const EpochSize short_end{.lines = 11, .step_batches = 4};
  CHECK(short_end.steps() == 3);
  const double logged[] = {0.36363636363636365, 0.7272727272727273, 1, 1.3636363636363638, 1.7272727272727273, 2};
  for (int step = 1; step <= 6; ++step) CHECK(short_end.epochs_after(step) == logged[step - 1]);
  CHECK(short_end.epochs_after(0) == 0);
}

TEST_CASE("steps of equal size are equal parts of an epoch") {
  const EpochSize even{.lines = 12, .step_batches = 4};
  CHECK(even.epochs_after(1) == 4.0 / 12);
  CHECK(even.epochs_after(7) == 2 + 4.0 / 12);
  // One step of fewer micro-batches than it could have.
  const EpochSize small{.lines = 3, .step_batches = 4};
  CHECK(small.steps() == 1);
  CHECK(small.epochs_after(5) == 5);
}

TEST_CASE("a run that goes on with batches of another size, and again, trains on each line of each epoch once") {
  constexpr int64_t kLines = 23, kEpochs = 5;
  const EpochSize sizes[] = {{.lines = kLines, .step_batches = 2, .batch_lines = 2},
                             {.lines = kLines, .step_batches = 1, .batch_lines = 3},
                             {.lines = kLines, .step_batches = 4, .batch_lines = 8},
                             {.lines = kLines, .step_batches = 3, .batch_lines = 1}};
  for (const EpochSize& first : sizes) {
    for (const EpochSize& second : sizes) {
      for (int64_t at = 0; at <= first.steps_of(kEpochs); ++at) {
        EpochSize changed = second;
        changed.change = first.change_at(at);
        // Again one step later, where that is still in the same epoch.
        const int64_t again = std::min(at + 1, changed.steps_of(kEpochs));
        EpochSize last = first;
        last.change = changed.change_at(again);
        CAPTURE(at);
        std::vector<int> seen(kLines * kEpochs);
        count_lines(first, 0, at, seen);
        count_lines(changed, at, again, seen);
        count_lines(last, again, last.steps_of(kEpochs), seen);
        CHECK(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
        CHECK(last.epochs_after(last.steps_of(kEpochs)) == kEpochs);
        CHECK(last.even_step(last.steps_of(kEpochs)) == kEpochs * last.steps());
      }
    }
  }
}

TEST_CASE("a run of a part of an epoch has the lines of that part, whatever the steps before a change were") {
  const EpochSize one_step{.lines = 24, .step_batches = 6, .batch_lines = 4};
  EpochSize done{.lines = 24, .step_batches = 1, .batch_lines = 4};
  done.change = one_step.change_at(1);  // all of the epoch
  CHECK(done.steps_of(0.5) == 1);
  const EpochSize fours{.lines = 24, .step_batches = 2, .batch_lines = 2};
  EpochSize fives{.lines = 24, .step_batches = 1, .batch_lines = 5};
  fives.change = fours.change_at(3);  // 12 lines
  CHECK(fives.steps_of(0.5) == 3);
  CHECK(fives.steps_of(0.7) == 4);   // 16.8 lines
  CHECK(fives.steps_of(0.75) == 5);  // 18 lines, of which 5 at a time
  CHECK(fives.steps_of(1) == 6);
  CHECK(fives.steps_of(2.5) == 6 + 5 + 3);
}

TEST_CASE("what is left of an epoch is its share, and its steps are counted anew") {
  // 8 of 20 rows in two steps of 4; then steps of 5 rows, of which the third has 2.
  EpochSize size{.lines = 20, .step_batches = 1, .batch_lines = 5};
  size.change = EpochSize{.lines = 20, .step_batches = 2, .batch_lines = 2}.change_at(2);
  CHECK(size.change->epoch == 0);
  CHECK(size.change->line == 8);
  CHECK(size.steps_of(3) == 2 + 3 + 4 + 4);
  CHECK(size.epochs_after(2) == 0.4);
  CHECK(size.epochs_after(5) == 1);
  CHECK(size.epochs_after(6) == 1.25);
  // Rows are left out at the end of an epoch alone.
  size.drops_last = true;
  CHECK(size.steps_of(3) == 2 + 2 + 4 + 4);
}

TEST_CASE("an epoch that batches of two sizes share keeps the order of the size that began it") {
  const EpochSize first{.lines = 20, .step_batches = 2, .batch_lines = 2};
  EpochSize second{.lines = 20, .step_batches = 1, .batch_lines = 3};
  second.change = first.change_at(1);
  const auto order_after = [&](int64_t step) { return second.change_at(step).order_lines; };
  CHECK(order_after(3) == 2);  // row 10 of the same epoch
  CHECK(order_after(7) == 3);  // the next epoch
}
