#include "train/state.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "io/file.h"
#include "io/safetensors_writer.h"
#include "model/adapter.h"
#include "model/modules.h"
#include "model/weights.h"
#include "train/model_card.h"

namespace spillway::train {
namespace {

void round_into(const TensorView& from, const TensorView& to) {
  const float* source = from.as<float>();
  bf16* target = to.as<bf16>();
  for (int64_t i = 0; i < from.elems(); ++i) target[i] = to_bf16(source[i]);
}

void clear(const TensorView& view) { std::memset(view.data, 0, static_cast<size_t>(view.bytes())); }

// The most exact copy of a trained weight.
ValueId exact(const TrainedWeight& t) { return t.master != kNone ? t.master : t.weight; }

std::vector<int64_t> dims(const Shape& shape) {
  std::vector<int64_t> result;
  for (int axis = 0; axis < shape.rank(); ++axis) result.push_back(shape[axis]);
  return result;
}

void initialise_adapter(const Job& job, const TrainingGraph& training, const Home& home) {
  const Graph& graph = training.graph;
  for (const LinearModule& module : lora_targets(job.model, *job.graph.decoder.lora, "lora_target_modules")) {
    for (const TrainedWeight& t : training.trained) {
      if (graph.value(t.weight).name != lora_name(module.name, 'A')) continue;
      const TensorView view = home(exact(t));
      initialise_lora_a({view.as<float>(), static_cast<size_t>(view.elems())}, module,
                        static_cast<uint64_t>(job.config.seed));
    }
  }
}

// Files beside the weights that make a folder complete for generation.
void copy_tokenizer_files(const std::filesystem::path& from, const std::filesystem::path& to) {
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "tokenizer.model",
        "vocab.json", "merges.txt", "chat_template.jinja", "generation_config.json"}) {
    const std::filesystem::path file = from / name;
    if (std::filesystem::is_regular_file(file)) write_file(to / name, read_file(file, int64_t{1} << 30));
  }
}

void save_adapter(const std::filesystem::path& folder, const Job& job, const TrainingGraph& training,
                  const Home& home) {
  std::vector<TensorSpec> specs;
  for (const TrainedWeight& t : training.trained) {
    const Value& weight = training.graph.value(t.weight);
    specs.push_back({weight.name, DType::kF32, dims(weight.type.shape)});
  }
  SafetensorsWriter writer(folder / "adapter_model.safetensors", specs);
  for (const TrainedWeight& t : training.trained) {
    const TensorView view = home(exact(t));
    writer.append(training.graph.value(t.weight).name, view.data, view.dtype, view.elems());
  }
  writer.commit();
  write_file(folder / "adapter_config.json",
             adapter_config_json(job.model, *job.graph.decoder.lora, job.config.base_model));
}

void save_full_model(const std::filesystem::path& folder, const Job& job, const TrainingGraph& training,
                     const Home& home) {
  const Graph& graph = training.graph;
  const SafetensorsFolder base(job.config.base_model);
  std::vector<TensorSpec> specs;
  for (const ValueId id : training.decoder.weights) {
    const Value& weight = graph.value(id);
    specs.push_back({weight.name, base.find(weight.name)->dtype().value_or(DType::kF32), dims(weight.type.shape)});
  }
  SafetensorsFolderWriter writer(folder, specs);
  for (const ValueId id : training.decoder.weights) {
    const auto found = std::find_if(training.trained.begin(), training.trained.end(),
                                    [&](const TrainedWeight& t) { return t.weight == id; });
    const TensorView view = home(found == training.trained.end() ? id : exact(*found));
    writer.append(graph.value(id).name, view.data, view.dtype, view.elems());
  }
  writer.commit();
  write_file(folder / "config.json",
             read_file(std::filesystem::path(job.config.base_model) / "config.json", int64_t{1} << 24));
}

