#include "model/merge.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/cpu/matmul.h"
#include "base/error.h"
#include "base/json.h"
#include "io/file.h"
#include "io/output_folder.h"
#include "io/safetensors_writer.h"
#include "model/adapter.h"
#include "model/other_files.h"
#include "model/quantised/base_format.h"
#include "model/weights.h"
#include "text/tokenizer.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCommand = "merge";

// Adds scale * B A to the weight of one layer.
void add_product(std::vector<float>& weight, const Parameter& factor_a, const Parameter& factor_b, double scale,
                 const SafetensorsFolder& factors, ThreadPool& pool) {
  std::vector<float> a(static_cast<size_t>(factor_a.shape.elems())), b(static_cast<size_t>(factor_b.shape.elems()));
  factors.read(factor_a.name, DType::kF32, a.data());
  factors.read(factor_b.name, DType::kF32, b.data());
  const int64_t out = factor_b.shape[0], r = factor_b.shape[1], in = factor_a.shape[1];
  const cpu::MatmulShape shape{out, in, r, false, false};
  const int64_t bytes = cpu::matmul_workspace_bytes(shape, DType::kF32, DType::kF32, pool.threads());
  std::vector<std::byte> storage(static_cast<size_t>(bytes + 64));
  void* workspace = storage.data();
  size_t space = storage.size();
  std::align(64, static_cast<size_t>(bytes), workspace, space);
  cpu::matmul({.shape = shape,
               .a = {b.data(), DType::kF32, r},
               .b = {a.data(), DType::kF32, in},
               .c = weight.data(),
               .c_dtype = DType::kF32,
               .c_stride = in,
               .alpha = static_cast<float>(scale),
               .addend = weight.data(),
               .addend_dtype = DType::kF32,
               .addend_stride = in},
              static_cast<std::byte*>(workspace), pool);
}

// What the merged model holds: its parameters, in the dtypes of the base's files, and what these have besides.
std::vector<TensorSpec> merged_tensors(const ParameterTable& parameters, const SafetensorsFolder& base) {
  std::map<std::string, TensorSpec> specs;
  for (const auto& [name, entry] : base.tensors())
    specs[name] = {name, entry.tensor->dtype().value(), entry.tensor->shape};
  if (has_score(parameters)) specs.erase("lm_head.weight");
  for (const Parameter& p : parameters) {
    if (!p.is_of_model()) {
      if (p.is_written()) specs[p.name] = {p.name, DType::kF32, p.shape.dims()};
      continue;
    }
    const bool coded = p.source.storage->is_coded();
    const DType dtype = coded ? p.source.storage->decoded_dtype(p.spec()) : base.find(p.source.name)->dtype().value();
    if (coded) {
      for (const ParameterTensor& tensor : p.tensors()) specs.erase(tensor.name);
    }
    specs[p.name] = {p.name, dtype, p.shape.dims()};
  }
  std::vector<TensorSpec> result;
  for (const auto& [name, spec] : specs) result.push_back(spec);
  return result;
}

// A weight's elements as a run computes with them that quantises it.
void quantise_and_decode(const Parameter& p, std::vector<float>& values, ThreadPool& pool) {
  std::vector<std::vector<std::byte>> contents;
  std::vector<TensorView> parts;
  std::vector<size_t> ends;
  for (const StoragePart& part : p.storage->parts(p.spec())) {
    TensorView view{nullptr, part.dtype, part.shape};
    view.data = contents.emplace_back(static_cast<size_t>(view.bytes())).data();
    parts.push_back(view);
    ends.push_back(0);
  }
  p.storage->encode(
      p.name, p.spec(),
      [&](int64_t first, int64_t count, float* into) { std::copy_n(values.begin() + first, count, into); },
      [&](size_t part, const void* elements, int64_t count) {
        const auto bytes = static_cast<size_t>(count * size_of(parts[part].dtype));
        SPILLWAY_CHECK(ends[part] + bytes <= contents[part].size(), "{} + {} of {}", ends[part], bytes, p.name);
        std::memcpy(contents[part].data() + ends[part], elements, bytes);
        ends[part] += bytes;
      },
      pool);
  p.storage->decode(p.spec(), parts, values.data());
}

std::vector<float> read_stored(StoredWeight weight, int64_t elems) {
  std::vector<float> values(static_cast<size_t>(elems));
  weight.read({values.data(), DType::kF32, {elems}}, 0);
  return values;
}

