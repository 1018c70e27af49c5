// Makes a Hugging Face folder from a GGUF file: config.json, generation_config.json, weights as safetensors,
// tokenizer.json and tokenizer_config.json. The inverse of llama.cpp's converter, so that transformers and Spillway can
// load it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "io/safetensors_writer.h"
#include "tensor/dtype.h"

namespace spillway {

struct ImportOptions {
  // bf16, f16 or f32; none: the type that most of the file's matrices have, by elements, or bf16 where most are
  // quantised, whose values are rounded to it. f32 is exact.
  std::optional<DType> dtype;
  int64_t max_shard_bytes = SafetensorsFolderWriter::kDefaultShardBytes;
  std::function<void(int64_t done, int64_t total)> progress = nullptr;  // bytes of the result; may throw to end it
};

struct ImportReport {
  std::string architecture;  // as GGUF names it
  DType dtype = DType::kBF16;
  int64_t tensors = 0, parameters = 0, bytes = 0;
};

// Writes `folder` by the rules of io/output_folder.h; it appears when it is complete. Holds one block of weights at a
// time in memory. Throws InputError for a file that is corrupt or of an unsupported architecture.
ImportReport import_gguf(const std::filesystem::path& file, const std::filesystem::path& folder,
                         const ImportOptions& options = {});

}  // namespace spillway
