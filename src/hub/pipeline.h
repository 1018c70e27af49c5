// Pipelines of diffusers: repositories of several models, each in a folder of its own, of which transformers are read.
#pragma once

namespace spillway::hub {

inline constexpr const char* kPipelineIndex = "model_index.json";  // names the parts, at the top
inline constexpr const char* kTransformers[] = {"transformer", "transformer_2"};
// Of a part: the name of its weights, where they are one file, and, behind .index.json, of the index of several.
inline constexpr const char* kPartWeights = "diffusion_pytorch_model.safetensors";

}  // namespace spillway::hub
