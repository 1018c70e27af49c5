#include "data/clips/safetensors_clip.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "data/clips/clip_names.h"
#include "io/safetensors.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;

constexpr TensorNames kNames = {kLatents, kTextEmbedding, kClipFeature, kFirstFrame, kNoise};

std::optional<StoredType> type_named(std::string_view name) {
  constexpr std::pair<std::string_view, StoredType> kTypes[] = {
      {"F32", StoredType::kF32}, {"F16", StoredType::kF16}, {"BF16", StoredType::kBF16}, {"F64", StoredType::kF64}};
  for (const auto& [known, type] : kTypes) {
    if (name == known) return type;
  }
  return {};
}

const StoredTensor* find(const SafetensorsFile& file, std::string_view name) {
  const auto& tensors = file.tensors();
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& one) { return one.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

class SafetensorsClip : public ClipFile {
 public:
  explicit SafetensorsClip(fs::path path) : path_(std::move(path)) {}

  [[nodiscard]] const fs::path& path() const override { return path_; }
  [[nodiscard]] const TensorNames& names() const override { return kNames; }
  [[nodiscard]] std::string where(int64_t /*row*/) const override { return path_.string(); }

  [[nodiscard]] std::vector<RowHeader> headers() const override {
    const SafetensorsFile file(path_);
    RowHeader row;
    for (size_t i = 0; i < kRowTensors; ++i) row.tensors[i] = header_of(file, kNames[i]);
    row.timestep = timestep_of(file);
    row.is_normalised = is_normalised(file);
    if (const auto found = file.metadata().find(kCaption); found != file.metadata().end()) row.caption = found->second;
    return {row};
  }

  [[nodiscard]] std::vector<float> read(int64_t /*row*/, RowTensor which, const StoredValues& values) const override {
    const SafetensorsFile file(path_);  // again: so many files cannot stay open
    if (header_of(file, kNames[which]) != values)
      throw input_error(path_.string(), "expected {} as it was when the run began, got another; start again",
                        kNames[which]);
    return read_tensor(file, *find(file, kNames[which]), values.type);
  }

 private:
  [[nodiscard]] std::vector<float> read_tensor(const SafetensorsFile& file, const StoredTensor& tensor,
                                               StoredType type) const {
    if (type == StoredType::kF32) {
      auto floats = make_vector<float>(tensor.elems());
      file.read_bytes(tensor, 0, std::as_writable_bytes(std::span(floats)));
      check_finite(floats, tensor.name, path_.string());
      return floats;
    }
    auto bytes = make_vector<std::byte>(tensor.bytes);
    file.read_bytes(tensor, 0, bytes);
    return to_floats(bytes, type, tensor.name, path_.string());
  }

  [[nodiscard]] StoredType type_of(const StoredTensor& tensor) const {
    if (const auto type = type_named(tensor.dtype_name)) return *type;
    throw input_error(path_.string(), "expected {} in F32, F16, BF16 or F64, got {}; save it as F32",
                      quote(tensor.name), quote(tensor.dtype_name));
  }

  [[nodiscard]] StoredValues header_of(const SafetensorsFile& file, std::string_view name) const {
    const StoredTensor* const tensor = find(file, name);
    if (tensor == nullptr) return {};
    return {.is_there = true, .shape = tensor->shape, .type = type_of(*tensor)};
  }

  [[nodiscard]] std::optional<double> timestep_of(const SafetensorsFile& file) const {
    const StoredTensor* const tensor = find(file, kTimestep);
    if (tensor == nullptr) return {};
    const StoredType type = type_of(*tensor);
    if (tensor->elems() != 1)
      throw input_error(path_.string(), "expected one number in timestep, got the shape {}; correct the row",
                        tensor->shape_text());
    return read_tensor(file, *tensor, type)[0];
  }

  [[nodiscard]] bool is_normalised(const SafetensorsFile& file) const {
    const auto found = file.metadata().find(std::string(kLatents));
    if (found == file.metadata().end()) return false;
    if (found->second == kNormalised) return true;
    if (found->second == "raw") return false;
    throw input_error(path_.string(),
                      "expected \"normalized\" or \"raw\" as the metadata of latents, got {}; correct it",
                      quote(found->second));
  }

  fs::path path_;
};

}  // namespace

std::unique_ptr<ClipFile> make_safetensors_clip(const fs::path& path) {
  return std::make_unique<SafetensorsClip>(path);
}

}  // namespace spillway::data
