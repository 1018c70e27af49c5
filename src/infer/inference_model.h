// A model folder, perhaps with an adapter, that is run and not trained.
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

  // Fills the parameters of a graph that was built with `options`.
  void load(const ParameterTable& parameters, ValueStore& store) const;
};

// Computes in the dtype of the files, or as `config` says, which also says how the base is quantised. `adapter` is a
// PEFT folder, or empty. Reads no weights. Throws InputError for folders that do not fit together, and for a model that
// predicts no tokens.
[[nodiscard]] InferenceModel read_inference_model(const std::filesystem::path& folder,
                                                  const std::filesystem::path& adapter,
                                                  const config::Config* config = nullptr);

// The dtype that a model computes in where nothing says another one: that of its files, or of its config where there
// are none. Reads headers.
[[nodiscard]] DType files_dtype(const Model& model, const std::filesystem::path& folder);

// The same of a video transformer; `adapter` is a folder of diffusers. Throws InputError for a model that reads no
// clips.
[[nodiscard]] InferenceModel read_video_model(const std::filesystem::path& folder,
                                              const std::filesystem::path& adapter);

}  // namespace spillway::infer
