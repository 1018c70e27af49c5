#include "model/merged_weights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/sizes.h"
#include "model/adapter.h"
#include "model/encoded_weight.h"
#include "model/low_rank_product.h"
#include "model/quantised/base_format.h"
#include "model/row_squares.h"
#include "model/storages/fp8.h"
#include "model/weights.h"
#include "model/wrapper_parts.h"
#include "text/tokenizer.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// Adds scale * B A to the weight of one layer.
void add_product(std::vector<float>& weight, const Parameter& factor_a, const Parameter& factor_b, double scale,
                 const SafetensorsFolder& adapter, ThreadPool& pool) {
  LowRankFactors factors{.b = make_vector<float>(factor_b.shape.elems()),
                         .a = make_vector<float>(factor_a.shape.elems())};
  adapter.read(factor_a.name, DType::kF32, factors.a.data());
  adapter.read(factor_b.name, DType::kF32, factors.b.data());
  add_low_rank_product(weight, factors, scale, factor_b.shape[0], pool);
}

// Returns the transpose of a matrix of so many rows.
std::vector<float> transpose(std::span<const float> matrix, int64_t rows) {
  const int64_t columns = std::ssize(matrix) / rows;
  auto result = make_vector<float>(std::ssize(matrix));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      nth(result, column * rows + row) = nth(matrix, row * columns + column);
  return result;
}

// Adds scale * B_e A_e, or its transpose, to a weight of a mixture: the rows of B that are the weight's, of its
// expert's columns, and the expert's rows of A.
void add_tensor_product(std::vector<float>& weight, const Parameter& p, const LoraOptions& lora,
                        const SafetensorsFolder& adapter, ThreadPool& pool) {
  const MixtureTensor& tensor = p.tensor;
  const int64_t rank = lora.rank_of(tensor.name);
  const int64_t rows = p.shape[tensor.is_in_by_out ? 1 : 0], columns = p.shape[tensor.is_in_by_out ? 0 : 1];
  LowRankFactors factors{.b = make_vector<float>(rows * rank), .a = make_vector<float>(rank * columns)};
  auto all_b = make_vector<float>(rows * rank * tensor.experts);
  adapter.read(tensor_factor_name(lora, tensor.name, 'A'), tensor.expert * rank * columns, std::ssize(factors.a),
               DType::kF32, factors.a.data());
  adapter.read(tensor_factor_name(lora, tensor.name, 'B'), tensor.first_row * rank * tensor.experts, std::ssize(all_b),
               DType::kF32, all_b.data());
  for (int64_t i = 0; i < std::ssize(factors.b); ++i)
    nth(factors.b, i) = nth(all_b, i * tensor.experts + tensor.expert);
  if (tensor.is_in_by_out) factors = {.b = transpose(factors.a, rank), .a = transpose(factors.b, rows)};
  add_low_rank_product(weight, factors, lora.scale_of(tensor.name), p.shape[0], pool);
}

// Gives rows the norms that DoRA has trained.
void scale_rows(std::vector<float>& weight, const Parameter& magnitude, const SafetensorsFolder& adapter) {
  const int64_t rows = magnitude.shape[0], columns = std::ssize(weight) / rows;
  auto norms = make_vector<float>(rows);
  adapter.read(magnitude.name, DType::kF32, norms.data());
  RowSquares sums(rows, columns);
  sums.add(weight);
  const std::vector<float> squares = sums.result();
  for (int64_t row = 0; row < rows; ++row) {
    const float square = nth(squares, row);
    if (square == 0) continue;  // zeros, whatever they are multiplied by
    const float factor = nth(norms, row) / std::sqrt(square);
    for (float& value : subspan_of(weight, row * columns, columns)) value *= factor;
  }
}

