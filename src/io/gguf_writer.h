// Writes GGUF files, version 3, little-endian: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
//   GgufWriter writer(path, metadata, tensors);
//   for (const GgufTensorSpec& tensor : tensors) writer.append(values of it, in f32, in pieces of whole blocks);
//   writer.commit();
//
// Errors: MachineError if the disk fails; InputError for values that the encoding cannot hold. For use by one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/parallel.h"
#include "io/file.h"
#include "io/gguf.h"

namespace spillway {

// The value of a key to write; the widths are those of llama.cpp's converter.
using GgufEntry = std::variant<uint32_t, float, bool, std::string, std::vector<bool>, std::vector<int32_t>,
                               std::vector<float>, std::vector<std::string>>;
using GgufMetadata = std::vector<std::pair<std::string, GgufEntry>>;

struct GgufTensorSpec {
  std::string name;
  GgufType type = GgufType::kF32;
  std::vector<int64_t> shape;  // outermost first; the last axis is of whole blocks

  [[nodiscard]] int64_t elems() const;
  [[nodiscard]] int64_t bytes() const;
};

class GgufWriter {
 public:
  // Writes everything before the data. The file takes its name with commit(); otherwise nothing remains.
  GgufWriter(const std::filesystem::path& path, const GgufMetadata& metadata, std::vector<GgufTensorSpec> tensors);

  // Appends the next values of the tensors, in their order; the pool encodes them, if there is one. REQUIRES: whole
  // blocks, within one tensor.
  void append(std::span<const float> values, ThreadPool* pool = nullptr);
  // REQUIRES: every tensor is complete.
  void commit();
  // Returns the bytes of the whole file.
  [[nodiscard]] int64_t bytes() const { return end_; }

 private:
  void write(std::span<const std::byte> bytes);
  void align();

  AtomicFile file_;
  std::vector<GgufTensorSpec> tensors_;
  size_t current_ = 0;  // the tensor that append() goes on with
  int64_t done_ = 0;    // elements of it
  int64_t end_ = 0;
};

}  // namespace spillway
