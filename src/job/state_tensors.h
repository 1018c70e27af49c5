// The persistent values of a training job as whole tensors, whatever the slices of the graph: what files hold of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "job/training_graph.h"
#include "runtime/value_store.h"

namespace spillway::train {

// A whole tensor of the state in files, and the values that hold its elements, in order.
struct StateTensor {
  struct Part {
    ValueId value = kNone;
    int64_t first_elem = 0;
  };
  std::string name;
  ValueType type;  // in memory and in files
  std::vector<Part> parts;
  bool starts_clear = false;                // else as what a run starts from
  const TrainedWeight* exact_of = nullptr;  // whose most exact copy it is: what fills it fills the working copy, too
};

// Returns the most exact copy of a trained weight: its f32 master, or the weight itself.
[[nodiscard]] StateTensor exact_tensor(const TrainingGraph& training, const TrainedWeight& t);

// Returns state `i` of the optimizer's schema.
[[nodiscard]] StateTensor state_tensor(const TrainingGraph& training, const TrainedWeight& t, size_t i);

// Returns the average of a trained weight, in f32; without parts if the job has none.
[[nodiscard]] StateTensor average_tensor(const TrainingGraph& training, const TrainedWeight& t);

// Returns what an exact continuation needs, as a checkpoint has it: of each trained weight its most exact copy, the
// optimizer's state and the average, then what the optimizer keeps for all weights and a reference that changes.
[[nodiscard]] std::vector<StateTensor> state_tensors(const TrainingGraph& training);

// Fills or reads a tensor in pieces, each with its offset in the whole.
void write_tensor(ValueStore& store, const StateTensor& tensor, const ValueStore::Visitor& fill);
void read_tensor(ValueStore& store, const StateTensor& tensor, const ValueStore::Visitor& use);

// Fills a trained weight in one pass. `fill` writes the elements of its most exact copy, in the dtype that it is given;
// a working copy beside a master gets them rounded. `where` names their source in errors.
void write_exact(ValueStore& store, const TrainingGraph& training, const TrainedWeight& t, std::string_view where,
                 const ValueStore::Visitor& fill);

// Reads the most exact copy of a trained weight, whole and in order: its f32 master, or the weight itself.
void read_exact(const TrainingGraph& training, const TrainedWeight& t, ValueStore& store,
                const ValueStore::Visitor& use);

// Reads the average of a trained weight, in f32. REQUIRES: the job has averages.
void read_average(const TrainingGraph& training, const TrainedWeight& t, ValueStore& store,
                  const ValueStore::Visitor& use);

}  // namespace spillway::train
