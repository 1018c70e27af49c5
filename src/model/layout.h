// How the folders of models and adapters are laid out: as transformers and PEFT keep them, or as diffusers does.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "io/safetensors.h"
#include "model/parameters.h"

namespace spillway {

struct LoraOptions;
class Model;

enum class Layout : uint8_t {
  kTransformers,  // model.safetensors; adapter_model.safetensors with adapter_config.json
  kDiffusers,     // diffusion_pytorch_model.safetensors in a pipeline's folder; pytorch_lora_weights.safetensors
};

// Of what is written of a model, and of its adapters.
[[nodiscard]] Layout layout_of(const Model& model);
// Names of files without ".safetensors", those of shards without their numbers.
[[nodiscard]] std::string_view weights_stem(Layout layout);
[[nodiscard]] std::string_view adapter_stem(Layout layout);
// Of the weights that are in a folder; the first where there are none.
[[nodiscard]] Layout layout_of_weights(const std::filesystem::path& folder);
[[nodiscard]] Layout layout_of_adapter(const std::filesystem::path& folder);

// Whether a model's folder has weights, and an adapter's.
[[nodiscard]] bool has_weights(const std::filesystem::path& folder);
[[nodiscard]] bool has_adapter_weights(const std::filesystem::path& folder);
// The weights of a model's folder, whichever layout it has. Throws InputError as SafetensorsFolder does.
[[nodiscard]] SafetensorsFolder open_weights(const std::filesystem::path& folder);
// Those of an adapter's, under the names that PEFT has for them.
[[nodiscard]] SafetensorsFolder open_adapter(const std::filesystem::path& folder);
// The transformer of a pipeline that an adapter in diffusers' layout is for, "transformer_2"; empty in PEFT's.
[[nodiscard]] std::string adapter_component(const std::filesystem::path& folder);

// The name that a transformer's folder has in a pipeline of diffusers: its own, or "transformer".
[[nodiscard]] std::string component_name(const std::filesystem::path& folder);
// Where the weights of a model go that is written to `output`, beside others of its pipeline.
[[nodiscard]] std::filesystem::path weights_folder(Layout layout, const std::filesystem::path& output,
                                                   std::string_view component);
// Small files by name, which may have folders before it.
using FileTexts = std::map<std::string, std::string>;
// What describes latents and noise levels of the pipeline that `component_folder` is part of, vae/config.json and
// scheduler/, where they are there: a folder with them can be trained on again.
[[nodiscard]] FileTexts pipeline_parts(const std::filesystem::path& component_folder);
void write_pipeline_parts(const FileTexts& parts, const std::filesystem::path& output);

// What PEFT calls "base_model.model.blocks.0.attn1.to_q.lora_A.weight" is "COMPONENT.blocks.0.attn1.to_q.lora_A.weight"
// in files of diffusers.
[[nodiscard]] std::string diffusers_lora_name(std::string_view peft_name, std::string_view component);
// The header of such a file. Without `lora_adapter_metadata` diffusers takes alpha = r; each key in it is an argument
// of PEFT's LoraConfig.
[[nodiscard]] std::map<std::string, std::string> diffusers_lora_metadata(const ParameterTable& parameters,
                                                                         const LoraOptions& lora,
                                                                         std::string_view component);
// What the header says, as the text of an adapter_config.json; empty where it says nothing.
[[nodiscard]] std::string diffusers_lora_config(const SafetensorsFile& file);

}  // namespace spillway
