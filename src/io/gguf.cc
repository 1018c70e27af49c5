#include "io/gguf.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "base/math.h"
#include "base/sizes.h"
#include "base/text.h"
#include "io/convert.h"
#include "io/gguf_cursor.h"
#include "io/gguf_dequantize.h"

namespace spillway {
namespace {

constexpr int kMaxDims = 4;

struct Counts {
  uint64_t tensors = 0, keys = 0;
};

Counts read_start(GgufCursor& cursor) {
  const auto magic = cursor.number<uint32_t>();
  if (magic != 0x46554747) {
    throw input_error(cursor.where(),
                      "expected a GGUF file, got one that does not start with \"GGUF\"; check the path");
  }
  const auto version = cursor.number<uint32_t>();
  if (version == 0x02000000 || version == 0x03000000) {
    throw input_error(cursor.where(),
                      "expected a little-endian GGUF file, got a big-endian one; convert the model again");
  }
  if (version != 2 && version != 3) {
    throw input_error(cursor.where(), "expected GGUF version 2 or 3, got {}; convert the model again", version);
  }
  Counts counts;
  counts.tensors = cursor.number<uint64_t>();
  counts.keys = cursor.number<uint64_t>();
  constexpr int64_t kMinKeyBytes = 8 + 4 + 1, kMinTensorBytes = 8 + 4 + 8 + 4 + 8;
  cursor.require(counts.keys, kMinKeyBytes, "metadata keys");
  cursor.require(counts.tensors, kMinTensorBytes, "tensors");
  return counts;
}

std::optional<GgufType> known_type(uint32_t number) {
  switch (const auto type = static_cast<GgufType>(number)) {
    case GgufType::kF32:
    case GgufType::kF16:
    case GgufType::kBF16:
    case GgufType::kQ4_0:
    case GgufType::kQ4_1:
    case GgufType::kQ5_0:
    case GgufType::kQ5_1:
    case GgufType::kQ8_0:
    case GgufType::kQ2_K:
    case GgufType::kQ3_K:
    case GgufType::kQ4_K:
    case GgufType::kQ5_K:
    case GgufType::kQ6_K:
    case GgufType::kIQ4Nl:
    case GgufType::kIQ4Xs:
    case GgufType::kMXFP4:
      return type;
  }
  return {};
}

// Reads a tensor's description; its offset counts from the start of the data until place_tensors() has run.
GgufTensor read_tensor(GgufCursor& cursor) {
  GgufTensor tensor;
  tensor.name = cursor.text();
  const auto dims = cursor.number<uint32_t>();
  if (dims < 1 || dims > kMaxDims) {
    throw input_error(cursor.where(),
                      "expected 1 to {} dimensions of tensor {}, got {}; the file is broken, download it again",
                      kMaxDims, quote(tensor.name), dims);
  }
  for (uint32_t i = 0; i < dims; ++i) tensor.shape.insert(tensor.shape.begin(), cursor.size(tensor.name));
  const auto number = cursor.number<uint32_t>();
  const auto type = known_type(number);
  if (!type) {
    throw input_error(
        cursor.where(),
        "expected tensor {} as F32, F16, BF16, Q8_0, Q4_0 to Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS or MXFP4, got encoding "
        "{}; {}",
        quote(tensor.name), number, "use another quantisation of the model");
  }
  tensor.type = *type;
  tensor.offset = cursor.size(tensor.name);

  const GgufLayout layout = layout_of(*type);
  int64_t elems = 1;
  bool broken = tensor.row_elems() % layout.block_elems != 0;
  for (const int64_t dim : tensor.shape) broken |= dim == 0 || __builtin_mul_overflow(elems, dim, &elems);
  broken |= __builtin_mul_overflow(elems / layout.block_elems, layout.block_bytes, &tensor.bytes);
  if (broken) {
    throw input_error(
        cursor.where(),
        "expected a shape of whole {} blocks for tensor {}, got [{}]; the file is broken, download it again",
        layout.name, quote(tensor.name), fmt::join(tensor.shape, ", "));
  }
  return tensor;
}

// Turns offsets into the data into offsets into the file, and checks that the tensors are aligned, inside it, and
// apart.
void place_tensors(std::vector<GgufTensor>& tensors, const GgufCursor& cursor, int64_t alignment, int64_t file_bytes) {
  const int64_t data = align_up(cursor.position(), alignment);
  for (GgufTensor& tensor : tensors) {
    int64_t end = 0;
    const bool overflow = __builtin_add_overflow(tensor.offset, data, &tensor.offset) ||
                          __builtin_add_overflow(tensor.offset, tensor.bytes, &end);
    if (overflow || tensor.offset % alignment != 0 || end > file_bytes) {
      throw input_error(cursor.where(), "expected {} bytes of tensor {} within the file of {} bytes, got offset {}; {}",
                        tensor.bytes, quote(tensor.name), file_bytes, tensor.offset,
                        "the file is cut short or broken, download it again");
    }
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const GgufTensor& a, const GgufTensor& b) { return a.offset < b.offset; });
  for (size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i - 1].offset + tensors[i - 1].bytes <= tensors[i].offset) continue;
    throw input_error(cursor.where(),
                      "expected tensors that lie apart, got {} and {} on the same bytes; download the file again",
                      quote(tensors[i - 1].name), quote(tensors[i].name));
  }
}

}  // namespace

