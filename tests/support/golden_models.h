// The tiny models of tests/golden/models, as tools/make_model_goldens.py makes them: each with an adapter in `adapter`.
#pragma once

#include <filesystem>

#include "tests/support/source_folder.h"

namespace spillway::testing {

inline const std::filesystem::path kGoldenModels = source_folder() / "tests/golden/models";
// Their folders there, one of each architecture and of what its configs may say.
inline constexpr const char* kTinyModels[] = {"llama2",
                                              "llama32",
                                              "llama_linear",
                                              "llama_bias",
                                              "mistral",
                                              "qwen2",
                                              "qwen2_tied",
                                              "qwen3",
                                              "qwen3_tied",
                                              "gemma2",
                                              "gemma3",
                                              "phi3",
                                              "qwen3_yarn",
                                              "phi3_longrope",
                                              "glm4",
                                              "ministral3",
                                              "granite",
                                              "smollm3",
                                              "olmo2",
                                              "arcee",
                                              "seed_oss",
                                              "gemma",
                                              "olmo3",
                                              "cohere",
                                              "cohere2",
                                              "qwen3_moe",
                                              "mixtral",
                                              "olmoe",
                                              "qwen2_moe",
                                              "glm4_moe",
                                              "gpt_oss",
                                              "deepseek_v2",
                                              "deepseek_v3",
                                              "glm4_moe_lite",
                                              "gemma4",
                                              "gemma4_unified",
                                              "gemma4_moe",
                                              "granitemoe",
                                              "minimax_m2",
                                              "lfm2",
                                              "lfm2_moe",
                                              "qwen3_next",
                                              "qwen3_5",
                                              "qwen3_5_moe",
                                              "granitemoehybrid",
                                              "granitemoehybrid_moe",
                                              "gemma4_e2b",
                                              "afmoe",
                                              "apertus",
                                              "nemotron",
                                              "hunyuan_v1_dense",
                                              "mistral4",
                                              "nemotron_h",
                                              "nemotron_h_moe",
                                              "falcon_h1",
                                              "falcon_h1_tied",
                                              "bamba",
                                              "jamba"};

}  // namespace spillway::testing
