#include "io/safetensors.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "base/sizes.h"
#include "base/text.h"
#include "io/convert.h"

namespace spillway {
namespace fs = std::filesystem;

namespace {

static_assert(std::endian::native == std::endian::little, "the file formats here are little-endian");

constexpr int64_t kMaxJsonBytes = 100'000'000;  // the limit of the reference implementation
constexpr int64_t kMaxIndexBytes = 32'000'000;  // some 300,000 tensors

SafetensorsHeader read_header(const ReadFile& file) {
  const std::string where = file.path().string();
  uint64_t length = 0;
  if (file.size() < 8) {
    throw input_error(where,
                      "expected a safetensors file, got {} bytes; download it again, or of a checkpoint take another",
                      file.size());
  }
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  const int64_t room = file.size() - 8;
  if (length > static_cast<uint64_t>(std::min(room, kMaxJsonBytes))) {
    throw input_error(
        where, "expected a header of at most {} bytes, got a length of {}; {}", std::min(room, kMaxJsonBytes), length,
        "this is not a safetensors file or it is cut short: download it again, or of a checkpoint take another");
  }
  std::string header(length, '\0');
  file.read(8, std::as_writable_bytes(std::span(header)));
  return parse_safetensors_header(header, room - static_cast<int64_t>(length), where);
}

[[noreturn]] void fail_nonfinite(const fs::path& path, const StoredTensor& tensor, int64_t index,
                                 std::string_view what) {
  throw input_error(path.string(),
                    "expected finite values in tensor {}, got {} at element {}; use weights without NaN and infinity",
                    quote(tensor.name), what, index);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const fs::path& path) : file_(path), header_(read_header(file_)) {}

void SafetensorsFile::read(const StoredTensor& tensor, int64_t first_elem, int64_t elems, DType dtype,
                           void* into) const {
  const auto stored = tensor.dtype();
  if (!stored || (*stored != dtype && !(is_floating(*stored) && is_floating(dtype)))) {
    throw input_error(path().string(), "expected tensor {} in a dtype that reads as {}, got {}; save it as BF16 or F32",
                      quote(tensor.name), name_of(dtype), tensor.dtype_name);
  }
  const int64_t width = size_of(*stored);
  SPILLWAY_CHECK(first_elem >= 0 && elems >= 0 && (first_elem + elems) * width <= tensor.bytes, "{} + {} of {}",
                 first_elem, elems, tensor.name);
  auto* target = static_cast<std::byte*>(into);
  const int64_t offset = tensor.offset + first_elem * width;
  if (*stored == dtype) {
    file_.read(offset, span_of(target, elems * width));
    if (!is_floating(dtype)) return;
    if (const int64_t bad = find_nonfinite(into, dtype, elems); bad >= 0) {
      fail_nonfinite(path(), tensor, first_elem + bad, "NaN or infinity");
    }
    return;
  }
  auto scratch = make_vector<std::byte>(std::min(kConvertedBytes, elems * width));
  for (int64_t done = 0; done < elems;) {
    const int64_t count = std::min(elems - done, kConvertedBytes / width);
    // The system sees pieces of tensors in any order, of which it reads little ahead by itself.
    constexpr int64_t kAhead = 16 * kConvertedBytes;
    if (done * width % kAhead == 0) file_.announce(offset + done * width, std::min(2 * kAhead, (elems - done) * width));
    file_.read(offset + done * width, first_of(scratch, count * width));
    if (const int64_t bad = find_nonfinite(scratch.data(), *stored, count); bad >= 0) {
      fail_nonfinite(path(), tensor, first_elem + done + bad, "NaN or infinity");
    }
    std::byte* out = target + done * size_of(dtype);
    convert_floats(scratch.data(), *stored, out, dtype, count);
    const bool may_overflow = dtype != DType::kF32;
    if (const int64_t bad = may_overflow ? find_nonfinite(out, dtype, count) : -1; bad >= 0) {
      fail_nonfinite(path(), tensor, first_elem + done + bad, fmt::format("a value too large for {}", name_of(dtype)));
    }
    done += count;
  }
}

void SafetensorsFile::read_bytes(const StoredTensor& tensor, int64_t first_byte, std::span<std::byte> into) const {
  SPILLWAY_CHECK(first_byte >= 0 && first_byte + std::ssize(into) <= tensor.bytes, "{} + {} of {}", first_byte,
                 into.size(), tensor.name);
  file_.read(tensor.offset + first_byte, into);
}

SafetensorsFolder::SafetensorsFolder(const fs::path& folder, std::string_view stem) : folder_(folder) {
  const fs::path single = folder / fmt::format("{}.safetensors", stem);
  const fs::path index = folder / fmt::format("{}.safetensors.index.json", stem);
  std::error_code error;
  if (!fs::exists(single, error) && fs::exists(index, error)) {
    open_shards(index);
    return;
  }
  if (!fs::exists(single, error)) {
    if (!fs::is_directory(folder, error)) {
      throw input_error(folder.string(), "expected a folder with {0}.safetensors, got no folder; check the path", stem);
    }
    const bool pickled =
        fs::exists(folder / "pytorch_model.bin", error) || fs::exists(folder / "pytorch_model.bin.index.json", error);
    throw input_error(folder.string(), "expected {0}.safetensors or {0}.safetensors.index.json, got {1}", stem,
                      pickled ? "pytorch_model.bin; save the model again with safe_serialization=True"
                              : "neither; check that this is the model's folder");
  }
  files_.push_back(std::make_unique<SafetensorsFile>(single));
  for (const StoredTensor& tensor : files_.back()->tensors()) tensors_[tensor.name] = {&tensor, files_.back().get()};
}

void SafetensorsFolder::open_shards(const fs::path& index) {
  const std::string where = index.string();
  const nlohmann::json json = parse_json(read_file(index, kMaxIndexBytes), where);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (json.is_discarded() || !json.is_object() || map == json.end() || !map->is_object()) {
    throw input_error(where,
                      "expected JSON with a weight_map from tensors to files, got something else; download it again");
  }
  std::map<std::string, const SafetensorsFile*> shards;
  for (const auto& [name, file] : map->items()) {
    const std::string shard = file.is_string() ? file.get<std::string>() : "";
    // A name that leads out of the folder would let a model read any file.
    if (shard.empty() || fs::path(shard).filename() != fs::path(shard)) {
      throw input_error(where, "expected tensor {} in a file of this folder, got {}; download the index again",
                        quote(name), quote(json_text(file)));
    }
    if (shards.contains(shard)) continue;
    std::error_code error;
    if (!fs::exists(folder_ / shard, error)) {
      throw input_error(where, "expected shard {} beside the index, got no such file; download the missing shard",
                        quote(shard));
    }
    files_.push_back(std::make_unique<SafetensorsFile>(folder_ / shard));
    shards[shard] = files_.back().get();
  }
  for (const auto& [shard, file] : shards) {
    for (const StoredTensor& tensor : file->tensors()) {
      const auto stated = map->find(tensor.name);
      if (stated == map->end() || stated->get<std::string>() != shard) {
        throw input_error(
            where, "expected tensor {} of {} to be listed there, got {}; index and shards are of different models",
            quote(tensor.name), quote(shard),
            stated == map->end() ? "no entry" : "the entry " + quote(stated->get<std::string>()));
      }
      tensors_[tensor.name] = {&tensor, file};
    }
  }
  for (const auto& [name, file] : map->items()) {
    if (!tensors_.contains(name)) {
      throw input_error(where, "expected tensor {} in {}, got a file without it; download that shard again",
                        quote(name), quote(file.get<std::string>()));
    }
  }
}

void SafetensorsFolder::rename(const std::function<std::string(std::string_view)>& name_of) {
  std::map<std::string, Entry, std::less<>> renamed;
  for (const auto& [name, entry] : tensors_) {
    const bool is_new = renamed.emplace(name_of(name), entry).second;
    SPILLWAY_CHECK(is_new, "two tensors called {}", name_of(name));
  }
  tensors_ = std::move(renamed);
}

const StoredTensor* SafetensorsFolder::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second.tensor;
}

const SafetensorsFolder::Entry& SafetensorsFolder::entry(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw input_error(folder_.string(),
                      "expected a tensor {}, got {} others but not it; check that config.json belongs to these weights",
                      quote(name), tensors_.size());
  }
  return found->second;
}

void SafetensorsFolder::read(std::string_view name, int64_t first_elem, int64_t elems, DType dtype, void* into) const {
  const Entry& found = entry(name);
  found.file->read(*found.tensor, first_elem, elems, dtype, into);
}

void SafetensorsFolder::read_rows(std::string_view name, int64_t first_row, int64_t rows, DType dtype,
                                  void* into) const {
  const Entry& found = entry(name);
  const std::vector<int64_t>& shape = found.tensor->shape;
  const int64_t row = shape.empty() || shape[0] == 0 ? 1 : found.tensor->elems() / shape[0];
  found.file->read(*found.tensor, first_row * row, rows * row, dtype, into);
}

void SafetensorsFolder::read(std::string_view name, DType dtype, void* into) const {
  const Entry& found = entry(name);
  found.file->read(*found.tensor, 0, found.tensor->elems(), dtype, into);
}

void SafetensorsFolder::read_bytes(std::string_view name, int64_t first_byte, std::span<std::byte> into) const {
  const Entry& found = entry(name);
  found.file->read_bytes(*found.tensor, first_byte, into);
}

}  // namespace spillway
