// Reads GGUF files, versions 2 and 3, little-endian: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
// Opening a file parses and checks all of its metadata and tensor descriptions: counts, lengths and offsets against the
// file's size before anything is allocated for them. Values are read on demand.
//
// Errors: InputError naming the file and the key or tensor. Threads: reading is const and safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/file.h"

namespace spillway {

// The encodings of tensors, with the numbers of the format.
enum class GgufType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4Nl = 20,
  kIQ4Xs = 23,
  kBF16 = 30,
  kMXFP4 = 39,
};

// The layout of an encoding: `block_elems` consecutive values in `block_bytes`.
struct GgufLayout {
  std::string_view name;  // "Q4_1"
  int64_t block_elems = 0, block_bytes = 0;
};
[[nodiscard]] GgufLayout layout_of(GgufType type);

// The value of a key. Integers and booleans of every width are int64_t (uint64 beyond its range is refused), both float
// widths are double. Lists of lists are refused.
using GgufValue = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>>;

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::kF32;
  std::vector<int64_t> shape;  // outermost first, as everywhere in Spillway; GGUF itself stores the innermost first
  int64_t offset = 0;          // of the first byte, from the start of the file
  int64_t bytes = 0;

  [[nodiscard]] int64_t elems() const;
  // Returns the elements of the innermost axis, a multiple of the encoding's block.
  [[nodiscard]] int64_t row_elems() const { return shape.empty() ? 1 : shape.back(); }
};

class GgufFile {
 public:
  explicit GgufFile(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  [[nodiscard]] const std::map<std::string, GgufTensor, std::less<>>& tensors() const { return tensors_; }
  [[nodiscard]] const GgufTensor* find_tensor(std::string_view name) const;

  [[nodiscard]] const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  // Returns the value of a key, or nullptr if it is absent. Throws InputError for a value of another type.
  template <typename T>
  [[nodiscard]] const T* find(std::string_view key) const {
    const auto found = metadata_.find(key);
    if (found == metadata_.end()) return nullptr;
    const T* value = std::get_if<T>(&found->second);
    if (value == nullptr) fail_type(key);
    return value;
  }
  // Does the same, but throws InputError if the key is absent.
  template <typename T>
  [[nodiscard]] const T& get(std::string_view key) const {
    const T* value = find<T>(key);
    if (value == nullptr) fail_absent(key);
    return *value;
  }

  // Reads rows of the flattened tensor [rows, row_elems()] as f32 into `into`, dequantised if needed. Throws InputError
  // for values that are not finite. REQUIRES: the range lies inside the tensor.
  void read_rows(const GgufTensor& tensor, int64_t first_row, int64_t rows, float* into) const;

 private:
  [[noreturn]] void fail_type(std::string_view key) const;
  [[noreturn]] void fail_absent(std::string_view key) const;

  ReadFile file_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::map<std::string, GgufTensor, std::less<>> tensors_;
};

}  // namespace spillway
