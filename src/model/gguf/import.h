// Makes a Hugging Face folder from a GGUF file: config.json, generation_config.json, weights as safetensors,
// tokenizer.json and tokenizer_config.json. The inverse of llama.cpp's converter, so that transformers and Spillway can
// load it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "io/safetensors_writer.h"
#include "tensor/dtype.h"

namespace spillway {

struct ImportOptions {
  // kBF16 is the usual dtype for training and takes half the size; values of 4-bit blocks are rounded to it. kF32 is
  // exact.
  DType dtype = DType::kBF16;
  int64_t max_shard_bytes = SafetensorsFolderWriter::kDefaultShardBytes;
  std::function<void(int64_t done, int64_t total)> progress = nullptr;  // bytes of the result; may throw to end it
};

struct ImportReport {
  std::string architecture;  // as GGUF names it
  int64_t tensors = 0, parameters = 0, bytes = 0;
};

// Writes `folder` by the rules of io/output_folder.h; it appears when it is complete. Holds one block of weights at a
// time in memory. Throws InputError for a file that is corrupt or of an unsupported architecture.
ImportReport import_gguf(const std::filesystem::path& file, const std::filesystem::path& folder,
                         const ImportOptions& options = {});

}  // namespace spillway
