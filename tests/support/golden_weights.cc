#include "tests/support/golden_weights.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace spillway::testing {

namespace fs = std::filesystem;

namespace {

std::vector<float> read_tensor(const SafetensorsFile& file, const StoredTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elems()));
  file.read(tensor, 0, tensor.elems(), DType::kF32, values.data());
  return values;
}

const StoredTensor& find(const SafetensorsFile& file, const std::string& name) {
  for (const StoredTensor& tensor : file.tensors())
    if (tensor.name == name) return tensor;
  FAIL("no tensor ", name);
  return file.tensors().front();
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return std::sqrt(sum);
}

}  // namespace

double distance_of_weights(const fs::path& golden, const fs::path& start, const fs::path& ours,
                           std::string_view prefix) {
  const SafetensorsFile wanted(golden), begun(start), got(ours);
  double off = 0, update = 0;
  for (const StoredTensor& tensor : wanted.tensors()) {
    CAPTURE(tensor.name);
    const std::vector<float> trl = read_tensor(wanted, tensor);
    off += std::pow(distance(read_tensor(got, find(got, std::string(prefix) + tensor.name)), trl), 2);
    update += std::pow(distance(read_tensor(begun, find(begun, tensor.name)), trl), 2);
  }
  return std::sqrt(off) / std::sqrt(update);
}

}  // namespace spillway::testing
