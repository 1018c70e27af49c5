#include "model/encoded_weight.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/sizes.h"
#include "io/convert.h"

namespace spillway {
namespace {

EncodedWeight round_elements(DType dtype, std::vector<float>& elements) {
  const int64_t count = std::ssize(elements);
  EncodedWeight result(1, make_vector<std::byte>(count * size_of(dtype)));
  convert_floats(elements.data(), DType::kF32, result[0].data(), dtype, count);
  convert_floats(result[0].data(), dtype, elements.data(), DType::kF32, count);
  return result;
}

}  // namespace

EncodedWeight encode_and_decode(const Parameter& weight, std::vector<float>& elements, ThreadPool& pool) {
  if (!weight.storage->is_coded()) return round_elements(weight.dtype, elements);
  EncodedWeight contents;
  std::vector<TensorView> parts;
  std::vector<size_t> ends;
  for (const StoragePart& part : weight.storage->parts(weight.spec())) {
    TensorView view{nullptr, part.dtype, part.shape};
    view.data = contents.emplace_back(make_vector<std::byte>(view.bytes())).data();
    parts.push_back(view);
    ends.push_back(0);
  }
  weight.storage->encode(
      weight.name, weight.spec(),
      [&](int64_t first, int64_t count, float* into) { std::copy_n(elements.begin() + first, count, into); },
      [&](size_t part, const void* appended, int64_t count) {
        const auto bytes = static_cast<size_t>(count * size_of(parts[part].dtype));
        SPILLWAY_CHECK(ends[part] + bytes <= contents[part].size(), "{} + {} of {}", ends[part], bytes, weight.name);
        std::memcpy(contents[part].data() + ends[part], appended, bytes);
        ends[part] += bytes;
      },
      pool);
  weight.storage->decode(weight.spec(), parts, 0, weight.shape[0], elements.data());
  return contents;
}

}  // namespace spillway
