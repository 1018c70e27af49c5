// Feeds bytes to the safetensors reader: as a whole file, and past the length field as a header alone.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/convert.h"
#include "io/safetensors.h"
#include "tests/support/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  try {
    const MemoryFile memory(data, size);
    const SafetensorsFile file(memory.path());
    std::vector<float> values(1000);
    for (const StoredTensor& tensor : file.tensors()) {
      const int64_t elems = std::min<int64_t>(tensor.elems(), 1000);
      const auto dtype = tensor.dtype();
      if (dtype && is_floating(*dtype)) file.read(tensor, tensor.elems() - elems, elems, DType::kF32, values.data());
    }
  } catch (const InputError&) {
  }
  // The first byte stands for the size of the data, so that small inputs reach the checks behind it.
  if (size == 0) return 0;
  try {
    (void)parse_safetensors_header({reinterpret_cast<const char*>(data) + 1, size - 1}, data[0], "header");
  } catch (const InputError&) {
  }
  return 0;
}
