// The rows of a job: its datasets, read, tokenised and split, and the way they are put into batches.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/preferences.h"
#include "data/stream/row_stream.h"
#include "job/clips/clip_job.h"

namespace spillway::train {

// The reference's scores of each row that are known before the run, by the passes that compute them.
struct ReferenceScores {
  struct Column {
    std::string_view name;
    std::vector<float> values;  // by data::RowTable::number_of
  };
  std::vector<Column> columns;
};

struct TrainingData {
  data::RowTable training, validation;
  ReferenceScores training_scores, validation_scores;
  std::shared_ptr<const ClipSets> clips;                   // in place of all of these, of a model that reads clips
  std::shared_ptr<const data::StreamSource> stream;        // in place of training rows, where they are read on the way
  data::DatasetSummary training_summary;                   // of `datasets`, rows split off for validation included
  std::vector<int32_t> ends;                               // of answers, that training rows teach
  std::optional<data::DatasetSummary> validation_summary;  // of `test_datasets`, where there are
};

// Throws InputError if files of `datasets` or `test_datasets` are missing. Reads none of them.
void check_data_files(const data::DataSettings& settings);

// Reads `datasets` (and `test_datasets`, or a share of them by `val_set_size`) with the tokenizer of the job. With
// dataset_prepared_path, rows are read from there, or written there. With `streaming`, training rows are not read but
// opened. Calls `progress`, if there is one, with the number of records read so far. `now` is the time that chat
// templates show in all rows, by default the time of the call. Throws InputError naming file and line for what cannot
// be read, and if a token is not in the model's vocabulary.
[[nodiscard]] TrainingData load_training_data(const data::DataSettings& settings,
                                              const config::TokenizerSettings& tokenizer, int64_t vocab_size,
                                              const std::function<void(int64_t records)>& progress = {},
                                              const std::optional<std::tm>& now = {});

struct PreferenceData {
  data::Preferences training, validation;  // in file order; without test_datasets the validation has no summary
};

// The same for objectives with a prompt and completions. REQUIRES: has_completions(settings.rows.objective).
[[nodiscard]] PreferenceData load_preference_data(const data::DataSettings& settings,
                                                  const config::TokenizerSettings& tokenizer, int64_t vocab_size,
                                                  const std::function<void(int64_t records)>& progress = {});

}  // namespace spillway::train
