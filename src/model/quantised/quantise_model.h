// A model's folder with the linear layers quantised, as transformers and bitsandbytes save one.
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
  // That all weights of the model are converted to, before some of them are quantised; empty: as the files have them.
  std::optional<DType> dtype;
  int64_t max_shard_bytes = SafetensorsFolderWriter::kDefaultShardBytes;
  // Told after every piece how many bytes of the model have been read.
  std::function<void(int64_t done, int64_t total)> progress = nullptr;
};

struct QuantiseReport {
  int64_t quantised = 0;                // weights
  int64_t bytes_before = 0, bytes = 0;  // of all tensors
};

// Writes `out`: the weights of linear layers as codes, the others as they are, the model's other files, and config.json
// with `quantization_config`. Head, embedding, norms and biases stay. One piece of a weight is in memory at a time, and
// its scales. Throws InputError for a model that is quantised already or of video, for weights that have no codes, and
// where `out` is not as io/output_folder.h wants it; then nothing is written.
QuantiseReport quantise_model(const std::filesystem::path& model, const std::filesystem::path& out,
                              const QuantiseOptions& options = {});

}  // namespace spillway
