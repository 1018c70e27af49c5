#include "model/weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "io/convert.h"
#include "model/adapter.h"

namespace spillway {
namespace {

// ` and 7 more`, or nothing.
std::string and_more(size_t found) { return found > 1 ? fmt::format(" and {} more", found - 1) : ""; }

void check_tensor(const SafetensorsFolder::Entry& entry, const WeightSpec& spec) {
  const auto& [tensor, file] = entry;
  bool fits = static_cast<int>(tensor->shape.size()) == spec.shape.rank();
  for (int axis = 0; fits && axis < spec.shape.rank(); ++axis) {
    fits = tensor->shape[static_cast<size_t>(axis)] == spec.shape[axis];
  }
  if (!fits) {
    throw input_error(file->path().string(),
                      "expected {} of shape {}, got {}; use the weights that belong to this config", quote(spec.name),
                      to_string(spec.shape), tensor->shape_text());
  }
  const std::optional<DType> dtype = tensor->dtype();
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) {
    throw input_error(file->path().string(), "expected {} in F32, F16 or BF16, got {}; use a model in one of these",
                      quote(spec.name), quote(tensor->dtype_name));
  }
}

// Every tensor of `specs` is there and fits, and there is no other but those that `is_spare` allows.
template <typename IsSpare>
void check_tensors(const SafetensorsFolder& folder, const std::vector<WeightSpec>& specs, const IsSpare& is_spare) {
  std::set<std::string_view> known;
  std::vector<std::string> missing, surplus;
  for (const WeightSpec& spec : specs) {
    known.insert(spec.name);
    const auto it = folder.tensors().find(spec.name);
    if (it == folder.tensors().end()) {
      missing.push_back(spec.name);
    } else {
      check_tensor(it->second, spec);
    }
  }
  for (const auto& [name, entry] : folder.tensors()) {
    if (!known.contains(name) && !is_spare(name)) surplus.push_back(name);
  }
  if (!missing.empty()) {
    throw input_error(folder.path().string(),
                      "expected a tensor {}{}, got none of that name; use the weights that belong "
                      "to this config",
                      quote(missing.front()), and_more(missing.size()));
  }
  if (!surplus.empty()) {
    throw input_error(folder.path().string(),
                      "expected no tensors but those of the config, got {}{}; use the weights that "
                      "belong to this config",
                      quote(surplus.front()), and_more(surplus.size()));
  }
}

constexpr int64_t kPieceElems = int64_t{1} << 18;

// Compares two stored tensors of one shape in pieces; the dtypes may differ.
bool equal_values(const SafetensorsFolder& folder, std::string_view a, std::string_view b) {
  std::vector<float> values_a(kPieceElems), values_b(kPieceElems);
  const int64_t elems = folder.find(a)->elems();
  for (int64_t first = 0; first < elems; first += kPieceElems) {
    const int64_t count = std::min(kPieceElems, elems - first);
    folder.read(a, first, count, DType::kF32, values_a.data());
    folder.read(b, first, count, DType::kF32, values_b.data());
    if (!std::equal(values_a.begin(), values_a.begin() + count, values_b.begin())) return false;
  }
  return true;
}

// Reads a stored tensor in pieces and drops them: reading refuses what is not finite.
void check_values(const SafetensorsFolder& folder, const StoredTensor& tensor) {
  std::vector<float> piece(kPieceElems);
  for (int64_t first = 0; first < tensor.elems(); first += kPieceElems) {
    folder.read(tensor.name, first, std::min(kPieceElems, tensor.elems() - first), *tensor.dtype(), piece.data());
  }
}

// Reads every weight of the graph that the folder has a tensor for, under the name that `stored_as` gives it.
template <typename StoredAs>
void read_weights(const Graph& graph, const SafetensorsFolder& folder, ValueStore& store, const StoredAs& stored_as) {
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    const bool is_weight = value.kind == ValueKind::kFrozenWeight || value.kind == ValueKind::kTrainableWeight;
    if (!is_weight || value.producer != kNone) continue;
    const StoredTensor* tensor = folder.find(stored_as(value.name));
    if (!tensor) continue;
    const auto id = static_cast<ValueId>(i);
    if (store.is_in_files(id)) {
      check_values(folder, *tensor);
      continue;
    }
    StoredWeight weight(folder, tensor->name);
    store.write(id, [&](const TensorView& piece, int64_t first) { weight.read(piece, first); });
  }
}

}  // namespace

