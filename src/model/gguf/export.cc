#include "model/gguf/export.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
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

// Returns the elements of a view in its order. Takes those of the tensor that it is of.
std::vector<float> viewed(const GgufPart& part, std::vector<float> values) {
  if (part.is_as_stored()) return values;
  auto result = make_vector<float>(part.elems());
  part.gather(values.data(), result.data());
  return result;
}

// The weights of a folder, of which the last one stays in memory: several tensors of GGUF may be made of it.
class SourceWeights {
 public:
  SourceWeights(const MergedWeights& merged, ThreadPool& pool) : merged_(merged), pool_(pool) {}

  // Returns the values of a part of `weight`, as GGUF has them. `is_last`: the tensor is not asked for again.
  [[nodiscard]] std::vector<float> read(const GgufWeight& weight, const GgufPart& part, bool is_last) {
    if (name_ != part.name) {
      values_ = {};
      values_ = merged_.read(*merged_.find(part.name), pool_);
      name_ = part.name;
    }
    std::vector<float> result = is_last ? viewed(part, std::move(values_)) : viewed(part, values_);
    if (is_last) name_.clear();
    weight.to_gguf(result);
    return result;
  }

 private:
  const MergedWeights& merged_;
  ThreadPool& pool_;
  std::string name_;
  std::vector<float> values_;
};

std::string name_of(const fs::path& folder) {
  const std::string name = fs::absolute(folder).lexically_normal().filename().string();
  return name.empty() ? without_trailing_slash(fs::absolute(folder)).lexically_normal().filename().string() : name;
}

// Throws InputError for a weight of the model that would be lost without a word.
void check_is_whole(const GgufDescription& description, const ParameterTable& parameters, const fs::path& folder) {
  std::set<std::string_view> held;
  for (const GgufWeight& weight : description.weights)
    for (const GgufPart& part : weight.parts) held.insert(part.name);
  for (const GgufNumbers& list : description.numbers)
    for (const GgufPart& part : list.parts) held.insert(part.name);
  for (const Parameter& parameter : parameters) {
    if (!parameter.is_of_model() || held.contains(parameter.source.name)) continue;
    throw input_error(folder.string(), "expected the weights of a {} as llama.cpp has it, got {} as well; {}",
                      description.model.architecture, parameter.source.name, "use the folder itself");
  }
}

GgufDescription description_of(const Model& model, const fs::path& folder) {
  GgufDescription result = gguf_description(model.config_json(folder), (folder / "config.json").string(), folder);
  check_is_whole(result, parameters_of(model), folder);
  return result;
}

GgufMetadata general_metadata(const GgufDescription& description, const fs::path& folder, std::string_view kind) {
  return {{"general.architecture", description.model.architecture},
          {"general.type", std::string(kind)},
          {"general.name", name_of(folder)}};
}

