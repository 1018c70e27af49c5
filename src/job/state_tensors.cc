#include "job/state_tensors.h"

#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "io/convert.h"

namespace spillway::train {
namespace {

StateTensor tensor_of(const TrainingGraph& training, ValueId id, const Shape& shape) {
  const Value& value = training.graph.value(id);
  return {value.name, {value.type.dtype, shape}, {{id, 0}}};
}

StateTensor weight_tensor(const TrainingGraph& training, const TrainedWeight& t) {
  return tensor_of(training, t.weight, training.parameter_of(t).shape);
}

// Returns the tensor of the value that `value_of` selects in each slice; without parts if the job has no such value.
template <typename ValueOf>
StateTensor sliced_tensor(const TrainingGraph& training, const TrainedWeight& t, const ops::StateSpec& spec,
                          const ValueOf& value_of) {
  const Value& weight = training.graph.value(t.weight);
  const Shape& shape = training.parameter_of(t).shape;
  StateTensor result{fmt::format("{}.{}", spec.name, weight.name), ops::type_of(spec, {0, shape[0]}, shape), {}};
  int64_t first_elem = 0;
  for (const StateSlice& slice : t.slices) {
    const ValueId value = value_of(slice);
    if (value == kNone) continue;
    result.parts.push_back({value, first_elem});
    first_elem += ops::type_of(spec, slice.rows, shape).shape.elems();
  }
  return result;
}

StateTensor master_tensor(const TrainingGraph& training, const TrainedWeight& t) {
  return sliced_tensor(training, t, {.name = "master"}, [](const StateSlice& slice) { return slice.master; });
}

}  // namespace

StateTensor state_tensor(const TrainingGraph& training, const TrainedWeight& t, size_t i) {
  return sliced_tensor(training, t, t.schema.values[i], [i](const StateSlice& slice) { return slice.states[i]; });
}

StateTensor exact_tensor(const TrainingGraph& training, const TrainedWeight& t) {
  StateTensor master = master_tensor(training, t);
  return master.parts.empty() ? weight_tensor(training, t) : master;
}

StateTensor average_tensor(const TrainingGraph& training, const TrainedWeight& t) {
  return sliced_tensor(training, t, {.name = "ema"}, [](const StateSlice& slice) { return slice.ema; });
}

std::vector<StateTensor> state_tensors(const TrainingGraph& training) {
  std::vector<StateTensor> result;
  const auto add_clear = [&](StateTensor tensor) {
    if (tensor.parts.empty()) return;
    tensor.starts_clear = true;
    result.push_back(std::move(tensor));
  };
  for (const TrainedWeight& t : training.trained) {
    result.push_back(exact_tensor(training, t));
    result.back().exact_of = &t;
    for (size_t i = 0; i < t.schema.values.size(); ++i) add_clear(state_tensor(training, t, i));
    add_clear(average_tensor(training, t));
  }
  if (training.step_state != kNone)
    add_clear(tensor_of(training, training.step_state, training.graph.value(training.step_state).type.shape));
  if (!training.objective.copies_change) return result;
  for (const Parameter& copy : training.objective.copies)
    result.push_back(tensor_of(training, copy.value(), copy.shape));
  return result;
}

void write_tensor(ValueStore& store, const StateTensor& tensor, const ValueStore::Visitor& fill) {
  for (const StateTensor::Part& part : tensor.parts) {
    store.write(part.value, [&](const TensorView& piece, int64_t first) { fill(piece, part.first_elem + first); });
  }
}

void read_tensor(ValueStore& store, const StateTensor& tensor, const ValueStore::Visitor& use) {
  for (const StateTensor::Part& part : tensor.parts) {
    store.read(part.value, [&](const TensorView& piece, int64_t first) { use(piece, part.first_elem + first); });
  }
}

void write_exact(ValueStore& store, const TrainingGraph& training, const TrainedWeight& t, std::string_view where,
                 const ValueStore::Visitor& fill) {
  const Parameter& p = training.parameter_of(t);
  const StateTensor master = master_tensor(training, t);
  if (master.parts.empty()) {
    write_tensor(store, weight_tensor(training, t), fill);
    return;
  }
  const std::unique_ptr<ValueStore::Writer> copy = store.writer(t.weight);
  write_tensor(store, master, [&](const TensorView& piece, int64_t first) {
    fill(piece, first);
    for_each_rounded(piece, first, p.dtype, [&](const TensorView& rounded, int64_t first_elem) {
      if (const int64_t bad = find_nonfinite(rounded.data, p.dtype, rounded.elems()); bad >= 0) {
        throw input_error(where, "expected finite values in tensor {}, got a value too large for {} at element {}; {}",
                          quote(p.name), name_of(p.dtype), first_elem + bad, "use weights without NaN and infinity");
      }
      copy->append(rounded.data, rounded.elems());
    });
  });
}

void read_exact(const TrainingGraph& training, const TrainedWeight& t, ValueStore& store,
                const ValueStore::Visitor& use) {
  read_tensor(store, exact_tensor(training, t), use);
}

void read_average(const TrainingGraph& training, const TrainedWeight& t, ValueStore& store,
                  const ValueStore::Visitor& use) {
  read_tensor(store, average_tensor(training, t), use);
}

}  // namespace spillway::train
