#include "model/dit/adapter_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/json_field.h"
#include "base/sizes.h"
#include "base/text.h"
#include "io/output_folder.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/layout.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAdapterFile = "pytorch_lora_weights.safetensors";
constexpr const char* kMetadata = "lora_adapter_metadata";
constexpr std::string_view kComfyPrefix = "diffusion_model.blocks.", kKohyaPrefix = "lora_unet_blocks_",
                           kOwnPrefix = "blocks.", kAlpha = ".alpha";

// The linear layers of a block: diffusers' names, and Wan's own.
struct BlockLayer {
  std::string_view own, original;
};
constexpr BlockLayer kBlockLayers[] = {{"attn1.to_q", "self_attn.q"},
                                       {"attn1.to_k", "self_attn.k"},
                                       {"attn1.to_v", "self_attn.v"},
                                       {"attn1.to_out.0", "self_attn.o"},
                                       {"attn2.to_q", "cross_attn.q"},
                                       {"attn2.to_k", "cross_attn.k"},
                                       {"attn2.to_v", "cross_attn.v"},
                                       {"attn2.to_out.0", "cross_attn.o"},
                                       {"attn2.add_k_proj", "cross_attn.k_img"},
                                       {"attn2.add_v_proj", "cross_attn.v_img"},
                                       {"ffn.net.0.proj", "ffn.0"},
                                       {"ffn.net.2", "ffn.2"}};

// The ends of names of a tensor of a layer: ours, ComfyUI's, kohya's.
struct FactorEnd {
  std::string_view own, comfy, kohya;
};
constexpr FactorEnd kEnds[] = {{".lora_A.weight", ".lora_A.weight", ".lora_down.weight"},
                               {".lora_B.weight", ".lora_B.weight", ".lora_up.weight"},
                               {kAlpha, kAlpha, kAlpha}};

std::string with_underscores(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '.', '_');
  return result;
}

// Takes the number of a block, and the separator behind it, off the front of `rest`; empty if there is none.
std::string_view take_block(std::string_view& rest, char separator) {
  const size_t end = rest.find_first_not_of("0123456789");
  if (end == 0 || end == std::string_view::npos || rest[end] != separator) return {};
  const std::string_view number = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return number;
}

// Copies the bytes of a tensor under the name that the writer has for it.
void copy_tensor(const SafetensorsFile& file, const StoredTensor& tensor, SafetensorsWriter& writer,
                 const std::string& name) {
  auto bytes = make_vector<std::byte>(tensor.bytes);
  file.read_bytes(tensor, 0, bytes);
  writer.append(name, bytes.data(), *tensor.dtype(), tensor.elems());
}

DType factor_dtype(const SafetensorsFile& file, const StoredTensor& tensor) {
  const std::optional<DType> dtype = tensor.dtype();
  if (!dtype || (*dtype != DType::kF32 && *dtype != DType::kBF16 && *dtype != DType::kF16))
    throw input_error(file.path().string(), "expected {} in F32, BF16 or F16, got {}; save it in one of them",
                      tensor.name, tensor.dtype_name);
  return *dtype;
}

// The numbers in an adapter's header.
struct AdapterNumbers {
  double r = 0, alpha = 0;
};

// Returns the numbers in the header of an adapter in diffusers' layout; alpha is that of a plain LoRA.
AdapterNumbers numbers_of(const SafetensorsFile& file, int64_t rank) {
  const auto r = static_cast<double>(rank);
  const std::string said = diffusers_lora_config(file);
  if (said.empty()) return {r, r};
  const JsonDocument document(said, fmt::format("{}: {}", file.path().string(), kMetadata));
  const JsonField config = document.root();
  for (const char* key : {"use_dora", "alpha_pattern", "rank_pattern"}) {
    if (config[key].is_in_use()) throw config[key].bad("none, as such a file cannot say it", "export another adapter");
  }
  const double alpha = config["lora_alpha"].real_or(r, 0, 1e9);
  return {r, config["use_rslora"].boolean_or(false) ? alpha * std::sqrt(r) : alpha};
}

// Returns the common rank of the factors, and throws where they have none.
int64_t common_rank(const SafetensorsFile& file, const std::map<std::string, const StoredTensor*>& first_factors) {
  int64_t rank = 0;
  for (const auto& [layer, tensor] : first_factors) {
    const int64_t own = tensor->shape.empty() ? 0 : tensor->shape[0];
    if (rank == 0) rank = own;
    if (own != rank || own < 1)
      throw input_error(file.path().string(),
                        "expected one rank in all layers, got {} in {} and {} before; give an "
                        "adapter with one",
                        own, layer, rank);
  }
  if (rank == 0)
    throw input_error(file.path().string(),
                      "expected factors of a LoRA, got none; give an adapter of a Wan transformer");
  return rank;
}

