// Feeds bytes to the GGUF reader and dequantises what it accepts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/sizes.h"
#include "io/gguf.h"
#include "tests/support/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  try {
    const MemoryFile memory(data, size);
    const GgufFile file(memory.path());
    for (const auto& [name, tensor] : file.tensors()) {
      const int64_t rows = tensor.elems() / tensor.row_elems();
      auto row = make_vector<float>(tensor.row_elems());
      file.read_rows(tensor, rows - 1, 1, row.data());
    }
  } catch (const InputError&) {
  }
  return 0;
}