// How the run that trained the adapter kept the base's linear layers. Empty: as the files have them.
std::optional<LinearStorage> trained_storage(const Model& model, const fs::path& adapter, MergeBase base) {
  if (base == MergeBase::kFiles) return {};
  std::optional<LinearStorage> storage = read_base_format(adapter);
  const ParameterTable parameters = parameters_of(model);
  const bool has_codes = std::any_of(parameters.begin(), parameters.end(),
                                     [](const Parameter& p) { return p.source.storage->is_coded(); });
  if (has_codes) return {};
  if (storage) return storage;
  throw input_error("--base",
                    "expected an adapter that was trained on a quantised base, got {}, which does not say so; "
                    "use --base files",
                    adapter.string());
}

// What describes codes that are no more.
std::string dense_config(const std::string& text) {
  auto json = parse_json<nlohmann::ordered_json>(text, "config.json");
  if (json.erase("quantization_config") == 0) return text;
  return json_text(json, 2) + "\n";
}

// A weight of the merged model, in f32.
std::vector<float> merged_weight(const Parameter& p, const ParameterTable& parameters, const LoraOptions& lora,
                                 const SafetensorsFolder& base, const SafetensorsFolder& adapter, ThreadPool& pool) {
  if (p.trained) return read_stored({adapter, adapter_tensor_name(p.name)}, p.shape.elems());
  std::vector<float> values = read_stored({base, p}, p.shape.elems());
  if (p.storage->is_coded() && !p.is_stored_as_used()) quantise_and_decode(p, values, pool);
  const Parameter *a = parameters.find(lora_name(p.module, 'A')), *b = parameters.find(lora_name(p.module, 'B'));
  if (a && p.role == ParameterRole::kLinear) add_product(values, *a, *b, lora.scale_of(p.module), adapter, pool);
  return values;
}

// What fills batches up, as a reward model was trained with: of the adapter's tokenizer, or else of the model's.
std::optional<int64_t> padding_of(const fs::path& adapter, const fs::path& model) {
  const fs::path& folder = fs::exists(adapter / "tokenizer.json") ? adapter : model;
  if (!fs::exists(folder / "tokenizer.json")) return {};
  return text::Tokenizer::load(folder, {}).fill_id();
}

}  // namespace

void merge_adapter(const fs::path& model, const fs::path& adapter, const fs::path& out, MergeBase base) {
  check_apart("--out", out, std::array{CommandInput{"MODEL", model}, CommandInput{"--adapter", adapter}});
  check_replaceable("--out", out, kCommand);
  merge_adapter(read_model(model), model, adapter, out, base);
}

void merge_adapter(ModelPtr read, const fs::path& model, const fs::path& adapter, const fs::path& out, MergeBase into) {
  const LoraOptions lora = read_adapter_options(adapter);
  ModelPtr fitted = fit_to_adapter(std::move(read), lora, adapter);
  if (has_score(parameters_of(*fitted)))
    fitted = fitted->with_score(*fitted->text()->score, padding_of(adapter, model));
  const ParameterTable parameters = parameters_of(*fitted, {.dtype = fitted->dtype().value_or(DType::kBF16),
                                                            .lora = lora,
                                                            .linear_storage = trained_storage(*fitted, adapter, into)});
  const SafetensorsFolder base = open_model_weights(model, parameters);
  const SafetensorsFolder factors = open_adapter_weights(adapter, parameters, lora);
  const std::vector<TensorSpec> specs = merged_tensors(parameters, base);
  AtomicFolder folder(out, kCommand);
  SafetensorsFolderWriter writer(folder.path(), specs);
  ThreadPool pool(available_cpus());
  for (const TensorSpec& spec : specs) {
    const Parameter* p = parameters.find(spec.name);  // null for what the base has besides
    const std::vector<float> values = p && p->is_written() ? merged_weight(*p, parameters, lora, base, factors, pool)
                                                           : read_stored({base, spec.name}, spec.elems());
    writer.append(spec.name, values.data(), DType::kF32, spec.elems());
  }
  writer.commit();
  copy_other_files(model, folder.path(), [](std::string_view) { return true; });
  copy_other_files(adapter, folder.path(), is_of_tokenizer);
  write_file(folder.path() / "config.json", dense_config(fitted->config_json(model)));
  folder.publish();
}

}  // namespace spillway
