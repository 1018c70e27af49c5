#include "job/epoch_size.h"

#include <doctest/doctest.h>

using spillway::train::EpochSize;

TEST_CASE("a short step at the end of an epoch is a smaller part of it, as in transformers") {
  // The epochs that Trainer of transformers 5.23 logs for 21 rows, per_device_train_batch_size 2,
  // gradient_accumulation_steps 4.
  const EpochSize short_end{.micro_batches = 11, .step_batches = 4};
  CHECK(short_end.steps() == 3);
  const double logged[] = {0.36363636363636365, 0.7272727272727273, 1, 1.3636363636363638, 1.7272727272727273, 2};
  for (int step = 1; step <= 6; ++step) CHECK(short_end.epochs_after(step) == logged[step - 1]);
  CHECK(short_end.epochs_after(0) == 0);
}

TEST_CASE("steps of equal size are equal parts of an epoch") {
  const EpochSize even{.micro_batches = 12, .step_batches = 4};
  CHECK(even.epochs_after(1) == 4.0 / 12);
  CHECK(even.epochs_after(7) == 2 + 4.0 / 12);
  // One step of fewer micro-batches than it could have.
  const EpochSize small{.micro_batches = 3, .step_batches = 4};
  CHECK(small.steps() == 1);
  CHECK(small.epochs_after(5) == 5);
}