std::string_view stored_name(const ModelConfig& config, std::string_view weight) {
  return config.copies_head && weight == kHead ? kEmbedding : weight;
}

StoredWeight::StoredWeight(const SafetensorsFolder& folder, std::string_view name)
    : folder_(folder), name_(name), stored_elems_(folder.find(name)->elems()) {}

void StoredWeight::compute_mean() {
  const std::vector<int64_t>& shape = folder_.find(name_)->shape;
  const auto columns = static_cast<size_t>(shape.back());
  const int64_t rows = stored_elems_ / shape.back();
  std::vector<float> row(columns);
  std::vector<double> sum(columns);
  for (int64_t i = 0; i < rows; ++i) {
    folder_.read(name_, i * shape.back(), shape.back(), DType::kF32, row.data());
    for (size_t c = 0; c < columns; ++c) sum[c] += static_cast<double>(row[c]);
  }
  for (const double s : sum) mean_.push_back(static_cast<float>(s / static_cast<double>(rows)));
}

void StoredWeight::read(const TensorView& piece, int64_t first) {
  const int64_t stored = std::clamp(stored_elems_ - first, int64_t{0}, piece.elems());
  if (stored > 0) folder_.read(name_, first, stored, piece.dtype, piece.data);
  if (stored == piece.elems()) return;
  if (mean_.empty()) compute_mean();
  std::vector<float> values(static_cast<size_t>(piece.elems() - stored));
  const auto column = static_cast<size_t>(first + stored);
  for (size_t i = 0; i < values.size(); ++i) values[i] = mean_[(column + i) % mean_.size()];
  convert_floats(values.data(), DType::kF32, piece.as<std::byte>() + stored * size_of(piece.dtype), piece.dtype,
                 piece.elems() - stored);
}

SafetensorsFolder open_model_weights(const std::filesystem::path& folder, const ModelConfig& config) {
  SafetensorsFolder files(folder);
  ModelConfig stored = config;
  stored.vocab_size = config.stored_vocab_size.value_or(config.vocab_size);
  stored.tie_word_embeddings = config.tie_word_embeddings || config.copies_head;
  std::vector<WeightSpec> specs = model_weights(stored);
  if (stored.tie_word_embeddings && files.find(kHead)) {
    specs.push_back({std::string(kHead), {stored.vocab_size, config.hidden_size}});
  }
  check_tensors(files, specs, [](std::string_view name) { return name.ends_with("rotary_emb.inv_freq"); });
  return files;
}

SafetensorsFolder open_adapter_weights(const std::filesystem::path& folder, const ModelConfig& config,
                                       const LoraOptions& lora) {
  SafetensorsFolder files(folder, "adapter_model");
  const std::string where = (folder / "adapter_model.safetensors").string();
  std::vector<WeightSpec> specs = lora_weights(lora_targets(config, lora, where), lora);
  for (const WeightSpec& weight : saved_weights(config, lora, where)) {
    specs.push_back({adapter_tensor_name(weight.name), weight.shape});
  }
  // Where the embedding was resized, PEFT stores what it trained a second time, and what it started from.
  check_tensors(files, specs, [](std::string_view name) {
    return name.ends_with(".modules_to_save.weight") || name.ends_with(".original_module.weight");
  });
  return files;
}

void load_base_weights(const Graph& graph, const ModelConfig& config, const SafetensorsFolder& folder,
                       ValueStore& store) {
  read_weights(graph, folder, store, [&](std::string_view weight) { return stored_name(config, weight); });
  if (const ValueId id = graph.find(kRopeFrequencies); id != kNone) {
    const std::vector<float> frequencies = rope_inverse_frequencies(config);
    store.write(id, [&](const TensorView& piece, int64_t first) {
      std::copy_n(frequencies.begin() + first, piece.elems(), piece.as<float>());
    });
  }
  if ((config.tie_word_embeddings || config.copies_head) && folder.find(kHead) &&
      !equal_values(folder, kHead, kEmbedding)) {
    throw input_error(folder.path().string(),
                      "expected {} to equal {}, since config.json ties them, got different values; "
                      "set tie_word_embeddings to false",
                      kHead, kEmbedding);
  }
}

void load_adapter_weights(const Graph& graph, const SafetensorsFolder& folder, ValueStore& store) {
  read_weights(graph, folder, store, adapter_tensor_name);
}

}  // namespace spillway
