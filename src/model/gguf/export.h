// Writes a GGUF file from a Hugging Face folder, for llama.cpp and programs built on it: tensors, metadata and
// tokenizer as llama.cpp's convert_hf_to_gguf writes them. The inverse of model/gguf/import.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "model/gguf/mixture.h"

namespace spillway {

struct ExportOptions {
  const GgufFileType* type = nullptr;
  std::function<void(int64_t done, int64_t total)> progress;  // bytes of the result; may be empty
};

struct ExportReport {
  std::string architecture;  // as GGUF names it
  int64_t tensors = 0, bytes = 0;
};

// Writes `file`, which must not exist and appears when it is complete, with one tensor in memory at a time. Merges an
// adapter. Throws InputError, before anything is written, for what GGUF or llama.cpp cannot express and for an adapter
// that does not fit.
ExportReport export_gguf(const std::filesystem::path& model, const std::optional<std::filesystem::path>& adapter,
                         const std::filesystem::path& file, const ExportOptions& options);

// Writes the adapter alone, as llama.cpp's convert_lora_to_gguf does. `model` is the folder that it was trained on, of
// which only the config is read.
ExportReport export_gguf_adapter(const std::filesystem::path& model, const std::filesystem::path& adapter,
                                 const std::filesystem::path& file, const ExportOptions& options);

}  // namespace spillway
