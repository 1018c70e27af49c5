// Compares with ggml's own quantisers: tests/golden/gguf_quantised (tools/make_gguf_quantised_goldens.py).
#include "io/gguf_quantize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "io/file.h"
#include "io/gguf.h"
#include "io/gguf_dequantize.h"
#include "tests/support/source_folder.h"

using namespace spillway;

namespace {

struct Golden {
  GgufFile file{testing::source_folder() / "tests/golden/gguf_quantised/blocks.gguf"};
  std::vector<float> values;

  Golden() {
    const GgufTensor& tensor = *file.find_tensor("values");
    values.resize(static_cast<size_t>(tensor.elems()));
    file.read_rows(tensor, 0, tensor.shape.front(), values.data());
  }
  [[nodiscard]] std::string blocks_of(const GgufTensor& tensor) const {
    return read_file(file.path(), 1 << 20)
        .substr(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.bytes));
  }
};

}  // namespace

TEST_CASE("halves of a q8_0 block's steps are rounded away from zero, and what lies just below them is not") {
  std::vector<float> values(32);
  for (int n = 0; n < 127; n += 15) {
    for (size_t i = 0; i < 31; ++i) {
      const float half = static_cast<float>(n) + 0.5f, sign = i % 2 == 0 ? 1.0f : -1.0f;
      values[i] = sign * (i % 3 == 0 ? half : std::nextafter(half, i % 3 == 1 ? 0.0f : 1000.0f));
    }
    values[31] = 127;  // a step of one
    std::vector<std::byte> block(34);
    quantize(GgufType::kQ8_0, values, block);
    for (size_t i = 0; i < 32; ++i)
      CHECK(static_cast<int>(static_cast<int8_t>(block[2 + i])) == static_cast<int>(std::round(values[i])));
  }
}

TEST_CASE("values are quantised to the bits of ggml's reference quantisers, on any number of threads") {
  const Golden golden;
  int types = 0;
  for (const auto& [name, tensor] : golden.file.tensors()) {
    if (name == "values") continue;
    INFO(name);
    REQUIRE(can_quantize(tensor.type));
    const std::string expected = golden.blocks_of(tensor);
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      std::string blocks(expected.size(), '\xAB');
      quantize(tensor.type, golden.values, std::as_writable_bytes(std::span(blocks)), &pool);
      CHECK(blocks == expected);
    }
    ++types;
  }
  CHECK(types == 5);
}

TEST_CASE("what is read back is as close as the encoding's steps") {
  const Golden golden;
  // The bound is a share of the range of 32 values: half a step, and the error of rounding scales and minima to six
  // bits or f16.
  const auto check = [&](const char* name, double share) {
    INFO(std::string(name));
    const GgufTensor& tensor = *golden.file.find_tensor(name);
    std::vector<float> back(golden.values.size());
    golden.file.read_rows(tensor, 0, tensor.shape.front(), back.data());
    for (size_t row = 0; row < back.size(); row += 256) {
      float most = 0;
      for (size_t i = row; i < row + 256; ++i) most = std::max(most, std::abs(golden.values[i]));
      for (size_t i = row; i < row + 256; ++i)
        CHECK(std::abs(back[i] - golden.values[i]) <= share * most + 1e-7);  // f16 ends there
    }
  };
  check("Q4_K", 0.07);
  check("Q5_K", 0.035);
  check("Q6_K", 0.02);
  check("Q5_0", 0.063);
  check("Q5_1", 0.035);
}