// Returns the tensors of the merged model: its parameters, in the dtypes of the base's files, and those of other parts.
// `decoded` is the dtype of the weights before they were quantised, if their codes do not say it.
std::vector<TensorSpec> merged_tensors(const ParameterTable& parameters, const SafetensorsFolder& base, DType decoded) {
  std::map<std::string, TensorSpec> specs;
  const std::set<std::string, std::less<>> left_out = parts_left_out(base, parameters);
  for (const auto& [name, entry] : base.tensors()) {
    const bool is_left_out = parameters.is_of_other_part(name) && left_out.contains(part_of(name));
    if (!is_left_out && !is_of_fp8(base, name)) specs[name] = spec_of_copy(*entry.tensor);
  }
  if (has_score(parameters)) specs.erase("lm_head.weight");
  for (const Parameter& p : parameters) {
    if (!p.is_of_model()) {
      if (p.is_written()) specs[p.written_name()] = {p.written_name(), DType::kF32, p.shape.dims()};
      continue;
    }
    const bool coded = p.source.storage->is_coded();
    const DType dtype =
        coded ? p.source.storage->decoded_dtype({p.shape, decoded}) : base.find(p.source.name)->dtype().value();
    if (coded) {
      for (const ParameterTensor& tensor : p.tensors()) specs.erase(tensor.name);
    }
    specs[p.written_name()] = {p.written_name(), dtype, p.written_shape().dims()};
  }
  std::vector<TensorSpec> result;
  for (const auto& [name, spec] : specs) result.push_back(spec);
  return result;
}

std::vector<float> read_stored(StoredWeight weight, int64_t elems) {
  auto values = make_vector<float>(elems);
  weight.read({values.data(), DType::kF32, {elems}}, 0);
  return values;
}

// Returns the storage of the base's linear layers in the run that trained the adapter; nothing: as in the files.
std::optional<LinearStorage> trained_storage(const Model& model, const fs::path& adapter, MergeBase base) {
  if (base == MergeBase::kFiles) return {};
  std::optional<LinearStorage> storage = read_base_format(adapter);
  const ParameterTable parameters = parameters_of(model);
  const bool has_codes = std::any_of(parameters.begin(), parameters.end(),
                                     [](const Parameter& p) { return p.source.storage->is_coded(); });
  if (const auto change = has_codes ? find_base_change(adapter, parameters) : std::nullopt)
    throw input_error(
        "--base",
        "expected a MODEL that is not quantised yet, or in which {} is {}, as the adapter was trained, got "
        "{}; name the model that it was trained on, or use --base files",
        change->module, change->then, change->now);
  if (has_codes) return {};
  if (storage) return storage;
  throw input_error("--base",
                    "expected an adapter that was trained on a quantised base, got {}, which does not say so; "
                    "use --base files",
                    adapter.string());
}

// A weight of the merged model, in f32.
std::vector<float> merged_weight(const Parameter& p, const ParameterTable& parameters, const LoraOptions& lora,
                                 const SafetensorsFolder& base, const SafetensorsFolder& adapter, ThreadPool& pool) {
  if (p.trained) return read_stored({adapter, adapter_tensor_name(p.name)}, p.shape.elems());
  std::vector<float> values = read_stored({base, p}, p.shape.elems());
  if (p.storage->is_coded() && !p.is_stored_as_used()) (void)encode_and_decode(p, values, pool);
  if (!p.tensor.name.empty() && is_adapted_tensor(lora, p.tensor.name)) {
    add_tensor_product(values, p, lora, adapter, pool);
    return values;  // factors of a linear router's tensor have the names of its module's
  }
  const Parameter *a = parameters.find(lora_name(p.module, 'A')), *b = parameters.find(lora_name(p.module, 'B'));
  if (!a || p.role != ParameterRole::kLinear) return values;
  add_product(values, *a, *b, lora.scale_of(p.module), adapter, pool);
  if (lora.dora) scale_rows(values, *parameters.find(magnitude_name(p.module)), adapter);
  return values;
}

// Returns the padding token with which a reward model was trained: that of the adapter's tokenizer, or else of the
// model's.
std::optional<int64_t> padding_of(const fs::path& adapter, const fs::path& model) {
  const fs::path& folder = fs::exists(adapter / "tokenizer.json") ? adapter : model;
  if (!fs::exists(folder / "tokenizer.json")) return {};
  return text::Tokenizer::load(folder, {}).fill_id();
}

// The model with what an adapter has changed of it.
ModelPtr fitted(ModelPtr read, const std::optional<LoraOptions>& lora, const fs::path& model,
                const std::optional<fs::path>& adapter) {
  if (!adapter) return read;
  ModelPtr result = fit_to_adapter(std::move(read), *lora, *adapter);
  if (has_score(parameters_of(*result)))
    result = result->text()->with_score(*result->text()->score, padding_of(*adapter, model));
  return result;
}