GgufLayout layout_of(GgufType type) {
  switch (type) {
    case GgufType::kF32:
      return {"F32", 1, 4};
    case GgufType::kF16:
      return {"F16", 1, 2};
    case GgufType::kBF16:
      return {"BF16", 1, 2};
    case GgufType::kQ4_0:
      return {"Q4_0", 32, 18};
    case GgufType::kQ4_1:
      return {"Q4_1", 32, 20};
    case GgufType::kQ5_0:
      return {"Q5_0", 32, 22};
    case GgufType::kQ5_1:
      return {"Q5_1", 32, 24};
    case GgufType::kQ8_0:
      return {"Q8_0", 32, 34};
    case GgufType::kQ2_K:
      return {"Q2_K", 256, 84};
    case GgufType::kQ3_K:
      return {"Q3_K", 256, 110};
    case GgufType::kQ4_K:
      return {"Q4_K", 256, 144};
    case GgufType::kQ5_K:
      return {"Q5_K", 256, 176};
    case GgufType::kQ6_K:
      return {"Q6_K", 256, 210};
    case GgufType::kIQ4Nl:
      return {"IQ4_NL", 32, 18};
    case GgufType::kIQ4Xs:
      return {"IQ4_XS", 256, 136};
    case GgufType::kMXFP4:
      return {"MXFP4", 32, 17};
  }
  report_bug(__FILE__, __LINE__, "type", "unknown");
}

int64_t GgufTensor::elems() const {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

GgufFile::GgufFile(const std::filesystem::path& path) : file_(path) {
  static_assert(std::endian::native == std::endian::little, "the file formats here are little-endian");
  GgufCursor cursor(file_);
  const Counts counts = read_start(cursor);
  for (uint64_t i = 0; i < counts.keys; ++i) {
    std::string key = cursor.text();
    GgufValue value = read_value(cursor, key);
    if (!metadata_.emplace(key, std::move(value)).second) {
      throw input_error(cursor.where(), "expected each key once, got two of {}; convert the model again", quote(key));
    }
  }
  std::vector<GgufTensor> tensors;
  tensors.reserve(counts.tensors);
  for (uint64_t i = 0; i < counts.tensors; ++i) tensors.push_back(read_tensor(cursor));

  const int64_t* stated = find<int64_t>("general.alignment");
  const int64_t alignment = stated == nullptr ? 32 : *stated;
  if (alignment < 1 || alignment > kMiB || (alignment & (alignment - 1)) != 0) {
    throw input_error(cursor.where(),
                      "expected general.alignment to be a power of two, got {}; convert the model again", alignment);
  }
  place_tensors(tensors, cursor, alignment, file_.size());
  for (GgufTensor& tensor : tensors) {
    const std::string name = tensor.name;
    if (!tensors_.emplace(name, std::move(tensor)).second) {
      throw input_error(cursor.where(), "expected each tensor once, got two of {}; convert the model again",
                        quote(name));
    }
  }
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void GgufFile::read_rows(const GgufTensor& tensor, int64_t first_row, int64_t rows, float* into) const {
  SPILLWAY_CHECK(first_row >= 0 && rows >= 0 && (first_row + rows) * tensor.row_elems() <= tensor.elems(),
                 "rows {} + {} of {}", first_row, rows, tensor.name);
  const GgufLayout layout = layout_of(tensor.type);
  const int64_t first_block = first_row * tensor.row_elems() / layout.block_elems;
  const int64_t blocks = rows * tensor.row_elems() / layout.block_elems;
  auto scratch = make_vector<std::byte>(std::min(kConvertedBytes, blocks * layout.block_bytes));
  for (int64_t done = 0; done < blocks;) {
    const int64_t count = std::min(blocks - done, kConvertedBytes / layout.block_bytes);
    const auto bytes = first_of(scratch, count * layout.block_bytes);
    file_.read(tensor.offset + (first_block + done) * layout.block_bytes, bytes);
    const std::span<float> values = span_of(into + done * layout.block_elems, count * layout.block_elems);
    dequantize(tensor.type, bytes, values);
    if (const int64_t bad = find_nonfinite(values.data(), DType::kF32, static_cast<int64_t>(values.size())); bad >= 0) {
      throw input_error(path().string(), "expected finite values in tensor {}, got NaN or infinity at element {}; {}",
                        quote(tensor.name), (first_block + done) * layout.block_elems + bad,
                        "the file is broken, download it again");
    }
    done += count;
  }
}

void GgufFile::fail_type(std::string_view key) const {
  throw input_error(path().string(), "expected {} to be of another type; convert the model again", quote(key));
}

void GgufFile::fail_absent(std::string_view key) const {
  throw input_error(path().string(), "expected the key {}, got none; convert the model again", quote(key));
}

}  // namespace spillway
