// A second family of models, for tests: latents that see a text, and no causality. It has nothing in common with a
// decoder but what model/model.h asks of both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "model/model.h"
#include "objectives/objective.h"

namespace spillway::testing {

struct ToySizes {
  int64_t width = 8;        // of a latent
  int64_t text_tokens = 3;  // that every latent sees
  int64_t text_width = 6;   // of one of them
  int64_t blocks = 2;
};

// Reads the columns "latents" f32 [T, width], one row of the stream each, and "text" f32 [text_tokens, text_width];
// gives [T, width]. A block is
//   x += o(softmax(q(norm(x)) k(text)^T / sqrt(width)) v(text))
[[nodiscard]] ModelPtr make_toy(const ToySizes& sizes);

// The mean squared distance of what the model gives from the column "target" f32 [T, width].
[[nodiscard]] train::ObjectivePtr toy_objective();

// Random weights, named as the toy's parameters, in FOLDER/model.safetensors, and a config.json.
void write_toy_folder(const std::filesystem::path& folder, const ToySizes& sizes);

// The same model's loss in float64. `weights` in the order of the parameters; each row-major.
[[nodiscard]] double toy_loss(const ToySizes& sizes, const std::vector<std::vector<double>>& weights,
                              const std::vector<float>& latents, const std::vector<float>& text,
                              const std::vector<float>& target);

}  // namespace spillway::testing
