#include "saved/saved_model.h"

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/sizes.h"
#include "io/convert.h"
#include "io/file.h"
#include "io/safetensors_writer.h"
#include "job/adapter_start.h"
#include "job/state_tensors.h"
#include "model/adapter.h"
#include "model/layout.h"
#include "model/merged_weights.h"
#include "model/quantised/base_format.h"
#include "model/weights.h"
#include "model/wrapper_parts.h"
#include "saved/evaluated_weights.h"
#include "saved/output.h"

namespace spillway::train {
namespace {

bool restarts(const Job& job) { return job.graph.model.lora && job.graph.model.lora->restarts; }

// The version of a trained weight that is written into files of models and adapters.
enum class Written { kWeight, kEma };
void read_written(const TrainingGraph& training, const TrainedWeight& t, ValueStore& store, Written which,
                  const ValueStore::Visitor& use) {
  if (which == Written::kEma) return read_average(training, t, store, use);
  training.optimizer->evaluated ? read_evaluated(training, t, store, use) : read_exact(training, t, store, use);
}

// Returns the tensor of an adapter's file, in f32. If the start of a factor was subtracted from the base, it is [A;
// A_0], or [B, -B_0].
std::vector<float> adapter_tensor(const TrainingGraph& training, const TrainedWeight& t, ValueStore& store,
                                  Written which) {
  std::vector<float> values;
  const auto append = [&values](const TensorView& piece, int64_t) {
    const int64_t end = std::ssize(values);
    resize(values, end + piece.elems());
    convert_floats(piece.data, piece.dtype, values.data() + end, DType::kF32, piece.elems());
  };
  read_written(training, t, store, which, append);
  const Parameter& p = training.parameter_of(t);
  const bool is_a = p.role == ParameterRole::kLoraA;
  const Parameter* start =
      p.is_factor() ? training.model.parameters.find(start_name(p.module, is_a ? 'A' : 'B')) : nullptr;
  if (start == nullptr) return values;
  store.read(start->value(), append);
  if (is_a) return values;
  std::vector<float> result;
  const auto rank = static_cast<size_t>(p.shape[1]), half = values.size() / 2;
  for (size_t row = 0; row < half; row += rank) {
    for (size_t i = 0; i < rank; ++i) result.push_back(values[row + i]);
    for (size_t i = 0; i < rank; ++i) result.push_back(-values[half + row + i]);
  }
  return result;
}

// Returns the shape of a weight in the file of an adapter with the options `saved`, whose rank may be twice that of
// `trained`.
Shape adapter_shape(const Parameter& p, const LoraOptions& trained, const LoraOptions& saved) {
  if (p.role == ParameterRole::kLoraA) return {p.shape[0] * saved.r / trained.r, p.shape[1]};
  if (p.role == ParameterRole::kLoraB) return {p.shape[0], p.shape[1] * saved.r / trained.r};
  return p.shape;
}

std::vector<TensorSpec> adapter_specs(const Job& job, const TrainingGraph& training, const LoraOptions& saved) {
  const bool is_diffusers = layout_of(*job.model) == Layout::kDiffusers;
  const std::string component = component_name(job.config.model.base_model);
  std::vector<TensorSpec> specs;
  for (const TrainedWeight& t : training.trained_of_model()) {
    const Parameter& p = training.parameter_of(t);
    const std::string name = is_diffusers ? diffusers_lora_name(p.name, component) : adapter_tensor_name(p.name);
    specs.push_back({name, DType::kF32, adapter_shape(p, *job.graph.model.lora, saved).dims()});
  }
  return specs;
}

// A function that is called when all of a file's weights are written, before any gets its final name.
using BeforeCommit = std::function<void()>;

TensorSums save_adapter(const std::filesystem::path& folder, const ModelInTraining& model, Written which,
                        const BeforeCommit& before_commit) {
  const auto& [job, base, training, store, merged_base] = model;
  const LoraOptions saved = job.graph.model.lora->beside_unchanged_base();
  const bool is_diffusers = layout_of(*job.model) == Layout::kDiffusers;
  const std::string component = component_name(job.config.model.base_model);
  const std::span<const TrainedWeight> trained = training.trained_of_model();
  const std::vector<TensorSpec> specs = adapter_specs(job, training, saved);
  std::map<std::string, std::string> metadata =
      is_diffusers ? diffusers_lora_metadata(training.model.parameters, saved, component) : default_metadata();
  metadata.merge(base_format_metadata(job.graph.model.linear_storage));
  const char* const ending = which == Written::kEma ? "_ema" : "";
  const std::string file = fmt::format("{}{}.safetensors", adapter_stem(layout_of(*job.model)), ending);
  SafetensorsWriter writer(folder / file, specs, metadata);
  for (size_t i = 0; i < specs.size(); ++i) {
    const TrainedWeight& t = trained[i];
    if (saved.r == job.graph.model.lora->r) {
      read_written(training, t, store, which, appender(writer, specs[i].name));
    } else {
      writer.append(specs[i].name, adapter_tensor(training, t, store, which).data(), DType::kF32, specs[i].elems());
    }
  }
  before_commit();
  writer.commit();
  return writer.checksums();
}

// Writes config.json last: a folder without it is not recognised as a model.
void write_files(const FileTexts& files, const std::filesystem::path& folder) {
  constexpr std::string_view kConfig = "config.json";
  for (const bool is_last : {false, true}) {
    for (const auto& [name, text] : files) {
      if ((name == kConfig) == is_last) write_file(folder / name, text);
    }
  }
}

// Returns the weights' sums.
TensorSums save_adapters(const std::filesystem::path& folder, const ModelInTraining& model,
                         const BeforeCommit& before_commit) {
  const Job& job = model.job;
  TensorSums sums = save_adapter(folder, model, Written::kWeight, before_commit);
  if (job.graph.ema) (void)save_adapter(folder, model, Written::kEma, [] {});
  FileTexts files = model.base.beside_weights;
  files.erase("config.json");  // of the model that an adapter becomes which restarts
  write_files(files, folder);
  if (layout_of(*job.model) == Layout::kTransformers)
    write_file(folder / "adapter_config.json",
               adapter_config_json(model.training.model.parameters, job.graph.model.lora->beside_unchanged_base(),
                                   model.base_folder().string()));
  return sums;
}

// A tensor of a model that is written whole, and its trained weight.
struct WrittenTensor {
  const Parameter* parameter;
  const TrainedWeight* trained;  // null: it is written as the run has it
  TensorSpec spec;               // of several weights, if they are slabs of it

