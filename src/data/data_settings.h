// The resolved settings of a job's rows and batches, independent of how config keys are spelled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/dataset_options.h"

namespace spillway::data {

// Training rows that are read while training goes on.
struct StreamSettings {
  int64_t buffer_records = 10000;  // records that are shuffled, and packed, together
  bool shuffles = true;
  PretrainText pretrain_text = PretrainText::kWindows;  // of training rows alone
};

struct DataSettings {
  std::vector<DatasetConfig> datasets, test_datasets;
  RowOptions rows;                           // without what the model and the clock say: vocabulary and now
  BatchOptions batches, evaluation_batches;  // how plan_epoch() fills the micro-batches of each
  std::optional<uint64_t> validation_seed;   // of which rows val_set_size takes; none: the last ones
  int64_t eval_sequence_len = 0;             // of rows of test_datasets, where it is another; else 0
  double val_set_size = 0;                   // of `datasets`: a share below 1, a number of rows from 1 on
  std::optional<StreamSettings> stream;      // none: all rows are read first
  std::string prepared_path;                 // empty: rows are not kept
  std::optional<int64_t> threads;            // that tokenise; none: one a core
};

}  // namespace spillway::data