InputError no_factor(const fs::path& file, std::string_view name) {
  return input_error(
      file.string(),
      "expected factors of linear layers in the blocks of a Wan transformer, got {}; give another adapter",
      quote(name));
}

float read_alpha(const SafetensorsFile& file, const StoredTensor& tensor) {
  float alpha = 0;
  if (tensor.elems() != 1)
    throw input_error(file.path().string(), "expected one number as {}, got {}; give another file", tensor.name,
                      tensor.shape_text());
  (void)factor_dtype(file, tensor);
  file.read(tensor, 0, 1, DType::kF32, &alpha);
  return alpha;
}

// Returns the alpha of all layers, and throws where they have none in common. A layer without one, in a file with
// others, has its rank: it is scaled by 1.
double common_alpha(const SafetensorsFile& file, const std::map<std::string, const StoredTensor*>& first_factors,
                    const std::map<std::string, float>& alphas, int64_t rank) {
  std::optional<double> alpha;
  for (const auto& [layer, tensor] : first_factors) {
    const auto found = alphas.find(layer);
    const double here = found == alphas.end() ? static_cast<double>(rank) : found->second;
    if (alpha && *alpha != here)
      throw input_error(file.path().string(),
                        "expected one alpha in all layers, got {} in {} and {} before; give an adapter with one", here,
                        layer, *alpha);
    alpha = here;
  }
  return alpha.value_or(static_cast<double>(rank));
}

// Returns the header for an adapter of a file that has none of ours.
std::map<std::string, std::string> metadata_for(const AdapterNumbers& numbers, const std::set<std::string>& layers) {
  nlohmann::ordered_json config;
  config["transformer.r"] = static_cast<int64_t>(numbers.r);
  const bool is_whole = numbers.alpha == std::floor(numbers.alpha);
  config["transformer.lora_alpha"] =
      is_whole ? nlohmann::ordered_json(static_cast<int64_t>(numbers.alpha)) : nlohmann::ordered_json(numbers.alpha);
  config["transformer.bias"] = "none";
  config["transformer.target_modules"] = layers;
  return {{"format", "pt"}, {kMetadata, json_text(config, 2)}};
}

}  // namespace

std::string foreign_factor_name(std::string_view name, AdapterNames names) {
  if (!name.starts_with(kOwnPrefix)) return {};
  std::string_view rest = name.substr(kOwnPrefix.size());
  const std::string_view block = take_block(rest, '.');
  for (const BlockLayer& layer : kBlockLayers) {
    if (block.empty() || !rest.starts_with(layer.own)) continue;
    for (const FactorEnd& end : kEnds) {
      if (rest.substr(layer.own.size()) != end.own) continue;
      return names == AdapterNames::kComfyUi
                 ? fmt::format("{}{}.{}{}", kComfyPrefix, block, layer.original, end.comfy)
                 : fmt::format("{}{}_{}{}", kKohyaPrefix, block, with_underscores(layer.original), end.kohya);
    }
  }
  return {};
}

std::string own_factor_name(std::string_view foreign) {
  const bool is_kohya = foreign.starts_with(kKohyaPrefix);
  if (!is_kohya && !foreign.starts_with(kComfyPrefix)) return {};
  std::string_view rest = foreign.substr(is_kohya ? kKohyaPrefix.size() : kComfyPrefix.size());
  const std::string_view block = take_block(rest, is_kohya ? '_' : '.');
  for (const BlockLayer& layer : kBlockLayers) {
    const std::string original = is_kohya ? with_underscores(layer.original) : std::string(layer.original);
    if (block.empty() || !rest.starts_with(original)) continue;
    for (const FactorEnd& end : kEnds) {
      const std::string_view own_end = rest.substr(original.size());
      if (own_end == end.comfy || own_end == end.kohya)
        return fmt::format("{}{}.{}{}", kOwnPrefix, block, layer.own, end.own);
    }
  }
  return {};
}

