#include "io/safetensors_writer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/bytes.h"
#include "base/error.h"
#include "base/math.h"
#include "base/sizes.h"
#include "base/text.h"
#include "io/convert.h"
#include "io/disk_space.h"
#include "io/folder_entries.h"

namespace spillway {
namespace fs = std::filesystem;

namespace {

std::string_view stored_name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBF16:
      return "BF16";
    case DType::kF16:
      return "F16";
    case DType::kI32:
      return "I32";
    case DType::kI64:
      return "I64";
    case DType::kU8:
      return "U8";
    case DType::kI8:
      return "I8";
  }
  report_bug(__FILE__, __LINE__, "dtype", "unknown");
}

// Builds JSON as text: a container of the library allocates in its destructor, which ends the program if memory runs
// out.
std::string json_string(const std::string& text) { return nlohmann::json(text).dump(); }

std::string metadata_text(const std::map<std::string, std::string>& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", json_string(key), json_string(value));
  return fmt::format("{{{}}}", text);
}

// Splits tensors into groups of consecutive ones, as many as fit.
std::vector<std::vector<TensorSpec>> split_into_shards(const std::vector<TensorSpec>& tensors,
                                                       int64_t max_shard_bytes) {
  std::vector<std::vector<TensorSpec>> shards(1);
  int64_t bytes = 0;
  for (const TensorSpec& tensor : tensors) {
    if (!shards.back().empty() && bytes + tensor.bytes() > max_shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += tensor.bytes();
    shards.back().push_back(tensor);
  }
  return shards;
}

// Only f16 is so narrow that a weight can leave it. Values that are infinite already stay so.
void check_f16_range(const TensorSpec& tensor, const void* values, DType dtype, const void* rounded, int64_t elems,
                     const fs::path& path) {
  if (tensor.dtype != DType::kF16) return;
  const int64_t bad = find_nonfinite(rounded, tensor.dtype, elems);
  if (bad < 0 || find_nonfinite(values, dtype, elems) >= 0) return;
  float value = 0;
  convert_floats(static_cast<const std::byte*>(values) + bad * size_of(dtype), dtype, &value, DType::kF32, 1);
  throw input_error(path.string(), "expected values of {} in the range of f16, up to 65504, got {}; write bf16 or f32",
                    quote(tensor.name), value);
}

}  // namespace