  // Returns true for one weight of each tensor.
  [[nodiscard]] bool names_tensor() const { return parameter->slab <= 0; }
};
// Returns the tensors, the slabs of each in their order.
std::vector<WrittenTensor> model_tensors(const BaseFiles& base, const TrainingGraph& training) {
  std::vector<WrittenTensor> tensors;
  const auto add = [&](const Parameter& p, const TrainedWeight* trained) {
    const auto stored = p.is_of_model() ? base.dtypes.find(p.source.name) : base.dtypes.end();
    const DType dtype = stored != base.dtypes.end() ? stored->second : DType::kF32;
    tensors.push_back({&p, trained, {p.written_name(), dtype, p.written_shape().dims()}});
  };
  for (const TrainedWeight& t : training.trained_of_model()) add(training.parameter_of(t), &t);
  for (const Parameter& p : training.model.parameters) {
    if (p.is_of_model() && !p.trained) add(p, nullptr);
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const WrittenTensor& a, const WrittenTensor& b) {
    return a.parameter->slab < b.parameter->slab;
  });
  return tensors;
}

// Writes the weights and the other files. Returns the sums of the weights.
TensorSums write_weights(const std::filesystem::path& folder, const ModelInTraining& model, Written which,
                         const BeforeCommit& before_commit) {
  const auto& [job, base, training, store, merged_base] = model;
  const std::vector<WrittenTensor> tensors = model_tensors(base, training);
  std::vector<TensorSpec> specs;
  for (const WrittenTensor& tensor : tensors)
    if (tensor.names_tensor()) specs.push_back(tensor.spec);
  specs.insert(specs.end(), base.tensors_of_wrapper_parts.begin(), base.tensors_of_wrapper_parts.end());
  SafetensorsFolderWriter writer(folder, specs, SafetensorsFolderWriter::kDefaultShardBytes,
                                 weights_stem(layout_of(*job.model)));
  for (const auto& [p, trained, spec] : tensors) {
    const ValueStore::Visitor append = appender(writer, spec.name);
    trained ? read_written(training, *trained, store, which, append) : store.read(p->value(), append);
  }
  for (const TensorSpec& tensor : base.tensors_of_wrapper_parts) copy_tensor(*base.wrapper_parts, tensor, writer);
  before_commit();
  writer.commit();
  write_files(base.beside_weights, folder);
  return writer.checksums();
}

TensorSums save_full_model(const std::filesystem::path& folder, const ModelInTraining& model,
                           const BeforeCommit& before_commit) {
  if (layout_of(*model.job.model) == Layout::kDiffusers) {
    const std::string name = component_name(model.job.config.model.base_model);
    const auto write = [&](const std::string& to, Written which) {
      AtomicFolder component(weights_folder(Layout::kDiffusers, folder, to), "train");
      TensorSums sums = write_weights(component.path(), model, which, before_commit);
      component.publish();
      return sums;
    };
    if (model.job.graph.ema) (void)write(name + "_ema", Written::kEma);
    write_pipeline_parts(model.base.pipeline, folder);
    return write(name, Written::kWeight);
  }
  return write_weights(folder, model, Written::kWeight, before_commit);
}

}  // namespace

