// Rows as flat streams of tokens, or of the patches of clips. This is the only form of a batch: packed and plain
// batches differ only in how a stream is filled, and none holds padding.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "data/packing/pack.h"

namespace spillway::data {

struct MicroBatch {
  // A column in addition to those of every stream: one or several elements per token, per row of the data, or in all.
  template <typename T>
  struct Named {
    std::string_view name;
    std::vector<T> values;
  };
  using Numbers = Named<float>;
  using Indices = Named<int32_t>;

  std::vector<int32_t> ids;          // of text
  std::vector<int32_t> labels;       // what each token predicts: the label of the next token of its sequence, else -100
  std::vector<int32_t> positions;    // from 0 in each sequence; three a patch: frame, row, column
  std::vector<int32_t> seq_offsets;  // where each sequence begins, and the length at the end
  int64_t targets = 0;               // labels that are not -100; of clips, their number
  int64_t rows = 0;                  // of the data, or lines of several
  std::vector<Numbers> numbers;      // as the objective, or a model that reads no text, names them
  std::vector<Indices> indices;      // as a model that reads no text names them

  // The number of tokens in the stream.
  [[nodiscard]] int64_t tokens() const { return seq_offsets.empty() ? 0 : seq_offsets.back(); }
  // Reserves memory for `tokens` tokens.
  void reserve(int64_t tokens);
  // Removes all content. Columns stay, empty, and so does the reserved memory.
  void clear();
  // Returns the column of that name, adding it if there is none. `name` must outlive the batch.
  [[nodiscard]] std::vector<float>& column(std::string_view name);
  [[nodiscard]] std::vector<int32_t>& index_column(std::string_view name);
};

// Replaces the content of the micro-batch with the pieces, in their order. Allocates only to grow.
void fill_micro_batch(MicroBatch& batch, const RowTable& rows, std::span<const Piece> pieces);
// Appends the pieces to the content of the micro-batch.
void add_to_micro_batch(MicroBatch& batch, const RowTable& rows, std::span<const Piece> pieces);

// The tokens of a sequence that are labels; its first token never is.
enum class Learned { kCompletion, kAll };
// Appends a sequence to the stream, cut to `most` tokens.
void add_sequence(MicroBatch& stream, std::span<const int32_t> prompt, std::span<const int32_t> completion,
                  Learned learned = Learned::kCompletion, int64_t most = INT32_MAX);

// Returns the number of targets in the pieces: of each sequence the labels except for the first.
[[nodiscard]] int64_t count_targets(const RowTable& rows, std::span<const Piece> pieces);

enum class RowOrder {
  kShuffled,  // each epoch in another order
  kFile,
  kGroupedByLength,  // shuffled, then sorted within stretches of many micro-batches
};

struct BatchOptions {
  int64_t rows = 1;            // micro_batch_size: lines of a micro-batch; a line is a row, or several with packing
  int64_t sequence_len = 512;  // the capacity of a line
  std::optional<PackingStrategy> packing;
  int64_t packing_scope_rows = 0;       // of TRL's strategies, as in PackOptions
  int64_t line_rows = 0;                // of kFirstFit, as in PackOptions
  bool shuffle_before_packing = false;  // of TRL's strategies: other rows share a line than in file order
  uint64_t packing_seed = 42;           // of that
  RowOrder order = RowOrder::kShuffled;
  int64_t step_batches = 1;  // gradient_accumulation_steps: micro-batches of a step, which kGroupedByLength looks at
  bool drops_last = false;   // the last micro-batch of an epoch is left out where it has fewer lines
  uint64_t seed = 42;        // of the order
};

// The micro-batches of an epoch, in order.
struct EpochPlan {
  Lines lines;
  int64_t lines_per_batch = 1;
  int64_t left_out = 0;  // lines behind these, by BatchOptions::drops_last

  [[nodiscard]] int64_t micro_batches() const;
  [[nodiscard]] std::span<const Piece> micro_batch(int64_t index) const;
};

// Returns the plan of an epoch. It is a pure function of lengths, options and epoch, so that a position is enough to
// resume. Every epoch has the same number of micro-batches. First fit packs anew for each epoch; TRL's strategies give
// the same lines in every epoch, in another order. `progress` is for large data, as in PackOptions.
[[nodiscard]] EpochPlan plan_epoch(const RowTable& rows, const BatchOptions& options, int64_t epoch,
                                   const std::function<void(int64_t rows, int64_t of)>& progress = {});

// The rest of an epoch that began with micro-batches or steps of another size.
struct EpochRest {
  int64_t first_line = 0;              // that is left
  int64_t rows = 1, step_batches = 1;  // BatchOptions of those by which the epoch is ordered
};
// Returns the plan of what is left of an epoch: its lines in the order that they had, in micro-batches of `options`.
[[nodiscard]] EpochPlan plan_rest(const RowTable& rows, const BatchOptions& options, int64_t epoch,
                                  const EpochRest& rest,
                                  const std::function<void(int64_t rows, int64_t of)>& progress = {});

// Splits rows into training and validation rows. A `share` below 1 is a share of the rows, else their number. The
// selection depends only on the seed, without one it is the last rows; both parts keep the order of the rows. Throws
// InputError if no training rows would remain.
[[nodiscard]] std::pair<RowTable, RowTable> split_validation(const RowTable& rows, double share,
                                                             std::optional<uint64_t> seed);

// The same for row numbers, each list in ascending order.
struct RowSplit {
  std::vector<int64_t> training, validation;
};
[[nodiscard]] RowSplit split_validation(int64_t rows, double share, std::optional<uint64_t> seed);

}  // namespace spillway::data
