// Reads safetensors files, https://huggingface.co/docs/safetensors (format of the header), and folders of them in the
// layout of the Hugging Face hub.
//
// A file is checked completely when it is opened: the header's length, its JSON, names, dtypes, shapes and byte ranges,
// which must cover the rest of the file without gap or overlap. Afterwards every read is within bounds. Only the header
// is held in memory. Values are read on demand, converted on the way, in bounded scratch; NaN and infinity are refused.
//
// Errors: InputError that names the file and the tensor. Threads: reading is const and safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "tensor/dtype.h"

namespace spillway {

// A tensor in a file.
struct StoredTensor {
  std::string name;
  std::string dtype_name;      // as in the file: "BF16", "F8_E4M3"
  std::vector<int64_t> shape;  // outermost first; empty for a scalar
  int64_t offset = 0;          // of the first byte, from the start of the file
  int64_t bytes = 0;

  // Returns nullopt for dtypes that Spillway does not compute with.
  [[nodiscard]] std::optional<DType> dtype() const;
  [[nodiscard]] int64_t elems() const;
  // Returns text such as "[2048, 576]".
  [[nodiscard]] std::string shape_text() const;
};

// The result of parsing and checking a header, which stands after the 8 bytes of its length. `data_bytes`: the bytes
// that follow it in the file. `where` names the file in errors. Tensors are in the order of their offsets, which count
// from the file's start.
struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view header, int64_t data_bytes,
                                                         std::string_view where);

// One safetensors file.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const { return header_.tensors; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // Reads `elems` elements from `first_elem` on. A floating tensor is converted to `dtype` (kF32, kBF16 or kF16) and
  // must be finite before and after; an integer tensor is read unchanged, and `dtype` must be its own.
  // REQUIRES: `tensor` is of this file, the range lies inside it, `into` holds elems values of `dtype`.
  void read(const StoredTensor& tensor, int64_t first_elem, int64_t elems, DType dtype, void* into) const;
  // Reads bytes unchanged, whatever the dtype. REQUIRES: the range lies inside the tensor.
  void read_bytes(const StoredTensor& tensor, int64_t first_byte, std::span<std::byte> into) const;

 private:
  ReadFile file_;
  SafetensorsHeader header_;
};

// The weights of a model folder: `STEM.safetensors`, or the shards that `STEM.safetensors.index.json` names.
class SafetensorsFolder {
 public:
  explicit SafetensorsFolder(const std::filesystem::path& folder, std::string_view stem = "model");

  [[nodiscard]] const std::filesystem::path& path() const { return folder_; }
  // A tensor and the file that holds it; tensors() has all of them by name.
  struct Entry {
    const StoredTensor* tensor = nullptr;
    const SafetensorsFile* file = nullptr;
  };
  [[nodiscard]] const std::map<std::string, Entry, std::less<>>& tensors() const { return tensors_; }
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;
  // Renames each tensor to `name_of` its name. REQUIRES: names stay distinct.
  void rename(const std::function<std::string(std::string_view)>& name_of);
  // Returns the file of a tensor. Throws InputError for a name that is missing.
  [[nodiscard]] const std::filesystem::path& file_of(std::string_view name) const { return entry(name).file->path(); }

  // Reads as SafetensorsFile::read, by name. Throws InputError for a name that is missing.
  void read(std::string_view name, int64_t first_elem, int64_t elems, DType dtype, void* into) const;
  // Reads rows [first_row, first_row + rows) of the outermost axis.
  void read_rows(std::string_view name, int64_t first_row, int64_t rows, DType dtype, void* into) const;
  // Reads the whole tensor.
  void read(std::string_view name, DType dtype, void* into) const;
  // Reads bytes unchanged, from `first_byte` of the tensor on.
  void read_bytes(std::string_view name, int64_t first_byte, std::span<std::byte> into) const;

 private:
  void open_shards(const std::filesystem::path& index);
  [[nodiscard]] const Entry& entry(std::string_view name) const;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Entry, std::less<>> tensors_;
};

}  // namespace spillway