int64_t result_bytes(const Job& job, const BaseFiles& base, const TrainingGraph& training) {
  if (!restarts(job)) return saved_bytes(job, base, training);
  int64_t bytes = 0;
  for (const WrittenTensor& tensor : model_tensors(base, training))
    if (tensor.trained == nullptr && tensor.names_tensor()) bytes += tensor.spec.bytes();
  return bytes;
}

int64_t saved_bytes(const Job& job, const BaseFiles& base, const TrainingGraph& training) {
  int64_t bytes = 0;
  if (const std::optional<LoraOptions>& lora = job.graph.model.lora) {
    for (const TensorSpec& spec : adapter_specs(job, training, lora->beside_unchanged_base())) bytes += spec.bytes();
  } else {
    for (const WrittenTensor& tensor : model_tensors(base, training))
      if (tensor.names_tensor()) bytes += tensor.spec.bytes();
    for (const TensorSpec& tensor : base.tensors_of_wrapper_parts) bytes += tensor.bytes();
  }
  return job.graph.ema ? 2 * bytes : bytes;
}

TensorSums save_model(const std::filesystem::path& folder, const ModelInTraining& model, const TrainedFacts& facts) {
  const Job& job = model.job;
  // Only once: for the second component of a pipeline, the first one belongs to this result.
  bool is_gone = false;
  const auto before_commit = [&] {
    if (!std::exchange(is_gone, true)) remove_earlier_result(folder);
  };
  TensorSums sums = job.graph.model.lora ? save_adapters(folder, model, before_commit)
                                         : save_full_model(folder, model, before_commit);
  write_model_card(folder / "README.md", job, facts, model.base.license);
  return sums;
}

TensorSums save_merged_model(const std::filesystem::path& folder, const ModelInTraining& model) {
  const AtomicFolder adapter(folder / "adapter");  // never published
  (void)save_adapters(adapter.path(), model, [] {});
  const std::filesystem::path base = model.base_folder();
  const MergedWeights merged(read_model(base), base, adapter.path(), MergeBase::kFiles);
  SafetensorsFolderWriter writer(folder, merged.tensors());
  write_merged_weights(merged, writer);
  remove_earlier_result(folder);
  writer.commit();
  write_files(model.base.beside_weights, folder);
  return writer.checksums();
}

TensorSums save_result(const std::filesystem::path& folder, const ModelInTraining& model, const TrainedFacts& facts) {
  if (!restarts(model.job)) return save_model(folder, model, facts);
  TensorSums sums = save_merged_model(folder, model);
  TrainedFacts merged = facts;
  merged.is_merged = true;
  write_model_card(folder / "README.md", model.job, merged, model.base.license);
  return sums;
}

}  // namespace spillway::train
