#include "train/state.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>

#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "io/checksum.h"
#include "io/convert.h"
#include "io/safetensors_writer.h"
#include "model/adapter.h"
#include "model/layout.h"
#include "model/weights.h"
#include "train/adapter_start.h"
#include "train/online/saved_round.h"
#include "train/reference.h"

namespace spillway::train {
namespace {

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

StateTensor tensor_of(const TrainingGraph& training, ValueId id) {
  const Value& value = training.graph.value(id);
  return {value.name, value.type, {{id, 0}}};
}

// Returns the tensor of the value that `value_of` selects in each slice; without parts if the job has no such value.
template <typename ValueOf>
StateTensor sliced_tensor(const TrainingGraph& training, const TrainedWeight& t, const ops::StateSpec& spec,
                          const ValueOf& value_of) {
  const Value& weight = training.graph.value(t.weight);
  const Shape& shape = weight.type.shape;
  StateTensor result{fmt::format("{}.{}", spec.name, weight.name), ops::type_of(spec, {0, shape[0]}, shape), {}};
  int64_t first_elem = 0;
  for (const StateSlice& slice : t.slices) {
    const ValueId value = value_of(slice);
    if (value == kNone) continue;
    result.parts.push_back({value, first_elem});
    first_elem += training.graph.value(value).type.shape.elems();
  }
  return result;
}

StateTensor master_tensor(const TrainingGraph& training, const TrainedWeight& t) {
  return sliced_tensor(training, t, {.name = "master"}, [](const StateSlice& slice) { return slice.master; });
}

// Returns state `i` of the optimizer.
StateTensor state_tensor(const TrainingGraph& training, const TrainedWeight& t, size_t i) {
  return sliced_tensor(training, t, t.schema.values[i], [i](const StateSlice& slice) { return slice.states[i]; });
}

// Returns the most exact copy of a trained weight: its master, or the weight itself.
StateTensor exact_tensor(const TrainingGraph& training, const TrainedWeight& t) {
  StateTensor master = master_tensor(training, t);
  return master.parts.empty() ? tensor_of(training, t.weight) : master;
}

// Returns the average of a trained weight; without parts if there is none.
StateTensor ema_tensor(const TrainingGraph& training, const TrainedWeight& t) {
  return sliced_tensor(training, t, {.name = "ema"}, [](const StateSlice& slice) { return slice.ema; });
}

// Returns the tensors that an exact continuation needs, as a checkpoint has them.
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
    add_clear(ema_tensor(training, t));
  }
  if (training.step_state != kNone) add_clear(tensor_of(training, training.step_state));
  if (!training.objective.copies_change) return result;
  for (const Parameter& copy : training.objective.copies) result.push_back(tensor_of(training, copy.value()));
  return result;
}

// Fills or reads a tensor in pieces, each with its offset in the whole.
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

void clear(const TensorView& piece, int64_t) { fill_memory(piece.data, 0, piece.bytes()); }

// Returns the norms of the rows of the module's weight, the start of a magnitude while B is zero.
std::vector<float> row_norms(const ParameterTable& parameters, const Parameter& magnitude, ValueStore& store) {
  std::vector<float> norms;
  const Parameter* squares = parameters.find(row_squares_name(magnitude.module + ".weight"));
  store.read(squares->value(), [&](const TensorView& piece, int64_t) {
    for (int64_t i = 0; i < piece.elems(); ++i) norms.push_back(std::sqrt(piece.as<float>()[i]));
  });
  return norms;
}

// Initialises a factor and a magnitude as PEFT does, and a score as transformers does.
void initialise(const Job& job, const TrainingGraph& training, const TrainedWeight& t, ValueStore& store) {
  const Parameter& p = training.parameter_of(t);
  const auto seed = static_cast<uint64_t>(job.config.seed);
  std::vector<float> norms;
  if (p.role == ParameterRole::kMagnitude) norms = row_norms(training.model.parameters, p, store);
  const auto fill = [&](std::span<float> values, int64_t first) {
    if (p.role == ParameterRole::kLoraB) {
      std::fill(values.begin(), values.end(), 0.0F);
    } else if (p.role == ParameterRole::kMagnitude) {
      std::copy_n(norms.begin() + first, values.size(), values.begin());
    } else if (p.is_score()) {
      initialise_normal(values, first, p, p.start_deviation, seed);
    } else if (job.graph.model.lora->start != LoraStart::kGaussian) {
      initialise_lora_a(values, first, p, seed);
    } else {
      initialise_normal(values, first, p, 1 / static_cast<double>(p.shape[0]), seed);
    }
  };
  write_exact(store, training, t, p.name,
              [&](const TensorView& piece, int64_t first) { fill_from_f32(piece, first, fill); });
}

