#include "saved/base_identity.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "base/temporary_folder.h"
#include "io/safetensors_writer.h"

using namespace spillway;
using namespace spillway::train;

namespace {

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

BaseIdentity identity_of(const std::vector<Tensor>& tensors) {
  const TemporaryFolder folder;
  std::vector<TensorSpec> specs;
  for (const Tensor& tensor : tensors) specs.push_back({tensor.name, DType::kF32, tensor.shape});
  SafetensorsFolderWriter writer(folder.path(), specs);
  for (const Tensor& tensor : tensors)
    writer.append(tensor.name, tensor.values.data(), DType::kF32, std::ssize(tensor.values));
  writer.commit();
  return identify_base(SafetensorsFolder(folder.path()));
}

}  // namespace

TEST_CASE("the identity of a base tells names, shapes, and values at the beginning, middle and end of a tensor") {
  const Tensor small{"small", {3}, {1, 2, 3}}, large{"large", {100, 200}, std::vector<float>(20000, 0.5f)};
  const BaseIdentity identity = identity_of({small, large});
  CHECK(difference(identity, identity_of({small, large})).empty());
  CHECK(difference(identity, identity_of({small})) == "without 'large'");
  CHECK(difference(identity_of({small}), identity) == "with 'large' besides");
  Tensor reshaped = large;
  reshaped.shape = {200, 100};
  CHECK(difference(identity, identity_of({small, reshaped})) == "whose 'large' is F32[200, 100], not F32[100, 200]");
  for (const size_t at : {size_t{0}, size_t{10000}, size_t{19999}}) {
    CAPTURE(at);
    Tensor other = large;
    other.values[at] = 0.25f;
    CHECK(difference(identity, identity_of({small, other})) == "with other values in 'large'");
  }
}

TEST_CASE("codes that a file calls numbers have an identity, whatever numbers they would be") {
  const auto codes = [](float value) { return identity_of({{"codes", {2}, {value, 1}}}); };
  const BaseIdentity nan = codes(std::numeric_limits<float>::quiet_NaN());
  CHECK(difference(nan, codes(std::numeric_limits<float>::quiet_NaN())).empty());
  CHECK(difference(nan, codes(std::numeric_limits<float>::infinity())) == "with other values in 'codes'");
}
