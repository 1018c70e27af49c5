#include "data/clips/row_header.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/sizes.h"
#include "base/text.h"
#include "base/utf8.h"
#include "io/convert.h"

namespace spillway::data {
namespace {

constexpr int64_t kMaxTensorBytes = int64_t{1} << 30;

std::string text_of(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// Checks one row; `where` and the names are for its messages.
class RowCheck {
 public:
  RowCheck(const RowHeader& row, const ClipDemands& demands, const TensorNames& names, std::string_view where,
           int64_t num_latent_t)
      : row_(row), demands_(demands), names_(names), where_(where), num_latent_t_(num_latent_t) {}

  ClipHeader check() {
    for (size_t i = 0; i < kRowTensors; ++i) check_sizes(static_cast<RowTensor>(i));
    check_latents();
    check_text();
    check_image();
    check_first_frame();
    check_noise();
    if (row_.timestep && !(*row_.timestep >= 0 && *row_.timestep <= 1000))
      throw input_error(where_, "expected a timestep from 0 to 1000, got {}; correct the row", *row_.timestep);
    out_.has_timestep = row_.timestep.has_value();
    out_.is_normalised = row_.is_normalised;
    return out_;
  }

 private:
  [[nodiscard]] const StoredValues& tensor(RowTensor which) const { return row_.tensors[which]; }

  template <typename... Args>
  [[noreturn]] void fail(RowTensor which, const std::string& got, fmt::format_string<Args...> expected,
                         Args&&... args) const {
    throw input_error(where_, "expected {} {}, got {}; correct the row or take the model that it was made for",
                      names_[which], fmt::format(expected, std::forward<Args>(args)...), got);
  }
  [[noreturn]] void fail_shape(RowTensor which, const std::string& expected) const {
    fail(which, text_of(tensor(which).shape), "of {}", expected);
  }

  void check_sizes(RowTensor which) const {
    const StoredValues& values = tensor(which);
    if (!values.is_there) return;
    if (values.shape.empty()) fail(which, "[]", "with a shape");
    int64_t bytes = sizeof(double);  // the widest type
    for (const int64_t size : values.shape) {
      if (size <= 0) fail_shape(which, "sizes above 0");
      if (bytes > kMaxTensorBytes / size) fail_shape(which, fmt::format("at most {} elements", kMaxTensorBytes / 8));
      bytes *= size;
    }
  }

  void check_latents() {
    const StoredValues& latents = tensor(kLatentsTensor);
    if (!latents.is_there) fail(kLatentsTensor, "none", "in every row");
    const auto& shape = latents.shape;
    if (shape.size() != 3 && shape.size() != 4) fail_shape(kLatentsTensor, "[C, T, H, W] or [C, H, W]");
    ClipShape& clip = out_.latents;
    clip = {shape[0], stored_frames(latents), shape[shape.size() - 2], shape.back()};
    if (clip.channels != demands_.channels)
      fail_shape(kLatentsTensor, fmt::format("{} channels, as the model has", demands_.channels));
    if (num_latent_t_ > 0) clip.frames = std::min(clip.frames, num_latent_t_);
    const std::array<int64_t, 3> sizes = {clip.frames, clip.height, clip.width};
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      const int64_t patch = demands_.patch[axis];
      if (sizes[axis] % patch != 0)
        fail(kLatentsTensor, to_string(clip), "of sizes that the model's patch [{}] divides",
             fmt::join(demands_.patch, ", "));
      if (sizes[axis] / patch > demands_.max_positions)
        fail(kLatentsTensor, to_string(clip), "of at most {} patches along each axis (rope_max_seq_len)",
             demands_.max_positions);
    }
  }

  // [L, D] or [1, L, D]; L.
  int64_t check_rows(RowTensor which, int64_t width) const {
    std::span<const int64_t> shape = tensor(which).shape;
    if (shape.size() == 3 && shape[0] == 1) shape = shape.subspan(1);
    if (shape.size() != 2 || shape[1] != width) fail_shape(which, fmt::format("[L, {}] or [1, L, {}]", width, width));
    return shape[0];
  }

  void check_text() {
    if (!tensor(kTextTensor).is_there) fail(kTextTensor, "none", "in every row");
    out_.text_rows = check_rows(kTextTensor, demands_.text_width);
  }

  void check_presence(RowTensor which, bool is_wanted) const {
    if (tensor(which).is_there == is_wanted) return;
    if (is_wanted) fail(which, "none", "in every row, as the model reads images");
    fail(which, "it", "in no row, as the model reads no images");
  }

  void check_image() {
    check_presence(kImageTensor, demands_.image_width > 0);
    if (tensor(kImageTensor).is_there) out_.image_rows = check_rows(kImageTensor, demands_.image_width);
  }

  // Checks the shape of a tensor that must have the latents' frames, heights and widths.
  void check_like_latents(RowTensor which, int64_t channels) const {
    std::vector<int64_t> shape = tensor(which).shape, wanted = tensor(kLatentsTensor).shape;
    for (auto* one : {&shape, &wanted}) {
      if (one->size() == 3) one->insert(one->begin() + 1, 1);
    }
    wanted[0] = channels;
    if (shape != wanted) fail_shape(which, text_of(wanted));
  }

  void check_first_frame() const {
    check_presence(kFirstFrameTensor, demands_.image_channels > 0);
    if (tensor(kFirstFrameTensor).is_there) check_like_latents(kFirstFrameTensor, demands_.image_channels);
  }

  void check_noise() {
    out_.has_noise = tensor(kNoiseTensor).is_there;
    if (out_.has_noise) check_like_latents(kNoiseTensor, demands_.channels);
  }

  const RowHeader& row_;
  const ClipDemands& demands_;
  const TensorNames& names_;
  std::string_view where_;
  int64_t num_latent_t_;
  ClipHeader out_;
};

[[noreturn]] void fail_value(std::string_view name, std::string_view where, int64_t element) {
  throw input_error(where,
                    "expected finite values in {}, got NaN, infinity or more than f32 holds at element {}; "
                    "correct the row or leave it out",
                    name, element);
}

}  // namespace

std::optional<StoredType> stored_type(std::string_view name) {
  constexpr std::string_view kPrefix = "torch.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  if (name.empty() || name == "float32") return StoredType::kF32;
  if (name == "float16") return StoredType::kF16;
  if (name == "bfloat16") return StoredType::kBF16;
  if (name == "float64") return StoredType::kF64;
  return {};
}

int64_t bytes_of(StoredType type) {
  switch (type) {
    case StoredType::kF16:
    case StoredType::kBF16:
      return 2;
    case StoredType::kF64:
      return 8;
    case StoredType::kF32:
      break;
  }
  return 4;
}

int64_t StoredValues::elems() const {
  int64_t elems = 1;
  for (const int64_t size : shape) elems *= size;
  return elems;
}

ClipHeader check_row(const RowHeader& row, const ClipDemands& demands, const TensorNames& names, std::string_view where,
                     int64_t num_latent_t) {
  constexpr size_t kShown = 120;
  ClipHeader header = RowCheck(row, demands, names, where, num_latent_t).check();
  header.caption = repair_utf8(std::string_view(row.caption).substr(0, kShown));
  return header;
}

int64_t stored_frames(const StoredValues& latents) { return latents.shape.size() == 4 ? latents.shape[1] : 1; }

void check_finite(std::span<const float> values, std::string_view name, std::string_view where) {
  const int64_t bad = find_nonfinite(values.data(), DType::kF32, std::ssize(values));
  if (bad >= 0) fail_value(name, where, bad);
}

std::vector<float> to_floats(std::span<const std::byte> bytes, StoredType type, std::string_view name,
                             std::string_view where) {
  const auto elems = std::ssize(bytes) / bytes_of(type);
  auto values = make_vector<float>(elems);
  if (type == StoredType::kF64) {
    for (size_t i = 0; i < values.size(); ++i) {
      double value = 0;
      std::memcpy(&value, bytes.data() + i * sizeof(double), sizeof(double));
      values[i] = static_cast<float>(value);
    }
  } else {
    const DType dtype = type == StoredType::kF16 ? DType::kF16 : type == StoredType::kBF16 ? DType::kBF16 : DType::kF32;
    convert_floats(bytes.data(), dtype, values.data(), DType::kF32, elems);
  }
  check_finite(values, name, where);  // a conversion makes no finite number of one that is none
  return values;
}

}  // namespace spillway::data