ParameterTable merged_parameters(const Model& model, const std::optional<LoraOptions>& lora,
                                 const std::optional<fs::path>& adapter, MergeBase base) {
  ModelOptions options{.lora = lora};  // weights are merged in f32, whatever the files hold
  if (adapter) options.linear_storage = trained_storage(model, *adapter, base);
  return parameters_of(model, options);
}

}  // namespace

MergedWeights::MergedWeights(ModelPtr read, const fs::path& model, const std::optional<fs::path>& adapter,
                             MergeBase base)
    : lora_(adapter ? std::optional(read_adapter_options(*adapter)) : std::nullopt),
      model_(fitted(std::move(read), lora_, model, adapter)),
      parameters_(merged_parameters(*model_, lora_, adapter, base)),
      base_(open_model_weights(model, parameters_)) {
  check_copies(parameters_, base_);
  if (adapter) adapter_.emplace(open_adapter_weights(*adapter, parameters_, *lora_));
  tensors_ = merged_tensors(parameters_, base_, model_->dtype().value_or(DType::kBF16));
  warn_of_parts_left_out(base_, parameters_);
}

bool MergedWeights::copy(const TensorSpec& tensor, SafetensorsFolderWriter& writer) const {
  if (!parameters_.is_of_other_part(tensor.name)) return false;
  copy_tensor(base_, tensor, writer);
  return true;
}

const TensorSpec* MergedWeights::find(std::string_view name) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorSpec& t) { return t.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

bool MergedElements::next(std::vector<float>& piece) {
  if (!stored_) {
    piece = std::exchange(whole_, {});
    return !piece.empty();
  }
  resize(piece, std::min(left_, piece_elems_));
  if (piece.empty()) return false;
  stored_->read({piece.data(), DType::kF32, {std::ssize(piece)}}, first_);
  first_ += std::ssize(piece);
  left_ -= std::ssize(piece);
  return true;
}

bool MergedWeights::is_changed(const Parameter& p) const {
  if (!adapter_) return false;
  if (p.trained || (p.storage->is_coded() && !p.is_stored_as_used())) return true;
  if (!p.tensor.name.empty() && is_adapted_tensor(*lora_, p.tensor.name)) return true;
  return p.role == ParameterRole::kLinear && parameters_.find(lora_name(p.module, 'A')) != nullptr;
}

MergedElements MergedWeights::elements(const TensorSpec& tensor, ThreadPool& pool, int64_t piece_elems) const {
  const Parameter* p = parameters_.find_written(tensor.name);
  if (p == nullptr || !p->is_written()) return {StoredWeight(base_, tensor.name), tensor.elems(), piece_elems};
  if (!p->is_slab() && !is_changed(*p)) return {StoredWeight(base_, *p), tensor.elems(), piece_elems};
  return MergedElements(read(tensor, pool));
}

std::vector<float> MergedWeights::read(const TensorSpec& tensor, ThreadPool& pool) const {
  const Parameter* p = parameters_.find_written(tensor.name);  // null for what the base has besides
  if (p == nullptr || !p->is_written()) return read_stored({base_, tensor.name}, tensor.elems());
  const auto read_weight = [&](const Parameter& weight) {
    if (!adapter_) return read_stored({base_, weight}, weight.shape.elems());
    return merged_weight(weight, parameters_, *lora_, base_, *adapter_, pool);
  };
  if (!p->is_slab()) return read_weight(*p);
  std::vector<float> slabs;
  for (const Parameter& weight : parameters_) {
    if (!weight.is_slab() || weight.written_name() != tensor.name) continue;
    const std::vector<float> own = read_weight(weight);
    slabs.insert(slabs.end(), own.begin(), own.end());
  }
  return slabs;
}

void write_merged_weights(const MergedWeights& merged, SafetensorsFolderWriter& writer, const MergeProgress& progress) {
  ThreadPool pool(available_cpus());
  std::vector<float> piece;
  int64_t done = 0, total = 0;
  for (const TensorSpec& spec : merged.tensors()) total += spec.bytes();
  for (const TensorSpec& spec : merged.tensors()) {
    if (!merged.copy(spec, writer)) {
      MergedElements elements = merged.elements(spec, pool);
      while (elements.next(piece)) writer.append(spec.name, piece.data(), DType::kF32, std::ssize(piece));
    }
    done += spec.bytes();
    if (progress) progress(done, total);
  }
}

}  // namespace spillway