AdapterFileReport export_video_adapter(const fs::path& folder, AdapterNames names, const fs::path& file) {
  if (layout_of_adapter(folder) != Layout::kDiffusers)
    throw input_error(folder.string(),
                      "expected an adapter of a video transformer ({}), got another; --gguf and --lora-gguf are for "
                      "language models",
                      kAdapterFile);
  const SafetensorsFile source(folder / kAdapterFile);
  const std::string component = adapter_component(folder);
  std::vector<TensorSpec> specs;
  std::map<std::string, std::string> foreign;  // name in the folder -> name in the file
  std::map<std::string, const StoredTensor*> first_factors;
  std::vector<std::string> alphas;
  for (const StoredTensor& tensor : source.tensors()) {
    const std::string_view own =
        std::string_view(tensor.name).substr(std::min(tensor.name.size(), component.size() + 1));
    const std::string name = foreign_factor_name(own, names);
    if (name.empty()) throw no_factor(source.path(), tensor.name);
    specs.push_back({name, factor_dtype(source, tensor), tensor.shape});
    foreign[tensor.name] = name;
    if (!own.ends_with(kEnds[0].own)) continue;
    first_factors[tensor.name] = &tensor;
    alphas.push_back(
        foreign_factor_name(fmt::format("{}{}", own.substr(0, own.size() - kEnds[0].own.size()), kAlpha), names));
  }
  const AdapterNumbers numbers = numbers_of(source, common_rank(source, first_factors));
  for (const std::string& alpha : alphas) specs.push_back({alpha, DType::kF32, {}});
  AdapterFileReport report{.layers = std::ssize(alphas)};
  SafetensorsWriter writer(file, specs, source.metadata());
  for (const StoredTensor& tensor : source.tensors()) {
    copy_tensor(source, tensor, writer, foreign[tensor.name]);
    report.bytes += tensor.bytes;
  }
  const auto value = static_cast<float>(numbers.alpha);
  for (const std::string& alpha : alphas) writer.append(alpha, &value, DType::kF32, 1);
  writer.commit();
  return report;
}

bool is_adapter_file(const fs::path& file) { return file.extension() == ".safetensors"; }

AdapterFileReport import_video_adapter(const fs::path& file, const fs::path& folder) {
  constexpr std::string_view kCommand = "import";
  check_replaceable("--out", folder, kCommand);
  const SafetensorsFile source(file);
  std::map<std::string, const StoredTensor*> first_factors;
  std::map<std::string, int> factors;  // of each layer, and its alpha counts none
  std::set<std::string> layers;
  std::map<std::string, float> alphas;
  std::vector<const StoredTensor*> kept;
  for (const StoredTensor& tensor : source.tensors()) {
    const std::string own = own_factor_name(tensor.name);
    if (own.empty()) throw no_factor(source.path(), tensor.name);
    if (own.ends_with(kAlpha)) {
      const std::string layer = own.substr(0, own.size() - kAlpha.size());
      alphas[layer] = read_alpha(source, tensor);
      factors.try_emplace(layer);
      continue;
    }
    (void)factor_dtype(source, tensor);
    kept.push_back(&tensor);
    const std::string layer = own.substr(0, own.rfind(".lora_"));
    ++factors[layer];
    layers.insert(layer.substr(layer.find('.', kOwnPrefix.size()) + 1));
    if (own.ends_with(kEnds[0].own)) first_factors[layer] = &tensor;
  }
  for (const auto& [layer, count] : factors) {
    if (count != 2)
      throw input_error(file.string(), "expected two factors of {}, got {}; give a whole file", layer, count);
  }
  const int64_t rank = common_rank(source, first_factors);
  const bool is_ours = source.metadata().contains(kMetadata);
  const AdapterNumbers numbers{static_cast<double>(rank), common_alpha(source, first_factors, alphas, rank)};
  const auto metadata = is_ours ? source.metadata() : metadata_for(numbers, layers);
  std::string component = "transformer";
  if (is_ours) {
    const JsonDocument said(metadata.at(kMetadata), file.string());
    for (const auto& [key, value] : said.root().members()) {
      if (key.starts_with("transformer_2.")) component = "transformer_2";
    }
  }
  std::vector<TensorSpec> specs;
  for (const StoredTensor* tensor : kept)
    specs.push_back(
        {fmt::format("{}.{}", component, own_factor_name(tensor->name)), factor_dtype(source, *tensor), tensor->shape});
  AtomicFolder out(without_trailing_slash(folder), kCommand);
  AdapterFileReport report{.layers = std::ssize(factors)};
  SafetensorsWriter writer(out.path() / kAdapterFile, specs, metadata);
  for (size_t i = 0; i < kept.size(); ++i) {
    copy_tensor(source, *kept[i], writer, specs[i].name);
    report.bytes += kept[i]->bytes;
  }
  writer.commit();
  out.publish();
  return report;
}

}  // namespace spillway