// Initialises a weight as transformers does for a model that it makes from a config.
void fill_fresh(std::span<float> values, int64_t first, const Parameter& p, const FreshWeights& fresh, uint64_t seed) {
  if (p.role == ParameterRole::kNorm || p.role == ParameterRole::kBias) {
    const double content = p.role == ParameterRole::kNorm ? fresh.norm : 0;
    std::fill(values.begin(), values.end(), static_cast<float>(content));
    return;
  }
  initialise_normal(values, first, p, fresh.deviation, seed);
  if (p.role != ParameterRole::kEmbedding || !fresh.cleared_row) return;
  const int64_t width = p.shape[1], begin = *fresh.cleared_row * width - first;
  const int64_t size = std::ssize(values);
  const int64_t from = std::clamp<int64_t>(begin, 0, size), to = std::clamp<int64_t>(begin + width, 0, size);
  std::fill(values.begin() + from, values.begin() + to, 0.0F);
}

void start_anew(const Job& job, const TrainingGraph& training, const TrainedWeight& t, ValueStore& store) {
  const Parameter& p = training.parameter_of(t);
  const FreshWeights& fresh = job.model->text()->fresh;
  const auto fill = [&](std::span<float> values, int64_t first) {
    fill_fresh(values, first, p, fresh, static_cast<uint64_t>(job.config.seed));
  };
  write_exact(store, training, t, p.name,
              [&](const TensorView& piece, int64_t first) { fill_from_f32(piece, first, fill); });
}

void read_trained(const SafetensorsFolder& folder, const std::string& tensor, const TrainingGraph& training,
                  const TrainedWeight& t, ValueStore& store) {
  StoredWeight stored(folder, tensor);
  write_exact(store, training, t, folder.file_of(tensor).string(),
              [&](const TensorView& piece, int64_t first) { stored.read(piece, first); });
}

}  // namespace

