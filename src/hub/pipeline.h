// Pipelines of diffusers: repositories of several models, each in a folder of its own. Only transformers are read.
#pragma once

namespace spillway::hub {

inline constexpr const char* kPipelineIndex = "model_index.json";  // names the parts, at the top
inline constexpr const char* kTransformers[] = {"transformer", "transformer_2"};
// The name of a part's weights, if they are one file, and, followed by .index.json, that of the index of several.
inline constexpr const char* kPartWeights = "diffusion_pytorch_model.safetensors";

}  // namespace spillway::hub
