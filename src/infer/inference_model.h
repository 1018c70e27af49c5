// A model folder, optionally with an adapter, for inference.
#pragma once

#include <filesystem>
#include <optional>

#include "config/config.h"
#include "model/model.h"
#include "model/weights.h"

namespace spillway::infer {

struct InferenceModel {
  ModelPtr model;
  ModelOptions options;  // dtype and adapter, without dropout; no sizes
  SafetensorsFolder base;
  std::optional<SafetensorsFolder> factors;  // of the adapter

  // Lets the experts of a mixture come and go by themselves, a few at a time, where the model's weights may stay in its
  // files: so only those that some token has reached are read where few are.
  void stream_experts();
  // Fills the parameters of a graph that was built with `options`.
  void load(const ParameterTable& parameters, ValueStore& store) const;
};

// Opens the folders; reads no weights. The model computes in the dtype of its files, or as `config` says, which also
// says how the base is quantised. `adapter` is a PEFT folder, or empty. Throws InputError for folders that do not fit
// together, and for a model that predicts no tokens.
[[nodiscard]] InferenceModel read_inference_model(const std::filesystem::path& folder,
                                                  const std::filesystem::path& adapter,
                                                  const config::Config* config = nullptr);

// Returns the default compute dtype of a model: that of its files, or of its config if there are no files. Reads
// headers only.
[[nodiscard]] DType files_dtype(const Model& model, const std::filesystem::path& folder);

// Opens a video transformer; `adapter` is a diffusers folder, or empty. Throws InputError for a model that does not
// read clips.
[[nodiscard]] InferenceModel read_video_model(const std::filesystem::path& folder,
                                              const std::filesystem::path& adapter);

}  // namespace spillway::infer
