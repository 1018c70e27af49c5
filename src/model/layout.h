// The layouts of folders of models and adapters: those of transformers and PEFT, and those of diffusers.
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

// Returns the layout in which a model and its adapters are written.
[[nodiscard]] Layout layout_of(const Model& model);
// Return the names of the weight files without ".safetensors", and without the numbers of shards.
[[nodiscard]] std::string_view weights_stem(Layout layout);
[[nodiscard]] std::string_view adapter_stem(Layout layout);
// Return the layout of the weights in a folder; kTransformers if there are none.
[[nodiscard]] Layout layout_of_weights(const std::filesystem::path& folder);
[[nodiscard]] Layout layout_of_adapter(const std::filesystem::path& folder);

// Return true if a folder has the weights of a model, or of an adapter.
[[nodiscard]] bool has_weights(const std::filesystem::path& folder);
[[nodiscard]] bool has_adapter_weights(const std::filesystem::path& folder);
// Opens the weights of a model's folder in any layout. Throws InputError as SafetensorsFolder does.
[[nodiscard]] SafetensorsFolder open_weights(const std::filesystem::path& folder);
// Opens the weights of an adapter's folder, under PEFT's names.
[[nodiscard]] SafetensorsFolder open_adapter(const std::filesystem::path& folder);
// Returns the transformer of a pipeline that an adapter in diffusers' layout is for, "transformer_2"; empty in PEFT's.
[[nodiscard]] std::string adapter_component(const std::filesystem::path& folder);

// Returns the name that a transformer's folder has in a diffusers pipeline: its own name, or "transformer".
[[nodiscard]] std::string component_name(const std::filesystem::path& folder);
// Returns the folder for the weights of a model that is written to `output` as a component of a pipeline.
[[nodiscard]] std::filesystem::path weights_folder(Layout layout, const std::filesystem::path& output,
                                                   std::string_view component);
// Maps the names of small files, which may include folders, to their texts.
using FileTexts = std::map<std::string, std::string>;
// Returns the files that describe latents and noise levels of the pipeline that `component_folder` is part of,
// vae/config.json and scheduler/, as far as they exist. A folder with them can be trained further.
[[nodiscard]] FileTexts pipeline_parts(const std::filesystem::path& component_folder);
void write_pipeline_parts(const FileTexts& parts, const std::filesystem::path& output);

// Returns diffusers' name for a LoRA tensor: "base_model.model.blocks.0.attn1.to_q.lora_A.weight" of PEFT is
// "COMPONENT.blocks.0.attn1.to_q.lora_A.weight".
[[nodiscard]] std::string diffusers_lora_name(std::string_view peft_name, std::string_view component);
// Returns the metadata of such a file. Without `lora_adapter_metadata` diffusers takes alpha = r; each key in it is an
// argument of PEFT's LoraConfig.
[[nodiscard]] std::map<std::string, std::string> diffusers_lora_metadata(const ParameterTable& parameters,
                                                                         const LoraOptions& lora,
                                                                         std::string_view component);
// Returns the options in the header of such a file, as the text of an adapter_config.json; empty if it has none.
[[nodiscard]] std::string diffusers_lora_config(const SafetensorsFile& file);

}  // namespace spillway