// Returns the metadata that are numbers of the model's files.
GgufMetadata metadata_of_numbers(const GgufDescription& description, const MergedWeights& merged, ThreadPool& pool) {
  GgufMetadata metadata;
  for (const GgufNumbers& list : description.numbers) {
    std::vector<float> values;
    for (const GgufPart& part : list.parts) values.push_back(merged.read(*merged.find(part.name), pool).front());
    metadata.emplace_back(list.key, std::move(values));
  }
  return metadata;
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
  ThreadPool pool(available_cpus());
  const GgufMetadata numbers = metadata_of_numbers(description, merged, pool);
  metadata.insert(metadata.end(), numbers.begin(), numbers.end());
  metadata.emplace_back("general.file_type", options.type->number);
  metadata.emplace_back("general.quantization_version", kQuantisationVersion);
  GgufMetadata vocabulary = gguf_vocabulary(brings_tokenizer ? *adapter : model, model, description.model.vocabulary);
  metadata.insert(metadata.end(), vocabulary.begin(), vocabulary.end());

  const std::vector<GgufWeight>& weights = description.weights;
  std::vector<GgufTensorSpec> tensors;
  for (const GgufConstant& constant : description.constants)
    tensors.push_back({constant.name, GgufType::kF32, {std::ssize(constant.values)}});
  for (const GgufWeight& weight : weights) {
    for (const GgufPart& part : weight.parts) {
      const TensorSpec* stored = merged.find(part.name);
      SPILLWAY_CHECK(stored != nullptr && stored->shape == part.shape, "{} of {}", part.name, model.string());
    }
    tensors.push_back({weight.gguf, tensor_type(weight, description.model, *options.type), weight.shape});
  }
  GgufWriter writer(file, metadata, tensors);
  Tally tally(tensors, options);
  for (const GgufConstant& constant : description.constants) writer.append(constant.values);
  SourceWeights sources(merged, pool);
  for (size_t i = 0; i < weights.size(); ++i) {
    const std::vector<GgufPart>& parts = weights[i].parts;
    for (size_t j = 0; j < parts.size(); ++j) {
      const GgufPart* next = j + 1 < parts.size()     ? &parts[j + 1]
                             : i + 1 < weights.size() ? &weights[i + 1].parts.front()
                                                      : nullptr;
      const bool is_last = next == nullptr || next->name != parts[j].name;
      writer.append(sources.read(weights[i], parts[j], is_last), &pool);
    }
    tally.add(tensors[i + description.constants.size()]);
  }
  writer.commit();
  return {description.model.architecture, static_cast<int64_t>(tensors.size()), writer.bytes()};
}