// What an exact continuation needs.
std::vector<ValueId> state_values(const TrainingGraph& training) {
  std::vector<ValueId> values;
  for (const TrainedWeight& t : training.trained) {
    for (const ValueId id : {exact(t), t.m, t.v, t.momentum}) {
      if (id != kNone) values.push_back(id);
    }
  }
  return values;
}

}  // namespace

InitialState::InitialState(const Job& job) : base_(open_model_weights(job.config.base_model, job.model)) {
  if (!job.config.lora_model_dir.empty()) {
    adapter_ = std::make_unique<SafetensorsFolder>(
        open_adapter_weights(job.config.lora_model_dir, job.model, *job.graph.decoder.lora));
  }
}

void InitialState::load(const Job& job, const TrainingGraph& training, const Home& home) const {
  for (const TrainedWeight& t : training.trained) {
    for (const ValueId id : {t.weight, t.master, t.m, t.v, t.momentum, t.accumulator}) {
      if (id != kNone) clear(home(id));
    }
  }
  load_base_weights(training.graph, job.model, base_, home);
  if (adapter_) load_adapter_weights(training.graph, *adapter_, home);
  for (const TrainedWeight& t : training.trained) {
    if (t.master == kNone) continue;
    const std::string& name = training.graph.value(t.weight).name;
    const TensorView view = home(t.master);
    if (base_.find(name)) base_.read(name, DType::kF32, view.data);
    if (adapter_ && adapter_->find(name)) adapter_->read(name, DType::kF32, view.data);
  }
  if (job.graph.decoder.lora && !adapter_) initialise_adapter(job, training, home);
  for (const TrainedWeight& t : training.trained) {
    if (t.master != kNone) round_into(home(t.master), home(t.weight));
  }
}

void save_model(const std::filesystem::path& folder, const Job& job, const TrainingGraph& training, const Home& home) {
  if (job.graph.decoder.lora) {
    save_adapter(folder, job, training, home);
  } else {
    save_full_model(folder, job, training, home);
  }
  copy_tokenizer_files(job.config.tokenizer_config.empty() ? job.config.base_model : job.config.tokenizer_config,
                       folder);
  write_file(folder / "README.md", model_card(job));
}

void save_optimizer_state(const std::filesystem::path& file, const TrainingGraph& training, const Home& home) {
  std::vector<TensorSpec> specs;
  const std::vector<ValueId> values = state_values(training);
  for (const ValueId id : values) {
    const Value& value = training.graph.value(id);
    specs.push_back({value.name, value.type.dtype, dims(value.type.shape)});
  }
  SafetensorsWriter writer(file, specs);
  for (const ValueId id : values) {
    const TensorView view = home(id);
    writer.append(training.graph.value(id).name, view.data, view.dtype, view.elems());
  }
  writer.commit();
}

void load_optimizer_state(const std::filesystem::path& path, const TrainingGraph& training, const Home& home) {
  const SafetensorsFile file(path);
  std::map<std::string_view, const StoredTensor*> stored;
  for (const StoredTensor& tensor : file.tensors()) stored[tensor.name] = &tensor;
  const std::vector<ValueId> values = state_values(training);
  for (const ValueId id : values) {
    const Value& value = training.graph.value(id);
    const auto found = stored.find(value.name);
    if (found == stored.end() || found->second->shape != dims(value.type.shape) ||
        found->second->dtype() != value.type.dtype) {
      throw input_error(path.string(), "expected {} as {}, got {}; resume with the config that wrote the checkpoint",
                        value.name, to_string(value.type),
                        found == stored.end() ? "nothing" : found->second->dtype_name + found->second->shape_text());
    }
  }
  if (stored.size() != values.size()) {
    throw input_error(path.string(), "expected {} tensors, got {}; resume with the config that wrote the checkpoint",
                      values.size(), stored.size());
  }
  for (const ValueId id : values) {
    const TensorView view = home(id);
    file.read(*stored[training.graph.value(id).name], 0, view.elems(), view.dtype, view.data);
  }
  for (const TrainedWeight& t : training.trained) {
    if (t.master != kNone) round_into(home(t.master), home(t.weight));
  }
}

}  // namespace spillway::train
