#include "job/initial_state.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "io/convert.h"
#include "job/adapter_start.h"
#include "job/reference.h"
#include "job/state_tensors.h"
#include "model/fresh_factors.h"
#include "model/layout.h"
#include "model/weights.h"

namespace spillway::train {
namespace {

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
      initialise_normal(values, first, p, 1 / static_cast<double>(job.graph.model.lora->rank_of(p.module)), seed);
    }
  };
  write_exact(store, training, t, p.name,
              [&](const TensorView& piece, int64_t first) { fill_from_f32(piece, first, fill); });
}

// Returns what a weight whose content follows from a uniform number begins as.
float fresh_of_uniform(float number, const Parameter& p) {
  if (p.fresh == FreshContent::kLogOfUniform) return std::log(number);
  if (p.fresh != FreshContent::kSteps) return number;
  const double step = std::max(std::exp(double{number}), p.fresh_range.least);
  return static_cast<float>(step + std::log(-std::expm1(-step)));
}

// Initialises a weight or a buffer as transformers does for a model that it makes from a config.
void fill_fresh(std::span<float> values, int64_t first, const Parameter& p, const FreshWeights& fresh, uint64_t seed) {
  switch (p.fresh) {
    case FreshContent::kZeros:
    case FreshContent::kOnes:
      return std::fill(values.begin(), values.end(), p.fresh == FreshContent::kOnes ? 1.0F : 0.0F);
    case FreshContent::kUniform:
    case FreshContent::kLogOfUniform:
    case FreshContent::kSteps:
      initialise_uniform(values, first, p, p.fresh_range.low, p.fresh_range.high, seed);
      for (float& value : values) value = fresh_of_uniform(value, p);
      return;
    case FreshContent::kLogOfCount:
      for (float& value : values) value = std::log(static_cast<float>(first++ % p.shape[p.shape.rank() - 1] + 1));
      return;
    case FreshContent::kNumber:
      return std::fill(values.begin(), values.end(), static_cast<float>(p.fresh_number));
    case FreshContent::kByRole:
      break;
  }
  if (p.role == ParameterRole::kNorm || p.role == ParameterRole::kScale || p.role == ParameterRole::kBias) {
    const double content = p.role == ParameterRole::kNorm ? fresh.norm : p.role == ParameterRole::kScale ? 1 : 0;
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

// Initialises the buffers, which no training changes, of a model that starts anew.
void start_buffers_anew(const Job& job, const ParameterTable& parameters, ValueStore& store) {
  for (const Parameter& p : parameters) {
    if (p.role != ParameterRole::kBuffer) continue;
    const auto fill = [&](std::span<float> values, int64_t first) {
      fill_fresh(values, first, p, job.model->text()->fresh, static_cast<uint64_t>(job.config.seed));
    };
    store.write(p.value(), [&](const TensorView& piece, int64_t first) { fill_from_f32(piece, first, fill); });
  }
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

// `file`: that of the weight, for messages.
void read_trained(StoredWeight stored, const std::filesystem::path& file, const TrainingGraph& training,
                  const TrainedWeight& t, ValueStore& store) {
  write_exact(store, training, t, file.string(),
              [&](const TensorView& piece, int64_t first) { stored.read(piece, first); });
}

}  // namespace

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
  for (const ModelBeside& beside : job.graph.beside)
    files.beside.push_back(open(beside.folder, parameters_of(*beside.model, beside.options)));
  if (const std::optional<ValueModel>& value = job.graph.value)
    files.value = open(value->folder, parameters_of(*value->model, value->options));
  if (!job.config.adapter || job.config.adapter->model_dir.empty()) return files;
  const std::filesystem::path adapter = job.config.adapter->model_dir;
  if (missing == MissingWeights::kRefused || has_adapter_weights(adapter))
    files.adapter = open_adapter_weights(adapter, parameters, *job.graph.model.lora);
  return files;
}

void InitialState::load(const Job& job, const TrainingGraph& training, ValueStore& store) const {
  load_base_weights(training.model.parameters, base(), store);
  if (job.config.model.reinitialised) start_buffers_anew(job, training.model.parameters, store);
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
      const std::string tensor = adapter_tensor_name(p.name);
      read_trained({*files_.adapter, tensor}, files_.adapter->file_of(tensor), training, t, store);
    } else if (job.config.model.reinitialised) {
      start_anew(job, training, t, store);
    } else if (p.is_of_model()) {
      const SafetensorsFolder& files = t.is_value ? *files_.value : base();
      read_trained({files, p}, files.file_of(p.tensors().front().name), training, t, store);
    } else if (t.is_value || !loads_with_weight(training.model.parameters, p)) {
      initialise(job, training, t, store);
    }
    if (t.accumulator != kNone) store.write(t.accumulator, clear);
    for (const StateSlice& slice : t.slices)
      if (slice.accumulator != kNone) store.write(slice.accumulator, clear);
  }
  for (const ValueId sum : training.shared_sums) store.write(sum, clear);
  for (const StateTensor& tensor : state_tensors(training))
    if (tensor.starts_clear) write_tensor(store, tensor, clear);
  load_adapter_starts(job, training, base(), store);
}

void load_trained_weights(const SafetensorsFolder& folder, const Job& job, const TrainingGraph& training,
                          ValueStore& store) {
  for (const TrainedWeight& t : training.trained_of_model()) {
    const Parameter& p = training.parameter_of(t);
    const bool is_of_adapter = job.graph.model.lora.has_value();
    const std::string tensor = is_of_adapter ? adapter_tensor_name(p.name) : p.written_name();
    read_trained({folder, tensor, p.first_elem()}, folder.file_of(tensor), training, t, store);
  }
}

}  // namespace spillway::train
