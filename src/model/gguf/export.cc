#include "model/gguf/export.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/math.h"
#include "base/parallel.h"
#include "base/sizes.h"
#include "base/text.h"
#include "io/gguf_writer.h"
#include "io/output_folder.h"
#include "model/adapter.h"
#include "model/gguf/vocabulary.h"
#include "model/gguf/weights.h"
#include "model/merged_weights.h"
#include "model/weights.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kQuantisationVersion = 2;  // of ggml's block encodings

// Adds to every value what GGUF has more.
std::vector<float> shifted(std::vector<float> values, float shift) {
  if (shift != 0)
    for (float& value : values) value += shift;
  return values;
}

// Into llama.cpp's order of rows. `shape`: of the whole weight.
std::vector<float> interleaved(std::vector<float> values, const std::vector<int64_t>& shape, int64_t heads) {
  if (heads == 0) return values;
  const int64_t head_dim = div_exact(shape[0], heads);
  const int64_t row = static_cast<int64_t>(values.size()) / shape[0];
  std::vector<float> result(values.size());
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t at = head * head_dim * row;
    interleave_halves(values.data() + at, result.data() + at, head_dim, row);
  }
  return result;
}

std::string name_of(const fs::path& folder) {
  const std::string name = fs::absolute(folder).lexically_normal().filename().string();
  return name.empty() ? without_trailing_slash(fs::absolute(folder)).lexically_normal().filename().string() : name;
}

GgufDescription description_of(const Model& model, const fs::path& folder) {
  return gguf_description(model.config_json(folder), (folder / "config.json").string(), folder);
}

GgufMetadata general_metadata(const GgufDescription& description, const fs::path& folder, std::string_view kind) {
  return {{"general.architecture", description.model.architecture},
          {"general.type", std::string(kind)},
          {"general.name", name_of(folder)}};
}

class Tally {
 public:
  Tally(const std::vector<GgufTensorSpec>& tensors, const ExportOptions& options) : options_(options) {
    for (const GgufTensorSpec& tensor : tensors) total_ += tensor.bytes();
  }
  void add(const GgufTensorSpec& tensor) {
    done_ += tensor.bytes();
    if (options_.progress) options_.progress(done_, total_);
  }

 private:
  const ExportOptions& options_;
  int64_t done_ = 0, total_ = 0;
};

}  // namespace

ExportReport export_gguf(const fs::path& model, const std::optional<fs::path>& adapter, const fs::path& file,
                         const ExportOptions& options) {
  check_new_file("--gguf", file);
  ModelPtr read = read_model(model);
  (void)description_of(*read, model);  // what cannot be expressed is refused before the adapter is looked at
  const MergedWeights merged(std::move(read), model, adapter, MergeBase::kFiles);
  const GgufDescription description = description_of(merged.model(), model);
  const bool brings_tokenizer = adapter && fs::exists(*adapter / "tokenizer.json");
  GgufMetadata metadata = general_metadata(description, model, "model");
  metadata.insert(metadata.end(), description.metadata.begin(), description.metadata.end());
  metadata.emplace_back("general.file_type", options.type->number);
  metadata.emplace_back("general.quantization_version", kQuantisationVersion);
  GgufMetadata vocabulary = gguf_vocabulary(brings_tokenizer ? *adapter : model, model, description.model.vocabulary);
  metadata.insert(metadata.end(), vocabulary.begin(), vocabulary.end());

  const std::vector<GgufWeight>& weights = description.weights;
  std::vector<GgufTensorSpec> tensors;
  for (const GgufConstant& constant : description.constants)
    tensors.push_back({constant.name, GgufType::kF32, {std::ssize(constant.values)}});
  for (const GgufWeight& weight : weights) {
    for (const std::string& name : weight.names()) {
      const TensorSpec* stored = merged.find(name);
      SPILLWAY_CHECK(stored != nullptr && stored->shape == weight.shape_in_files(), "{} of {}", name, model.string());
    }
    tensors.push_back({weight.gguf, tensor_type(weight, description.model, *options.type), weight.shape});
  }
  GgufWriter writer(file, metadata, tensors);
  Tally tally(tensors, options);
  ThreadPool pool(available_cpus());
  for (const GgufConstant& constant : description.constants) writer.append(constant.values);
  for (size_t i = 0; i < weights.size(); ++i) {
    const GgufWeight& weight = weights[i];
    for (const std::string& name : weight.names()) {
      std::vector<float> values = shifted(merged.read(*merged.find(name), pool), weight.shift);
      writer.append(interleaved(std::move(values), weight.shape, weight.permuted_heads), &pool);
    }
    tally.add(tensors[i + description.constants.size()]);
  }
  writer.commit();
  return {description.model.architecture, static_cast<int64_t>(tensors.size()), writer.bytes()};
}