int64_t TensorSpec::elems() const {
  if (!foreign_dtype.empty()) return foreign_bytes;
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

SafetensorsWriter::SafetensorsWriter(const fs::path& path, const std::vector<TensorSpec>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path) {
  std::vector<const TensorSpec*> order;
  for (const TensorSpec& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(),
                   [](const TensorSpec* a, const TensorSpec* b) { return size_of(a->dtype) > size_of(b->dtype); });

  std::string text = "{";
  if (!metadata.empty()) text += fmt::format("\"__metadata__\":{}", metadata_text(metadata));
  int64_t end = 0;
  for (const TensorSpec* tensor : order) {
    const int64_t begin = end;
    end += tensor->bytes();
    text += fmt::format(R"({}{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", text.size() > 1 ? "," : "",
                        json_string(tensor->name),
                        tensor->foreign_dtype.empty() ? stored_name(tensor->dtype) : tensor->foreign_dtype,
                        fmt::join(tensor->shape, ","), begin, end);
    const bool added = slots_.emplace(tensor->name, Slot{.spec = *tensor, .offset = begin}).second;
    SPILLWAY_CHECK(added, "{} twice in {}", tensor->name, path.string());
  }
  text += '}';
  resize(text, align_up(std::ssize(text), 8), ' ');
  for (auto& [name, slot] : slots_) slot.offset += 8 + static_cast<int64_t>(text.size());
  const uint64_t length = text.size();
  file_.append(std::as_bytes(std::span(&length, 1)));
  file_.append(text);
}

void SafetensorsWriter::append(std::string_view name, const void* values, DType dtype, int64_t elems) {
  const auto found = slots_.find(name);
  SPILLWAY_CHECK(found != slots_.end(), "no tensor {} in {}", name, file_.path().string());
  Slot& slot = found->second;
  const DType to = slot.spec.dtype;
  SPILLWAY_CHECK(slot.done_elems + elems <= slot.spec.elems(), "{} + {} of {}", slot.done_elems, elems, name);
  SPILLWAY_CHECK(to == dtype || (is_floating(to) && is_floating(dtype)), "{} from {}", name, name_of(dtype));

  const auto* source = static_cast<const std::byte*>(values);
  if (to == dtype) {
    write(slot, span_of(source, elems * size_of(to)));
    return;
  }
  resize(scratch_, kConvertedBytes);
  while (elems > 0) {
    const int64_t count = std::min(elems, kConvertedBytes / size_of(to));
    convert_floats(source, dtype, scratch_.data(), to, count);
    check_f16_range(slot.spec, source, dtype, scratch_.data(), count, file_.path());
    write(slot, first_of(scratch_, count * size_of(to)));
    source += count * size_of(dtype);
    elems -= count;
  }
}

void SafetensorsWriter::write(Slot& slot, std::span<const std::byte> bytes) {
  const int64_t elem_bytes = size_of(slot.spec.dtype);
  file_.write_at(slot.offset + slot.done_elems * elem_bytes, bytes);
  slot.sum.add(bytes);
  slot.done_elems += std::ssize(bytes) / elem_bytes;
}

std::map<std::string, std::string> SafetensorsWriter::checksums() const {
  std::map<std::string, std::string> sums;
  for (const auto& [name, slot] : slots_) sums[name] = slot.sum.text();
  return sums;
}

void SafetensorsWriter::sync() const {
  for (const auto& [name, slot] : slots_) {
    SPILLWAY_CHECK(slot.done_elems == slot.spec.elems(), "{} of {} values of {}", slot.done_elems, slot.spec.elems(),
                   name);
  }
  file_.sync();
}

void SafetensorsWriter::commit() {
  sync();
  file_.commit();
}

SafetensorsFolderWriter::SafetensorsFolderWriter(const fs::path& folder, const std::vector<TensorSpec>& tensors,
                                                 int64_t max_shard_bytes, std::string_view stem)
    : folder_(folder), stem_(stem) {
  int64_t bytes = 0;
  for (const TensorSpec& tensor : tensors) bytes += tensor.bytes();
  check_disk_room(folder, bytes);
  const auto shards = split_into_shards(tensors, max_shard_bytes);
  std::string weight_map;
  int64_t total_bytes = 0, total_elems = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    file_names_.push_back(shards.size() == 1
                              ? fmt::format("{}.safetensors", stem)
                              : fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i + 1, shards.size()));
    shards_.push_back(std::make_unique<SafetensorsWriter>(folder / file_names_.back(), shards[i]));
    for (const TensorSpec& tensor : shards[i]) {
      shard_of_[tensor.name] = i;
      weight_map += fmt::format("{}    {}: {}", weight_map.empty() ? "" : ",\n", json_string(tensor.name),
                                json_string(file_names_.back()));
      total_bytes += tensor.bytes();
      total_elems += tensor.elems();
    }
  }
  if (shards.size() == 1) return;
  index_ = fmt::format(
      "{{\n  \"metadata\": {{\n    \"total_parameters\": {},\n    \"total_size\": {}\n  }},\n  \"weight_map\": "
      "{{\n{}\n  }}\n}}\n",
      total_elems, total_bytes, weight_map);
}

void SafetensorsFolderWriter::append(std::string_view name, const void* values, DType dtype, int64_t elems) {
  const auto found = shard_of_.find(name);
  SPILLWAY_CHECK(found != shard_of_.end(), "no tensor {} in {}", name, folder_.string());
  shards_[found->second]->append(name, values, dtype, elems);
}

std::map<std::string, std::string> SafetensorsFolderWriter::checksums() const {
  std::map<std::string, std::string> sums;
  for (const auto& shard : shards_) sums.merge(shard->checksums());
  return sums;
}

void SafetensorsFolderWriter::commit() {
  const std::string index_name = stem_ + ".safetensors.index.json";
  if (shards_.size() > 1) {
    for (const auto& shard : shards_) shard->sync();
    // An older index would take new shards for its own if they have the same names.
    std::error_code error;
    fs::remove(folder_ / index_name, error);
  }
  for (const auto& shard : shards_) shard->commit();
  if (!index_.empty()) {
    file_names_.push_back(index_name);
    write_file(folder_ / index_name, index_);
  }
  remove_older_files();
}

void SafetensorsFolderWriter::remove_older_files() const {
  std::error_code error;
  for (const FolderEntry& entry : readable_entries_of(folder_)) {
    const std::string& name = entry.name;
    const bool weights =
        name == stem_ + ".safetensors" || name == stem_ + ".safetensors.index.json" ||
        (name.starts_with(stem_ + "-") && name.ends_with(".safetensors") && name.find("-of-") != std::string::npos);
    if (weights && std::find(file_names_.begin(), file_names_.end(), name) == file_names_.end())
      fs::remove(folder_ / name, error);
  }
}

}  // namespace spillway
