#include "model/weights.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "io/convert.h"
#include "model/adapter_targets.h"
#include "model/layout.h"
#include "model/row_squares.h"

namespace spillway {
namespace {

// ` and 7 more`, or nothing.
std::string and_more(size_t found) { return found > 1 ? fmt::format(" and {} more", found - 1) : ""; }

void check_tensor(const SafetensorsFolder::Entry& entry, const ParameterTensor& wanted) {
  const auto& [tensor, file] = entry;
  const auto& [name, shape, wanted_dtype, foreign_dtype] = wanted;
  if (tensor->shape != shape.dims()) {
    throw input_error(file->path().string(),
                      "expected {} of shape {}, got {}; use the weights that belong to this config", quote(name),
                      to_string(shape), tensor->shape_text());
  }
  const std::optional<DType> dtype = tensor->dtype();
  if (wanted_dtype || !foreign_dtype.empty()) {
    if (wanted_dtype ? dtype == wanted_dtype : tensor->dtype_name == foreign_dtype) return;
    throw input_error(file->path().string(), "expected {} as {}, got {}; use the weights that belong to this config",
                      quote(name), wanted_dtype ? name_of(*wanted_dtype) : foreign_dtype, quote(tensor->dtype_name));
  }
  if (tensor->dtype_name == "F8_E4M3") {
    throw input_error(file->path().string(), "expected {} in F32, F16 or BF16, got F8_E4M3; {}", quote(name),
                      "restore config.json's quantization_config if it is gone; else use a model in which only linear "
                      "layers and experts are FP8");
  }
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) {
    throw input_error(file->path().string(), "expected {} in F32, F16 or BF16, got {}; use a model in one of these",
                      quote(name), quote(tensor->dtype_name));
  }
}

// Every tensor that is `wanted` is there and fits, and there is no other but those that `is_spare` allows.
template <typename IsSpare>
void check_tensors(const SafetensorsFolder& folder, const std::vector<ParameterTensor>& wanted,
                   const IsSpare& is_spare) {
  std::set<std::string_view> known;
  std::vector<std::string> missing, surplus;
  for (const ParameterTensor& tensor : wanted) {
    if (!known.insert(tensor.name).second) continue;
    const auto it = folder.tensors().find(tensor.name);
    if (it == folder.tensors().end()) {
      missing.push_back(tensor.name);
    } else {
      check_tensor(it->second, tensor);
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

// Reads a weight in pieces and drops them: reading refuses what is not finite.
void check_values(const SafetensorsFolder& folder, const Parameter& p) {
  std::vector<float> piece(kPieceElems);
  const DType dtype = folder.find(p.source.name)->dtype().value();
  const int64_t end = p.first_elem() + p.shape.elems();
  for (int64_t first = p.first_elem(); first < end; first += kPieceElems)
    folder.read(p.source.name, first, std::min(kPieceElems, end - first), dtype, piece.data());
}

void read_weight(const SafetensorsFolder& folder, std::string_view tensor, ValueId value, ValueStore& store) {
  StoredWeight weight(folder, tensor);
  store.write(value, [&](const TensorView& piece, int64_t first) { weight.read(piece, first); });
}

// Reads what the files hold of a coded weight's part in pieces and drops them: reading refuses what cannot be.
void check_part(const SafetensorsFolder& folder, const Parameter& p, size_t part, const StoragePart& type) {
  const int64_t elems = type.shape.elems();
  auto piece = make_vector<std::byte>(std::min(kPieceElems, elems) * size_of(type.dtype));
  for (int64_t first = 0; first < elems; first += kPieceElems) {
    const TensorView view{piece.data(), type.dtype, {std::min(kPieceElems, elems - first)}};
    p.storage->read(folder, p.source.name, p.spec(), part, view, p.first_elem(elems) + first);
  }
}

// Parts that the files hold.
void read_parts(const SafetensorsFolder& folder, const Parameter& p, ValueStore& store) {
  const std::vector<StoragePart> parts = p.storage->parts(p.spec());
  for (size_t part = 0; part < parts.size(); ++part) {
    if (store.is_in_files(p.values[part])) {
      check_part(folder, p, part, parts[part]);
      continue;
    }
    const int64_t begin = p.first_elem(parts[part].shape.elems());
    store.write(p.values[part], [&](const TensorView& piece, int64_t first) {
      p.storage->read(folder, p.source.name, p.spec(), part, piece, begin + first);
    });
  }
}

void encode_weight(const SafetensorsFolder& folder, const Parameter& p, ValueStore& store, ThreadPool& pool) {
  StoredWeight source(folder, p);
  std::vector<std::unique_ptr<ValueStore::Writer>> writers;
  for (const ValueId value : p.values) writers.push_back(store.writer(value));
  p.storage->encode(
      p.name, p.spec(),
      [&](int64_t first, int64_t count, float* into) {
        source.read({into, DType::kF32, {count}}, first);
      },
      [&](size_t part, const void* elements, int64_t count) { writers[part]->append(elements, count); }, pool);
}

// A frozen weight of the base.
void load_weight(const SafetensorsFolder& folder, const Parameter& p, ValueStore& store,
                 std::optional<ThreadPool>& pool) {
  if (p.storage->is_coded() && p.is_stored_as_used()) return read_parts(folder, p, store);
  if (p.storage->is_coded()) return encode_weight(folder, p, store, pool ? *pool : pool.emplace(available_cpus()));
  if (store.is_in_files(p.value())) return check_values(folder, p);
  StoredWeight weight(folder, p);
  store.write(p.value(), [&](const TensorView& piece, int64_t first) { weight.read(piece, first); });
}

// Calls `visit(parameter)` for those of which the folder holds a copy.
template <typename Visit>
void for_copies(const ParameterTable& parameters, const SafetensorsFolder& folder, const Visit& visit) {
  for (const Parameter& p : parameters)
    if (!p.copy_in_files.empty() && folder.find(p.copy_in_files)) visit(p);
}

}  // namespace

StoredWeight::StoredWeight(const SafetensorsFolder& folder, std::string_view name, int64_t begin)
    : folder_(folder), name_(name), begin_(begin), stored_elems_(folder.find(name)->elems() - begin) {}

StoredWeight::StoredWeight(const SafetensorsFolder& folder, const Parameter& p)
    : folder_(folder), name_(p.source.name), begin_(p.first_elem()) {
  const WeightSpec stored{p.is_slab() ? p.shape : p.source.shape, p.dtype};
  stored_elems_ = stored.shape.elems();
  const Storage& storage = *p.source.storage;
  if (!storage.is_coded()) return;
  std::vector<std::vector<std::byte>> contents;
  std::vector<TensorView> parts;
  for (const StoragePart& part : storage.parts(stored)) {
    TensorView view{nullptr, part.dtype, part.shape};
    view.data = contents.emplace_back(make_vector<std::byte>(view.bytes())).data();
    storage.read(folder, name_, stored, parts.size(), view, p.first_elem(view.elems()));
    parts.push_back(view);
  }
  resize(decoded_, stored_elems_);
  storage.decode(stored, parts, 0, stored.shape[0], decoded_.data());
}

void StoredWeight::compute_mean() {
  const std::vector<int64_t>& shape = folder_.find(name_)->shape;
  const int64_t rows = stored_elems_ / shape.back();
  auto row = make_vector<float>(shape.back());
  auto sum = make_vector<double>(shape.back());
  for (int64_t i = 0; i < rows; ++i) {
    folder_.read(name_, i * shape.back(), shape.back(), DType::kF32, row.data());
    for (size_t c = 0; c < sum.size(); ++c) sum[c] += static_cast<double>(row[c]);
  }
  for (const double s : sum) mean_.push_back(static_cast<float>(s / static_cast<double>(rows)));
}

void StoredWeight::read(const TensorView& piece, int64_t first) {
  if (!decoded_.empty()) {
    convert_floats(decoded_.data() + first, DType::kF32, piece.data, piece.dtype, piece.elems());
    return;
  }
  const int64_t stored = std::clamp(stored_elems_ - first, int64_t{0}, piece.elems());
  if (stored > 0) folder_.read(name_, begin_ + first, stored, piece.dtype, piece.data);
  if (stored == piece.elems()) return;
  if (mean_.empty()) compute_mean();
  auto values = make_vector<float>(piece.elems() - stored);
  const auto column = static_cast<size_t>(first + stored);
  for (size_t i = 0; i < values.size(); ++i) values[i] = mean_[(column + i) % mean_.size()];
  convert_floats(values.data(), DType::kF32, piece.as<std::byte>() + stored * size_of(piece.dtype), piece.dtype,
                 piece.elems() - stored);
}

SafetensorsFolder open_model_weights(const std::filesystem::path& folder, const ParameterTable& parameters) {
  SafetensorsFolder files = open_weights(folder);
  std::vector<ParameterTensor> wanted;
  for (const Parameter& p : parameters) {
    if (!p.is_of_model()) continue;
    for (ParameterTensor& tensor : p.tensors()) wanted.push_back(std::move(tensor));
  }
  for_copies(parameters, files, [&](const Parameter& p) { wanted.push_back({p.copy_in_files, p.source.shape, {}}); });
  check_tensors(files, wanted,
                [&](std::string_view name) { return parameters.ignores(name) || parameters.is_of_other_part(name); });
  return files;
}

SafetensorsFolder open_adapter_weights(const std::filesystem::path& folder, const ParameterTable& parameters,
                                       const LoraOptions& lora) {
  SafetensorsFolder files = open_adapter(folder);
  const std::string where = (folder / fmt::format("{}.safetensors", adapter_stem(layout_of_adapter(folder)))).string();
  for (const auto& [name, entry] : files.tensors()) {
    if (name.find(".lora_embedding_") == std::string::npos) continue;
    throw input_error(where, "expected low-rank factors of linear layers, got those of an embedding, '{}'; {}", name,
                      "merge it with PEFT, or train the embedding in full (lora_modules_to_save)");
  }
  (void)lora_targets(parameters, lora, where);
  check_target_tensors(parameters, lora, where);
  (void)saved_weights(parameters, lora, where);
  std::vector<ParameterTensor> wanted;
  for (const Parameter& p : parameters) {
    if (p.trained) wanted.push_back({adapter_tensor_name(p.name), p.shape, {}});
  }
  // Where the embedding was resized, PEFT stores what it trained a second time, and what it started from.
  check_tensors(files, wanted, [](std::string_view name) {
    return name.ends_with(".modules_to_save.weight") || name.ends_with(".original_module.weight");
  });
  return files;
}

void load_base_weights(const ParameterTable& parameters, const SafetensorsFolder& folder, ValueStore& store) {
  std::optional<ThreadPool> pool;  // made for the first weight that is encoded
  for (const Parameter& p : parameters) {
    if (p.trained) continue;
    if (p.is_of_model() && !p.loads_with_adapter) load_weight(folder, p, store, pool);
    if (p.role == ParameterRole::kRowSquares) {  // behind its weight in the table
      const Parameter& weight = *parameters.find(p.name.substr(0, p.name.rfind('.')));
      if (!weight.loads_with_adapter) load_row_squares(p, weight, store);
    }
    if (p.role != ParameterRole::kConstant) continue;
    store.write(p.value(), [&](const TensorView& piece, int64_t first) {
      std::copy_n(p.content.begin() + first, piece.elems(), piece.as<float>());
    });
  }
  check_copies(parameters, folder);
}

void check_copies(const ParameterTable& parameters, const SafetensorsFolder& folder) {
  for_copies(parameters, folder, [&](const Parameter& p) {
    if (equal_values(folder, p.copy_in_files, p.source.name)) return;
    throw input_error(folder.path().string(),
                      "expected {} to equal {}, since config.json ties them, got different values; "
                      "set tie_word_embeddings to false",
                      p.copy_in_files, p.source.name);
  });
}

void load_merged_weights(const ParameterTable& parameters, const SafetensorsFolder& folder, ValueStore& store) {
  std::optional<ThreadPool> pool;
  for (const Parameter& p : parameters)
    if (p.merges_adapter) load_weight(folder, p, store, pool);
}

void load_adapter_weights(const ParameterTable& parameters, const SafetensorsFolder& folder, ValueStore& store) {
  for (const Parameter& p : parameters) {
    if (p.trained || p.is_copy) read_weight(folder, adapter_tensor_name(p.name), p.value(), store);
  }
}

}  // namespace spillway