namespace {

// A factor of the adapter, as it goes into the file.
struct Factor {
  std::string name;  // of the adapter's tensor
  std::vector<int64_t> shape;
  int64_t permuted_heads = 0;
  double scale = 1;
};

void check_factors_alone(const LoraOptions& lora, const fs::path& adapter) {
  if (lora.modules_to_save.empty() && lora.target_parameters.empty() && !lora.dora) return;
  throw input_error((adapter / "adapter_config.json").string(),
                    "expected low-rank factors of linear layers alone, which a GGUF adapter holds, got {}; "
                    "export the merged model (--gguf)",
                    lora.dora                         ? "DoRA's magnitudes"
                    : !lora.target_parameters.empty() ? "target_parameters"
                                                      : "modules_to_save");
}

// Returns the alpha for the file. llama.cpp scales a product by the file's alpha over the rank of the factor, or by 1
// for an alpha of 0.
double file_alpha(const LoraOptions& lora) { return lora.alpha == 0 ? 1 : lora.alpha; }

// Returns the rest of PEFT's scale, which is multiplied into B.
double left_scale(const LoraOptions& lora, const std::string& module) {
  return lora.scale_of(module) / (file_alpha(lora) / static_cast<double>(lora.rank_of(module)));
}

}  // namespace

ExportReport export_gguf_adapter(const fs::path& model, const fs::path& adapter, const fs::path& file,
                                 const ExportOptions& options) {
  check_new_file("--lora-gguf", file);
  if (options.type->is_mixture)
    throw input_error("--type", "expected a type of adapters, got {}; use f32, f16, bf16 or q8_0", options.type->name);
  const ModelPtr read = read_model(model);
  const GgufDescription description = description_of(*read, model);
  const LoraOptions lora = read_adapter_options(adapter);
  check_factors_alone(lora, adapter);
  const ParameterTable parameters = parameters_of(*read, {.lora = lora});
  const SafetensorsFolder stored = open_adapter_weights(adapter, parameters, lora);
  GgufMetadata metadata = general_metadata(description, adapter, "adapter");
  metadata.emplace_back("adapter.type", "lora");
  metadata.emplace_back("adapter.lora.alpha", static_cast<float>(file_alpha(lora)));
  metadata.emplace_back("general.quantization_version", kQuantisationVersion);

  std::vector<Factor> factors;
  std::vector<GgufTensorSpec> tensors;
  for (const GgufWeight& weight : description.weights) {
    const Parameter* base = parameters.find_written(weight.name);
    if (base == nullptr || base->role != ParameterRole::kLinear) continue;
    for (const char which : {'A', 'B'}) {
      const Parameter* factor = parameters.find(lora_name(base->module, which));
      if (factor == nullptr) continue;
      const bool is_b = which == 'B';
      factors.push_back({factor->name, factor->shape.dims(), is_b ? weight.permuted_heads : 0,
                         is_b ? left_scale(lora, base->module) : 1});
      tensors.push_back({fmt::format("{}.lora_{}", weight.gguf, is_b ? 'b' : 'a'),
                         plain_tensor_type(factors.back().shape, options.type->type), factors.back().shape});
    }
  }
  GgufWriter writer(file, metadata, tensors);
  Tally tally(tensors, options);
  for (size_t i = 0; i < factors.size(); ++i) {
    const Factor& factor = factors[i];
    auto values = make_vector<float>(tensors[i].elems());
    stored.read(factor.name, DType::kF32, values.data());
    if (factor.scale != 1)
      for (float& value : values) value = static_cast<float>(value * factor.scale);
    writer.append(interleaved(std::move(values), factor.shape, factor.permuted_heads));
    tally.add(tensors[i]);
  }
  writer.commit();
  return {description.model.architecture, static_cast<int64_t>(tensors.size()), writer.bytes()};
}

}  // namespace spillway