namespace {

// A factor of the adapter, as it goes into the file.
struct Factor {
  std::string name;             // of the adapter's tensor
  std::vector<GgufPart> views;  // of it, one behind the other
  std::vector<int64_t> shape;   // in GGUF, outermost first
  double scale = 1;
};

// Returns a factor of a linear layer: all of B's rows in GGUF's order, or A.
Factor factor_of_matrix(const GgufWeight& weight, const std::string& module, char which, int64_t rank) {
  Factor result{.name = lora_name(module, which)};
  for (const GgufPart& part : weight.parts) {
    result.views.push_back(view_of_factor(part, which, rank));
    if (which == 'A') break;
  }
  result.shape = {which == 'B' ? weight.shape[0] : rank, which == 'B' ? rank : weight.shape[1]};
  return result;
}

// Returns a factor of a tensor of experts: A [experts, rank, in], which is how PEFT has it, or of B [experts, out,
// rank] the rows that the GGUF tensor has of [out, rank, experts]. `weight` is a view of that tensor, or a stack of
// tensors of single experts, of which `base` is the first. A router is one expert.
Factor factor_of_tensor(const GgufWeight& weight, const Parameter& base, const LoraOptions& lora, char which) {
  const MixtureTensor& tensor = base.tensor;
  const int64_t experts = tensor.experts, rank = lora.rank_of(tensor.name), in = tensor.shape[1];
  const int64_t rows = weight.shape[weight.shape.size() - 2];
  Factor result{.name = tensor_factor_name(lora, tensor.name, which)};
  GgufPart view{.name = result.name, .shape = {experts * rank, in}};
  if (which == 'B') {
    const GgufPart& part = weight.parts.front();
    // Neighbouring elements of [experts, in, out] are rows of B.
    const int64_t row = tensor.is_in_by_out ? 1 : in, row_of_b = rank * experts;
    const int64_t step = tensor.is_in_by_out ? part.axes[1].stride : 1;
    view.shape = {tensor.shape[0], row_of_b};
    view.first = (tensor.first_row + part.first / row) * row_of_b;
    view.axes = {{experts, 1}, {rows, step * row_of_b}, {rank, experts}};
  }
  result.views = {std::move(view)};
  if (weight.shape.size() == 3) result.shape = {experts};
  result.shape.insert(result.shape.end(), {which == 'B' ? rows : rank, which == 'B' ? rank : in});
  return result;
}

void check_factors_alone(const LoraOptions& lora, const fs::path& adapter) {
  if (lora.modules_to_save.empty() && !lora.dora) return;
  throw input_error((adapter / "adapter_config.json").string(),
                    "expected low-rank factors alone, which a GGUF adapter holds, got {}; merge first (--gguf)",
                    lora.dora ? "DoRA's magnitudes" : "modules_to_save");
}

// Throws InputError for a module whose matrix llama.cpp has as a stack of matrices, on which it reads no factors.
void check_is_matrix(const GgufWeight& weight, const std::string& module, const fs::path& adapter) {
  if (weight.shape.size() == 2) return;
  throw input_error((adapter / "adapter_config.json").string(),
                    "expected target_modules that llama.cpp has as matrices, got {}, which becomes {}; merge first "
                    "(--gguf)",
                    module, weight.gguf);
}

// Throws InputError for experts whose products llama.cpp scales one by one: it adds factors' products as they are.
void check_is_unscaled(const GgufWeight& weight, const GgufDescription& description, const fs::path& adapter) {
  const std::string_view name = weight.gguf;
  const std::string scale = fmt::format("{}scale", name.substr(0, name.rfind('.') + 1));
  const bool has_scale = std::any_of(description.weights.begin(), description.weights.end(),
                                     [&](const GgufWeight& other) { return other.gguf == scale; });
  if (weight.shape.size() == 2 || !has_scale) return;
  throw input_error((adapter / "adapter_config.json").string(),
                    "expected factors that llama.cpp scales as it does the weight, got some of {} beside {}; merge "
                    "first (--gguf)",
                    name, scale);
}

// Returns the alpha for the file. llama.cpp scales a product by the file's alpha over the rank of the factor, or by 1
// for an alpha of 0.
double file_alpha(const LoraOptions& lora) { return lora.alpha == 0 ? 1 : lora.alpha; }

// Returns the rest of PEFT's scale, which is multiplied into B.
double left_scale(const LoraOptions& lora, const std::string& module) {
  return lora.scale_of(module) / (file_alpha(lora) / static_cast<double>(lora.rank_of(module)));
}

// Returns the path of what has factors for a weight: its module, the tensor of a mixture that it is of, or nothing.
std::string adapted_name(const Parameter& base, const ParameterTable& parameters, const LoraOptions& lora) {
  if (!base.tensor.name.empty() && is_adapted_tensor(lora, base.tensor.name)) return base.tensor.name;
  const bool has_factors = base.role == ParameterRole::kLinear && parameters.find(lora_name(base.module, 'A'));
  return has_factors ? base.module : "";
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
    const Parameter* base = parameters.find_written(weight.parts.front().name);
    if (base == nullptr) continue;
    const std::string adapted = adapted_name(*base, parameters, lora);
    if (adapted.empty()) continue;
    adapted == base->module ? check_is_matrix(weight, adapted, adapter)
                            : check_is_unscaled(weight, description, adapter);
    for (const char which : {'A', 'B'}) {
      Factor factor = adapted == base->module ? factor_of_matrix(weight, adapted, which, lora.rank_of(adapted))
                                              : factor_of_tensor(weight, *base, lora, which);
      if (which == 'B') factor.scale = left_scale(lora, adapted);
      tensors.push_back({fmt::format("{}.lora_{}", weight.gguf, which == 'B' ? 'b' : 'a'),
                         plain_tensor_type(factor.shape, options.type->type), factor.shape});
      factors.push_back(std::move(factor));
    }
  }
  GgufWriter writer(file, metadata, tensors);
  Tally tally(tensors, options);
  for (size_t i = 0; i < factors.size(); ++i) {
    const Factor& factor = factors[i];
    auto values = make_vector<float>(factor.views.front().elems_in_files());
    stored.read(factor.name, DType::kF32, values.data());
    if (factor.scale != 1)
      for (float& value : values) value = static_cast<float>(value * factor.scale);
    for (const GgufPart& view : factor.views) writer.append(viewed(view, values));
    tally.add(tensors[i]);
  }
  writer.commit();
  return {description.model.architecture, static_cast<int64_t>(tensors.size()), writer.bytes()};
}

}  // namespace spillway
