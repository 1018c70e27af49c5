#include "model/layout.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "io/file.h"
#include "model/adapter_targets.h"
#include "model/lora.h"
#include "model/model.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxPartBytes = 4 * kMiB;
constexpr const char* kMetadataKey = "lora_adapter_metadata";

bool has_weights(const fs::path& folder, std::string_view stem) {
  std::error_code error;
  return fs::exists(folder / fmt::format("{}.safetensors", stem), error) ||
         fs::exists(folder / fmt::format("{}.safetensors.index.json", stem), error);
}

// "transformer" of "transformer.blocks.0.attn1.to_q.lora_A.weight"; empty for other names.
std::string_view component_of(std::string_view name) {
  const std::string_view first = name.substr(0, name.find('.'));
  return first == "transformer" || first == "transformer_2" ? first : "";
}

std::string peft_name(std::string_view name) {
  const std::string_view component = component_of(name);
  if (component.empty()) return std::string(name);
  return fmt::format("{}{}", kAdapterPrefix, name.substr(component.size() + 1));
}

}  // namespace

Layout layout_of(const Model& model) { return model.video() ? Layout::kDiffusers : Layout::kTransformers; }

std::string_view weights_stem(Layout layout) {
  return layout == Layout::kDiffusers ? "diffusion_pytorch_model" : "model";
}

std::string_view adapter_stem(Layout layout) {
  return layout == Layout::kDiffusers ? "pytorch_lora_weights" : "adapter_model";
}

Layout layout_of_weights(const fs::path& folder) {
  const bool is_diffusers = !has_weights(folder, weights_stem(Layout::kTransformers)) &&
                            has_weights(folder, weights_stem(Layout::kDiffusers));
  return is_diffusers ? Layout::kDiffusers : Layout::kTransformers;
}

Layout layout_of_adapter(const fs::path& folder) {
  const bool is_diffusers = !has_weights(folder, adapter_stem(Layout::kTransformers)) &&
                            has_weights(folder, adapter_stem(Layout::kDiffusers));
  return is_diffusers ? Layout::kDiffusers : Layout::kTransformers;
}

bool has_weights(const fs::path& folder) { return has_weights(folder, weights_stem(layout_of_weights(folder))); }

bool has_adapter_weights(const fs::path& folder) {
  return has_weights(folder, adapter_stem(layout_of_adapter(folder)));
}

SafetensorsFolder open_weights(const fs::path& folder) {
  return SafetensorsFolder(folder, weights_stem(layout_of_weights(folder)));
}

SafetensorsFolder open_adapter(const fs::path& folder) {
  const Layout layout = layout_of_adapter(folder);
  SafetensorsFolder files(folder, adapter_stem(layout));
  if (layout == Layout::kTransformers) return files;
  std::string_view first;
  for (const auto& [name, entry] : files.tensors()) {
    const std::string_view component = component_of(name);
    if (first.empty()) first = component;
    if (component.empty() || component != first) {
      throw input_error(entry.file->path().string(),
                        "expected tensors named transformer.* or transformer_2.*, those of one transformer, got {}; "
                        "give a file of one, as diffusers' save_lora_weights writes it",
                        quote(name));
    }
  }
  files.rename(peft_name);
  return files;
}

std::string adapter_component(const fs::path& folder) {
  const Layout layout = layout_of_adapter(folder);
  if (layout == Layout::kTransformers) return "";
  const SafetensorsFolder files(folder, adapter_stem(layout));
  return files.tensors().empty() ? "" : std::string(component_of(files.tensors().begin()->first));
}

std::string component_name(const fs::path& folder) {
  const fs::path path = folder.has_filename() ? folder : folder.parent_path();
  const std::string name = path.filename().string();
  return component_of(name).empty() ? "transformer" : name;
}

fs::path weights_folder(Layout layout, const fs::path& output, std::string_view component) {
  return layout == Layout::kDiffusers ? output / component : output;
}

FileTexts pipeline_parts(const fs::path& component_folder) {
  const fs::path pipeline = component_folder / "..";
  std::error_code error;
  FileTexts parts;
  for (const char* file : {"vae/config.json", "scheduler/scheduler_config.json"}) {
    if (fs::is_regular_file(pipeline / file, error)) parts[file] = read_file(pipeline / file, kMaxPartBytes);
  }
  return parts;
}

void write_pipeline_parts(const FileTexts& parts, const fs::path& output) {
  std::error_code error;
  for (const auto& [file, text] : parts) {
    // The output may be the pipeline itself.
    if (fs::is_regular_file(output / file, error) && read_file(output / file, kMaxPartBytes) == text) continue;
    create_folders((output / file).parent_path());
    write_file(output / file, text);
  }
}

std::string diffusers_lora_name(std::string_view name, std::string_view component) {
  SPILLWAY_CHECK(name.starts_with(kAdapterPrefix), "the factor {}", name);
  return fmt::format("{}.{}", component, name.substr(kAdapterPrefix.size()));
}

std::map<std::string, std::string> diffusers_lora_metadata(const ParameterTable& parameters, const LoraOptions& lora,
                                                           std::string_view component) {
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  const auto set = [&](std::string_view key, nlohmann::ordered_json value) {
    config[fmt::format("{}.{}", component, key)] = std::move(value);
  };
  const auto number = [](double value) {
    return value == std::floor(value) ? nlohmann::ordered_json(static_cast<int64_t>(value))
                                      : nlohmann::ordered_json(value);
  };
  const std::vector<std::string> targets = lora_targets(parameters, lora, "lora_target_modules");
  set("r", lora.r);
  set("lora_alpha", number(lora.alpha));
  set("lora_dropout", lora.dropout);
  set("use_rslora", lora.rslora);
  if (lora.dora) set("use_dora", true);
  set("bias", "none");
  set("target_modules", targets);
  if (!lora.ranks.empty()) set("rank_pattern", lora.ranks);
  if (!lora.alphas.empty()) set("alpha_pattern", lora.alphas);
  return {{"format", "pt"}, {kMetadataKey, json_text(config, 2)}};
}

std::string diffusers_lora_config(const SafetensorsFile& file) {
  const auto found = file.metadata().find(kMetadataKey);
  if (found == file.metadata().end()) return "";
  const auto said =
      parse_json<nlohmann::ordered_json>(found->second, fmt::format("{}: {}", file.path().string(), kMetadataKey));
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  if (!said.is_object()) return "{}";
  for (const auto& [key, value] : said.items()) {
    const std::string_view component = component_of(key);
    config[component.empty() ? key : key.substr(component.size() + 1)] = value;
  }
  return json_text(config, 2);
}

}  // namespace spillway