void write_exact(ValueStore& store, const TrainingGraph& training, const TrainedWeight& t, std::string_view where,
                 const ValueStore::Visitor& fill) {
  const Parameter& p = training.parameter_of(t);
  const StateTensor master = master_tensor(training, t);
  if (master.parts.empty()) {
    write_tensor(store, tensor_of(training, t.weight), fill);
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
  read_tensor(store, ema_tensor(training, t), use);
}

WeightFiles open_weight_files(const Job& job, MissingWeights missing) {
  using Opened = std::optional<SafetensorsFolder>;
  const auto open = [&](const std::filesystem::path& folder, const ParameterTable& parameters) -> Opened {
    if (missing == MissingWeights::kAllowed && !has_weights(folder)) return {};
    return open_model_weights(folder, parameters);
  };
  const ParameterTable parameters = parameters_of(*job.model, job.graph.model);
  WeightFiles files{.base = open(job.config.model.base_model, parameters)};
  if (const ReferenceOptions& reference = job.graph.reference; reference.other)
    files.reference = open(reference_folder(job.config), parameters_of(*reference.other, *reference.model));
  for (size_t i = 0; i < job.graph.beside.size(); ++i) {
    const ModelBeside& beside = job.graph.beside[i];
    const std::filesystem::path folder = job.online->reward_models[i].model->folder();
    files.beside.push_back(open(folder, parameters_of(*beside.model, beside.options)));
  }
  if (const std::optional<ValueModel>& value = job.graph.value)
    files.value = open(job.config.online->ppo.value_model, parameters_of(*value->model, value->options));
  if (!job.config.adapter || job.config.adapter->model_dir.empty()) return files;
  const std::filesystem::path adapter = job.config.adapter->model_dir;
  if (missing == MissingWeights::kRefused || has_adapter_weights(adapter))
    files.adapter = open_adapter_weights(adapter, parameters, *job.graph.model.lora);
  return files;
}

void InitialState::load(const Job& job, const TrainingGraph& training, ValueStore& store) const {
  load_base_weights(training.model.parameters, base(), store);
  if (const ParameterTable& copies = training.objective.copies; files_.adapter && !files_.reference) {
    load_adapter_weights(copies, *files_.adapter, store);
  } else {
    load_base_weights(copies, reference(), store);
  }
  for (size_t i = 0; i < files_.beside.size(); ++i) load_base_weights(training.beside[i], *files_.beside[i], store);
  if (training.value) load_base_weights(training.value->parameters, *files_.value, store);
  for (const TrainedWeight& t : training.trained) {
    const Parameter& p = training.parameter_of(t);
    if (files_.adapter && !t.is_value) {
      read_trained(*files_.adapter, adapter_tensor_name(p.name), training, t, store);
    } else if (job.config.model.reinitialised) {
      start_anew(job, training, t, store);
    } else if (p.is_of_model()) {
      read_trained(t.is_value ? *files_.value : base(), p.source.name, training, t, store);
    } else if (t.is_value || !loads_with_weight(training.model.parameters, p)) {
      initialise(job, training, t, store);
    }
    if (t.accumulator != kNone) store.write(t.accumulator, clear);
  }
  for (const StateTensor& tensor : state_tensors(training))
    if (tensor.starts_clear) write_tensor(store, tensor, clear);
  load_adapter_starts(job, training, base(), store);
}

void load_trained_weights(const SafetensorsFolder& folder, const Job& job, const TrainingGraph& training,
                          ValueStore& store) {
  for (const TrainedWeight& t : training.trained_of_model()) {
    const Parameter& p = training.parameter_of(t);
    const bool is_of_adapter = job.graph.model.lora.has_value();
    read_trained(folder, is_of_adapter ? adapter_tensor_name(p.name) : p.written_name(), training, t, store);
  }
}

int64_t state_bytes(const TrainingGraph& training) {
  int64_t bytes = 0;
  for (const StateTensor& tensor : state_tensors(training)) bytes += tensor.type.bytes();
  return bytes;
}

TensorSums save_optimizer_state(const std::filesystem::path& file, const TrainingGraph& training, ValueStore& store,
                                const Round* round) {
  std::vector<TensorSpec> specs = round ? tensors_of(*round) : std::vector<TensorSpec>();
  const std::vector<StateTensor> tensors = state_tensors(training);
  for (const StateTensor& tensor : tensors) {
    specs.push_back({tensor.name, tensor.type.dtype, tensor.type.shape.dims()});
  }
  SafetensorsWriter writer(file, specs);
  for (const StateTensor& tensor : tensors) read_tensor(store, tensor, appender(writer, tensor.name));
  if (round) append_tensors(*round, writer);
  writer.commit();
  return writer.checksums();
}

InputError damaged_tensor(std::string_view file, std::string_view tensor) {
  return input_error(file, "expected {} as it was written, got other bytes; resume from another checkpoint",
                     quote(tensor));
}

void load_optimizer_state(const std::filesystem::path& path, const TrainingGraph& training, ValueStore& store,
                          const TensorSums* sums) {
  const SafetensorsFile file(path);
  std::map<std::string_view, const StoredTensor*> stored;
  for (const StoredTensor& tensor : file.tensors()) {
    if (!is_of_round(tensor.name)) stored[tensor.name] = &tensor;
  }
  const std::vector<StateTensor> tensors = state_tensors(training);
  for (const StateTensor& tensor : tensors) {
    const ValueType& type = tensor.type;
    const auto found = stored.find(tensor.name);
    if (found == stored.end() || found->second->shape != type.shape.dims() || found->second->dtype() != type.dtype) {
      throw input_error(path.string(), "expected {} as {}, got {}; resume with the config that wrote the checkpoint",
                        tensor.name, to_string(type),
                        found == stored.end() ? "nothing" : found->second->dtype_name + found->second->shape_text());
    }
  }
  if (stored.size() != tensors.size()) {
    throw input_error(path.string(), "expected {} tensors, got {}; resume with the config that wrote the checkpoint",
                      tensors.size(), stored.size());
  }
  for (const StateTensor& tensor : tensors) {
    Checksum sum;  // a tensor has the file's dtype in memory, too: what was read is what the file holds
    const auto fill = [&](const TensorView& piece, int64_t first) {
      file.read(*stored[tensor.name], first, piece.elems(), piece.dtype, piece.data);
      sum.add(span_of(piece.as<const std::byte>(), piece.bytes()));
    };
    if (tensor.exact_of) {
      write_exact(store, training, *tensor.exact_of, path.string(), fill);
    } else {
      write_tensor(store, tensor, fill);
    }
    if (!sums) continue;
    const auto expected = sums->find(tensor.name);
    if (expected == sums->end() || expected->second != sum.text()) throw damaged_tensor(path.string(), tensor.name);
  }
}

}  // namespace spillway::train
