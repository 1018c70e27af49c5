// Writes safetensors files and sharded folders of them. The header is fixed first, so that values stream through
// without being held; a file appears under its name only when every tensor is complete (io/file.h).
//
// Errors: MachineError if the disk fails. For use by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/checksum.h"
#include "io/file.h"
#include "tensor/dtype.h"

namespace spillway {

struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // outermost first; empty for a scalar
  // The files' name for a dtype that is none of ours, for a tensor that is copied byte by byte, and its number of
  // bytes: to the writer they are elements of kU8.
  std::string foreign_dtype{};
  int64_t foreign_bytes = 0;

  [[nodiscard]] int64_t elems() const;
  [[nodiscard]] int64_t bytes() const { return elems() * size_of(dtype); }
};

// Returns the usual metadata, since transformers reads only files that name a framework.
[[nodiscard]] inline std::map<std::string, std::string> default_metadata() { return {{"format", "pt"}}; }

//   SafetensorsWriter writer(path, {{"w", DType::kBF16, {2, 3}}});
//   writer.append("w", first_row, DType::kF32, 3);
//   writer.append("w", second_row, DType::kF32, 3);
//   writer.commit();
class SafetensorsWriter {
 public:
  // REQUIRES: names are distinct. Tensors lie in the file with the widest dtypes first, so that each is aligned to its
  // elements, and in the given order within a dtype's width.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                    const std::map<std::string, std::string>& metadata = default_metadata());

  // Adds the next `elems` values of a tensor, converted from `dtype` to its own. Tensors may come in any order and in
  // any number of pieces. Throws InputError for a finite value that f16 does not hold. REQUIRES: dtypes are equal or
  // both floating; the tensor has room.
  void append(std::string_view name, const void* values, DType dtype, int64_t elems);
  // These do what AtomicFile's do. REQUIRES: every tensor is complete.
  void sync() const;
  void commit();
  // Returns the checksum of each tensor's bytes in the file, by its name (io/checksum.h). REQUIRES: every tensor is
  // complete.
  [[nodiscard]] std::map<std::string, std::string> checksums() const;

 private:
  struct Slot {
    TensorSpec spec;
    int64_t offset = 0, done_elems = 0;
    Checksum sum{};
  };
  void write(Slot& slot, std::span<const std::byte> bytes);

  AtomicFile file_;
  std::map<std::string, Slot, std::less<>> slots_;
  std::vector<std::byte> scratch_;
};

// Writes a model folder's weights: one `STEM.safetensors`, or shards of at most `max_shard_bytes` (a larger tensor has
// a shard to itself) with `STEM.safetensors.index.json`.
class SafetensorsFolderWriter {
 public:
  // The default of transformers 5, which shards at 50 GB.
  static constexpr int64_t kDefaultShardBytes = 50'000'000'000;

  SafetensorsFolderWriter(const std::filesystem::path& folder, const std::vector<TensorSpec>& tensors,
                          int64_t max_shard_bytes = kDefaultShardBytes, std::string_view stem = "model");

  void append(std::string_view name, const void* values, DType dtype, int64_t elems);
  // Gives all files their names, the index last, and removes weights of the same stem that an earlier save left. A
  // crash in between leaves the older weights, the new ones, or shards without an index, which are never read: never a
  // mixture.
  void commit();
  // Returns the checksums of the tensors of all files.
  [[nodiscard]] std::map<std::string, std::string> checksums() const;

 private:
  void remove_older_files() const;

  std::filesystem::path folder_;
  std::string stem_, index_;
  std::vector<std::string> file_names_;
  std::vector<std::unique_ptr<SafetensorsWriter>> shards_;
  std::map<std::string, size_t, std::less<>> shard_of_;
};

}  // namespace spillway
