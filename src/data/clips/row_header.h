// The header of a row in any file format, and the check that it suits a model.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/clips/clip.h"

namespace spillway::data {

enum class StoredType { kF32, kF16, kBF16, kF64 };

// Parses "float32", "torch.bfloat16", ...; empty means float32. Returns nothing for other names.
[[nodiscard]] std::optional<StoredType> stored_type(std::string_view name);
[[nodiscard]] int64_t bytes_of(StoredType type);

// The tensors of a row.
enum RowTensor : size_t { kLatentsTensor, kTextTensor, kImageTensor, kFirstFrameTensor, kNoiseTensor, kRowTensors };

struct StoredValues {
  bool is_there = false;
  std::vector<int64_t> shape;
  StoredType type = StoredType::kF32;

  // REQUIRES: check_row() has passed.
  [[nodiscard]] int64_t elems() const;
  [[nodiscard]] int64_t bytes() const { return elems() * bytes_of(type); }
  bool operator==(const StoredValues&) const = default;
};

struct RowHeader {
  std::array<StoredValues, kRowTensors> tensors;
  std::optional<double> timestep;
  bool is_normalised = false;
  std::string caption;
};

// The names of the tensors in the row's file, for messages.
using TensorNames = std::array<std::string_view, kRowTensors>;

// Checks a row against the demands of a model: sizes above 0, at most 1 GiB of values per tensor; latents [C, T, H, W]
// or [C, H, W] that the model's patch divides and its positions reach, once T is cut to num_latent_t (0: not); text [L,
// D] or [1, L, D]; images if and only if the model reads them; noise of the latents' shape; a timestep from 0 to 1000.
// Throws InputError naming `where` and the tensor.
[[nodiscard]] ClipHeader check_row(const RowHeader& row, const ClipDemands& demands, const TensorNames& names,
                                   std::string_view where, int64_t num_latent_t);

// Returns the number of frames of the latents as stored. REQUIRES: check_row() has passed.
[[nodiscard]] int64_t stored_frames(const StoredValues& latents);

// Converts stored values to f32. Throws InputError naming `where` and the tensor for NaN and infinity, before and after
// the conversion. REQUIRES: `bytes` are whole values.
[[nodiscard]] std::vector<float> to_floats(std::span<const std::byte> bytes, StoredType type, std::string_view name,
                                           std::string_view where);
// Checks values that are f32 already in the same way.
void check_finite(std::span<const float> values, std::string_view name, std::string_view where);

}  // namespace spillway::data
