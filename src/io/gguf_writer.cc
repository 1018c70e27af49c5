#include "io/gguf_writer.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "base/sizes.h"
#include "base/text.h"
#include "io/convert.h"
#include "io/disk_space.h"
#include "io/gguf_quantize.h"

namespace spillway {
namespace {

constexpr int64_t kAlignment = 32;

// The numbers of the format for types of values.
enum KeyType : uint32_t { kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9 };

// Builds the file's start, which is a few MB for a large vocabulary.
class Header {
 public:
  template <typename T>
  void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view value) {
    number<uint64_t>(value.size());
    bytes_.append(value);
  }

  void value(uint32_t v) { typed(kUint32, v); }
  void value(float v) { typed(kFloat32, v); }
  void value(bool v) { typed(kBool, static_cast<uint8_t>(v)); }
  void value(const std::string& v) {
    number<uint32_t>(kString);
    text(v);
  }
  void value(const std::vector<bool>& v) {
    array_start(kBool, v.size());
    for (const bool one : v) number(static_cast<uint8_t>(one));
  }
  void value(const std::vector<int32_t>& v) { array(kInt32, v); }
  void value(const std::vector<float>& v) { array(kFloat32, v); }
  void value(const std::vector<std::string>& v) {
    array_start(kString, v.size());
    for (const std::string& one : v) text(one);
  }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  template <typename T>
  void typed(uint32_t type, T v) {
    number<uint32_t>(type);
    number(v);
  }
  void array_start(uint32_t type, uint64_t count) {
    number<uint32_t>(kArray);
    number<uint32_t>(type);
    number<uint64_t>(count);
  }
  template <typename T>
  void array(uint32_t type, const std::vector<T>& v) {
    array_start(type, v.size());
    for (const T one : v) number(one);
  }

  std::string bytes_;
};

std::string header_of(const GgufMetadata& metadata, const std::vector<GgufTensorSpec>& tensors) {
  Header header;
  header.number<uint32_t>(0x46554747);  // "GGUF"
  header.number<uint32_t>(3);
  header.number<uint64_t>(tensors.size());
  header.number<uint64_t>(metadata.size());
  for (const auto& [key, entry] : metadata) {
    header.text(key);
    std::visit([&](const auto& value) { header.value(value); }, entry);
  }
  int64_t offset = 0;
  for (const GgufTensorSpec& tensor : tensors) {
    header.text(tensor.name);
    header.number<uint32_t>(static_cast<uint32_t>(tensor.shape.size()));
    for (auto dim = tensor.shape.rbegin(); dim != tensor.shape.rend(); ++dim)
      header.number<uint64_t>(static_cast<uint64_t>(*dim));
    header.number<uint32_t>(static_cast<uint32_t>(tensor.type));
    header.number<uint64_t>(static_cast<uint64_t>(offset));
    offset = align_up(offset + tensor.bytes(), kAlignment);
  }
  return header.bytes();
}

// Checks for overflow, which only a 16-bit float and the scale of a block can have.
void check_range(const GgufTensorSpec& tensor, std::span<const float> values, std::span<const std::byte> blocks,
                 const std::filesystem::path& path) {
  const auto refuse = [&](float value) {
    throw input_error(path.string(), "expected values of tensor {} in the range of {}, got {}; use --type bf16 or f32",
                      quote(tensor.name), layout_of(tensor.type).name, value);
  };
  const auto elems = static_cast<int64_t>(values.size());
  if (tensor.type == GgufType::kF16 || tensor.type == GgufType::kBF16) {
    const DType dtype = tensor.type == GgufType::kF16 ? DType::kF16 : DType::kBF16;
    const int64_t bad = find_nonfinite(blocks.data(), dtype, elems);
    if (bad >= 0) refuse(nth(values, bad));
  } else if (tensor.type != GgufType::kF32) {
    // Scales of blocks are f16: an encoding that passes values through f16 themselves, as minima do, holds no more than
    // that.
    constexpr float kLargestScale = 65504;
    const float largest = std::abs(
        *std::max_element(values.begin(), values.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
    if (largest / (tensor.type == GgufType::kQ8_0 ? 127 : 1) > kLargestScale) refuse(largest);
  }
}

}  // namespace

int64_t GgufTensorSpec::elems() const {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

int64_t GgufTensorSpec::bytes() const {
  const GgufLayout layout = layout_of(type);
  return div_exact(elems(), layout.block_elems) * layout.block_bytes;
}

GgufWriter::GgufWriter(const std::filesystem::path& path, const GgufMetadata& metadata,
                       std::vector<GgufTensorSpec> tensors)
    : file_(path), tensors_(std::move(tensors)) {
  int64_t bytes = 0;
  for (const GgufTensorSpec& tensor : tensors_) bytes += tensor.bytes();
  check_disk_room(std::filesystem::absolute(path).parent_path(), bytes);
  const std::string header = header_of(metadata, tensors_);
  write(std::as_bytes(std::span(header)));
  align();
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  file_.append(bytes);
  end_ += static_cast<int64_t>(bytes.size());
}

void GgufWriter::align() {
  constexpr std::array<std::byte, kAlignment> kZeros{};
  write(first_of(kZeros, align_up(end_, kAlignment) - end_));
}

void GgufWriter::append(std::span<const float> values, ThreadPool* pool) {
  SPILLWAY_CHECK(current_ < tensors_.size(), "{} tensors", tensors_.size());
  const GgufTensorSpec& tensor = tensors_[current_];
  const auto count = static_cast<int64_t>(values.size());
  SPILLWAY_CHECK(done_ + count <= tensor.elems(), "{} + {} values of {}", done_, count, tensor.name);
  const GgufLayout layout = layout_of(tensor.type);
  const int64_t most = kConvertedBytes / layout.block_bytes * layout.block_elems;
  auto scratch = make_vector<std::byte>(std::min(most, count) / layout.block_elems * layout.block_bytes);
  for (int64_t first = 0; first < count; first += most) {
    const auto piece = subspan_of(values, first, std::min(most, count - first));
    const auto bytes = first_of(scratch, div_exact(std::ssize(piece), layout.block_elems) * layout.block_bytes);
    quantize(tensor.type, piece, bytes, pool);
    check_range(tensor, piece, bytes, file_.path());
    write(bytes);
  }
  done_ += count;
  if (done_ < tensor.elems()) return;
  align();
  ++current_;
  done_ = 0;
}

void GgufWriter::commit() {
  SPILLWAY_CHECK(current_ == tensors_.size(), "{} of {} tensors", current_, tensors_.size());
  file_.commit();
}

}  // namespace spillway
