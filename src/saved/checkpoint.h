// Folders checkpoint-STEP: the model folder of that step, and the state that continues the run bit for bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/stream/row_stream.h"
#include "job/epoch_size.h"
#include "saved/base_identity.h"
#include "saved/feed_state.h"
#include "saved/merged_base.h"
#include "saved/model_card.h"
#include "saved/run_identity.h"
#include "saved/run_settings.h"
#include "saved/saved_model.h"
#include "saved/state.h"
#include "saved/stopping_state.h"

namespace spillway::train {

// The identity of a model that scores completions; training does not change it.
struct RewardModelIdentity {
  std::string folder;  // for messages: it may lie elsewhere when the run goes on
  BaseIdentity weights;
};
// Returns the identities of the reward models of a job that generates its completions, none for any other job.
[[nodiscard]] std::optional<std::vector<RewardModelIdentity>> identify_reward_models(const Job& job);

// The position of a run. Everything else follows from the config: the order of rows is a pure function of seed and
// epoch, and each random number one of seed and step. With a stream, rows and steps_per_epoch are 0.
struct TrainingPosition {
  int64_t step = 0;        // optimizer steps done
  int64_t num_tokens = 0;  // seen so far
  // The data, so that another data set is noticed.
  int64_t rows = 0;
  std::string rows_checksum;                   // data::RowTable::checksum; empty: not known
  std::string evaluation_checksum;             // of the rows that evaluations read; empty: none, or not known
  int64_t steps_per_epoch = 0;                 // in batches of the size that the checkpoint was written with
  std::optional<BatchChange> change;           // of that size, where it was another before
  std::optional<data::StreamPosition> stream;  // of the next step
  std::string stream_identity;                 // data::stream_identity, with a stream
  FeedState feed;                              // StepFeed::state, of the step that was done last
  // The run.
  RunIdentity run;
  BaseIdentity base;     // empty: not known
  MergedBase merged;     // of an adapter that restarts
  RunSettings settings;  // the same
  // Each folder once, in the order of the config; none if not known.
  std::optional<std::vector<RewardModelIdentity>> reward_models;
  std::optional<StoppingState> stopping;  // the same
  std::optional<bool> is_evaluated;       // whether the step's evaluation came before the checkpoint; the same
};

// The content of a checkpoint's spillway_state.json.
struct CheckpointRecord {
  std::filesystem::path folder;
  TrainingPosition position;               // its feed without the round
  nlohmann::ordered_json round = nullptr;  // of the feed, without its tensors; null: none
  std::optional<TensorSums> model, state;  // of the checkpoint's files; none: of a version without
  bool is_only_model = false;              // without what a run goes on with
};

enum class CheckpointContent { kAll, kModel };

// Writes OUTPUT/checkpoint-STEP atomically, and returns it. With kModel it leaves out the state of the optimizer and of
// the feed.
std::filesystem::path save_checkpoint(const std::filesystem::path& output, const TrainingPosition& position,
                                      const ModelInTraining& model, const TrainedFacts& facts = {},
                                      CheckpointContent content = CheckpointContent::kAll);

// Removes the oldest checkpoints of `run` until `limit` are left (0: removes none), but neither the last one nor that
// of the step `best`. Checkpoints of other runs stay.
void remove_old_checkpoints(const std::filesystem::path& output, const RunIdentity& run, int64_t limit,
                            int64_t best = 0);

// A checkpoint in an output folder.
struct FoundCheckpoint {
  int64_t step = 0;
  std::filesystem::path folder;
};
// Returns the checkpoints in a folder in ascending order of their steps. Folders of other programs are left out.
[[nodiscard]] std::vector<FoundCheckpoint> find_checkpoints(const std::filesystem::path& output);

// The run's checkpoint of a step, where it is there and can be read.
[[nodiscard]] std::optional<CheckpointRecord> find_checkpoint(const std::filesystem::path& output,
                                                              const RunIdentity& run, int64_t step);

// Throws InputError for what is none of ours, or damaged. Reads no tensors.
[[nodiscard]] CheckpointRecord read_checkpoint(const std::filesystem::path& folder);

// Throws InputError where the checkpoint belongs to other data, another base or other reward models than `expected`, or
// has done more than `total_steps`; warns of settings that differ.
void check_checkpoint(const CheckpointRecord& checkpoint, const TrainingPosition& expected, int64_t total_steps);

// Reads all tensors of the checkpoint. Throws InputError that names the first one that does not hold what was written.
void verify_checkpoint(const CheckpointRecord& checkpoint, const Job& job);

// The round that the checkpoint stands in the middle of; null: none. Throws InputError where it is damaged.
[[nodiscard]] std::shared_ptr<const Round> load_round(const CheckpointRecord& checkpoint);

// Reads the state (of a checkpoint of a model alone its weights), and verifies all tensors of the checkpoint. Where the
// job's adapter restarts, the weights that it is merged into become those that the checkpoint was written with. Throws
// InputError that names the first one that does not hold what was written, and where the state belongs to another job.
void load_checkpoint(const CheckpointRecord& checkpoint, const Job& job, const TrainingGraph& training,
                     ValueStore& store);

}  // namespace spillway::train
