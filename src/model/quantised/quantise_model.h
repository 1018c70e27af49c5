// Quantises the linear layers of a model's folder, in the format of transformers and bitsandbytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "io/safetensors_writer.h"
#include "tensor/quantised_format.h"

namespace spillway {

struct QuantiseOptions {
  QuantisedFormat format{};  // whose weight_dtype is what each weight has, or `dtype`
  // The dtype to which all weights of the model are converted before some are quantised; empty: as in the files.
  std::optional<DType> dtype;
  int64_t max_shard_bytes = SafetensorsFolderWriter::kDefaultShardBytes;
  // Called after every piece with the number of bytes of the model that have been read.
  std::function<void(int64_t done, int64_t total)> progress = nullptr;
};

struct QuantiseReport {
  int64_t quantised = 0;                // weights
  int64_t bytes_before = 0, bytes = 0;  // of all tensors
};

// Writes `out`: the weights of linear layers as codes, all other weights unchanged, the model's other files, and
// config.json with `quantization_config`. Head, embedding, norms and biases are not quantised. One piece of a weight is
// in memory at a time, with its scales. Throws InputError, before anything is written, for a model that is quantised
// already or of video, for weights that cannot be quantised, and if `out` breaks the rules of io/output_folder.h.
QuantiseReport quantise_model(const std::filesystem::path& model, const std::filesystem::path& out,
                              const QuantiseOptions& options = {});

}  // namespace spillway
