#include "model/quantised/quantised_tensors.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <span>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/safetensors_writer.h"
#include "ops/quantise/four_bit.h"
#include "ops/quantise/int8_rows.h"
#include "ops/quantised_matmul/quantised_weight.h"
#include "tensor/codebook.h"
#include "tests/support/dequantised.h"
#include "tests/support/source_folder.h"

using namespace spillway;
using spillway::testing::dequantised;

namespace {

// The output of transformers and bitsandbytes for tools/make_quantised_goldens.py.
const std::filesystem::path kTensorsGolden = spillway::testing::source_folder() / "tests/golden/quantised";

constexpr const char* kQ = "model.layers.0.self_attn.q_proj.weight";

std::vector<float> read_floats(const SafetensorsFolder& folder, const std::string& name) {
  std::vector<float> values(static_cast<size_t>(folder.find(name)->elems()));
  folder.read(name, DType::kF32, values.data());
  return values;
}
template <typename T>
std::vector<T> read_codes(const SafetensorsFolder& folder, const std::string& name, DType dtype) {
  std::vector<T> values(static_cast<size_t>(folder.find(name)->elems()));
  folder.read(name, dtype, values.data());
  return values;
}

// A file's tensors, to be changed and written again.
struct Content {
  TensorSpec spec;
  std::string bytes;
};
using Contents = std::map<std::string, Content>;

Contents contents_of(const SafetensorsFolder& folder) {
  Contents result;
  for (const auto& [name, entry] : folder.tensors()) {
    Content& content = result[name];
    content.spec = {name, entry.tensor->dtype().value(), entry.tensor->shape};
    content.bytes.resize(static_cast<size_t>(entry.tensor->bytes));
    folder.read_bytes(name, 0, std::as_writable_bytes(std::span(content.bytes)));
  }
  return result;
}

// The error that reading a golden folder ends in after `change`.
std::string error_after(const char* golden, const std::function<void(Contents&)>& change) {
  Contents contents = contents_of(SafetensorsFolder(kTensorsGolden / golden));
  change(contents);
  std::vector<TensorSpec> specs;
  for (const auto& [name, content] : contents) specs.push_back(content.spec);
  const TemporaryFolder folder;
  SafetensorsWriter writer(folder.path() / "model.safetensors", specs);
  for (const auto& [name, content] : contents)
    writer.append(name, content.bytes.data(), content.spec.dtype, content.spec.elems());
  writer.commit();
  try {
    const SafetensorsFolder changed(folder.path());
    for (const auto& [name, tensor] : find_quantised_tensors(changed)) (void)dequantised(changed, tensor);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

void set_float(Content& content, size_t index, float value) {
  std::memcpy(content.bytes.data() + index * sizeof value, &value, sizeof value);
}
void replace(Content& content, std::string_view from, std::string_view to) {
  content.bytes.replace(content.bytes.find(from), from.size(), to);
  content.spec.shape = {std::ssize(content.bytes)};
}

}  // namespace

TEST_CASE("weights that bitsandbytes has quantised are dequantised to its bits") {
  for (const char* name : {"nf4", "nf4_bf16_storage", "fp4", "int8"}) {
    CAPTURE(name);
    const SafetensorsFolder folder(kTensorsGolden / name), wanted(kTensorsGolden / name, "dequantised");
    const QuantisedTensors tensors = find_quantised_tensors(folder);
    REQUIRE(tensors.size() == 7);
    CHECK(tensors.size() == wanted.tensors().size());
    size_t parts = 0;
    for (const auto& [weight, tensor] : tensors) {
      CAPTURE(weight);
      CHECK(tensor.shape.dims() == wanted.find(weight)->shape);
      std::vector<float> values = dequantised(folder, tensor);
      if (!tensor.four) {  // the library's are in bf16, what it was asked to compute in
        for (float& value : values) value = to_float(to_bf16(value));
      }
      CHECK(values == read_floats(wanted, weight));
      parts += tensor.tensors().size();
      for (const std::string& part : tensor.tensors()) CHECK(folder.find(part));
    }
    // Besides those: embedding, head and three norms.
    CHECK(folder.tensors().size() == parts + 5);
  }
  CHECK(find_quantised_tensors(SafetensorsFolder(kTensorsGolden / "dense")).empty());
}

TEST_CASE("quantising gives the codes and the scales of the library") {
  ThreadPool pool(2);
  const SafetensorsFolder vectors(kTensorsGolden, "vectors");
  for (const auto& [name, format] : {std::pair{"nf4_32", QuantisedFormat{WeightCoding::kNf4, 32, true}},
                                     {"nf4_64_bf16", {WeightCoding::kNf4, 64, false}},
                                     {"nf4_4096_f16", {WeightCoding::kNf4, 4096, false}},
                                     {"fp4_64", {WeightCoding::kFp4, 64, false}},
                                     {"fp4_128_bf16", {WeightCoding::kFp4, 128, false}}}) {
    CAPTURE(name);
    const auto part = [name = name](const char* which) { return fmt::format("{}.{}", name, which); };
    const std::vector<float> x = read_floats(vectors, part("x"));
    std::vector<uint8_t> wanted = read_codes<uint8_t>(vectors, part("codes"), DType::kU8);
    if (format.coding == WeightCoding::kFp4) {  // the library writes either zero
      for (uint8_t& byte : wanted) {
        if (byte >> 4 == 8) byte = static_cast<uint8_t>(byte & 15);
        if ((byte & 15) == 8) byte = static_cast<uint8_t>(byte & 0xF0);
      }
    }
    std::vector<uint8_t> codes(wanted.size());
    std::vector<float> absmax(static_cast<size_t>(four_bit_blocks(std::ssize(x), format.block_size)));
    ops::quantise_four_bit(x, format, codes, absmax, pool);
    CHECK(codes == wanted);
    if (!format.double_quant) {
      CHECK(absmax == read_floats(vectors, part("absmax")));
      continue;
    }
    std::vector<uint8_t> scale_codes(absmax.size());
    std::vector<float> nested((absmax.size() + 255) / 256);
    const float offset = ops::double_quantise(absmax, scale_codes, nested, pool);
    const float library_offset = read_floats(vectors, part("offset"))[0];
    CHECK(offset == doctest::Approx(library_offset).epsilon(1e-6));
    // On a CPU the library rounds scales to a coarser table (its pull request 1901); what comes back is no nearer.
    const std::vector<float> library = read_floats(vectors, part("scales"));
    for (size_t i = 0; i < absmax.size(); ++i)
      CHECK(std::abs(kDynamicSigned[scale_codes[i]] * nested[i / 256] + offset - absmax[i]) <=
            std::abs(library[i] - absmax[i]) + 1e-5F * nested[i / 256]);
  }
  const std::vector<float> x = read_floats(vectors, "int8.x"), wanted_absmax = read_floats(vectors, "int8.absmax");
  std::vector<int8_t> codes(x.size());
  std::vector<float> absmax(wanted_absmax.size()), back(x.size());
  const int64_t rows = std::ssize(absmax), columns = std::ssize(x) / rows;
  ops::quantise_int8_rows(x, codes, absmax, pool);
  CHECK(codes == read_codes<int8_t>(vectors, "int8.codes", DType::kI8));
  CHECK(absmax == wanted_absmax);
  ops::decode({codes.data(),
               absmax.data(),
               nullptr,
               rows,
               columns,
               {.coding = WeightCoding::kInt8, .weight_dtype = DType::kF32}},
              {.rows = rows, .columns = columns}, DType::kF32, columns, back.data());
  CHECK(back == read_floats(vectors, "int8.back"));
}

TEST_CASE("a folder whose parts do not fit is refused with the tensor's name") {
  const std::string q = kQ, scb = "model.layers.0.self_attn.q_proj.SCB", state = q + ".quant_state.bitsandbytes__nf4";
  const auto check = [&](const char* golden, const std::string& name, const std::function<void(Contents&)>& change) {
    const std::string error = error_after(golden, change);
    CAPTURE(error);
    CHECK(error.find("'" + name + "'") != std::string::npos);
  };
  REQUIRE(error_after("nf4", [](Contents&) {}).empty());
  REQUIRE(error_after("int8", [](Contents&) {}).empty());
  for (const std::string part : {"", ".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"})
    check("nf4", q + part, [&](Contents& c) { c.erase(q + part); });
  check("nf4", q, [&](Contents& c) { c.erase(state); });
  check("nf4", q, [&](Contents& c) { c.at(q).bytes.resize(799), c.at(q).spec.shape = {799, 1}; });
  check("nf4", q, [&](Contents& c) { replace(c.at(state), "[40, 40]", "[40, 42]"); });
  check("nf4", q + ".absmax", [&](Contents& c) { replace(c.at(state), "64", "32"); });
  check("nf4", state, [&](Contents& c) { replace(c.at(state), "nf4", "fp4"); });
  check("nf4", state, [&](Contents& c) { replace(c.at(state), "{", "["); });
  check("nf4", q + ".absmax", [&](Contents& c) { c.at(q + ".absmax").spec.dtype = DType::kI8; });
  check("nf4", q + ".quant_map", [&](Contents& c) { set_float(c.at(q + ".quant_map"), 3, -0.39F); });
  check("nf4", q + ".nested_quant_map", [&](Contents& c) { set_float(c.at(q + ".nested_quant_map"), 200, 0.1F); });
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  for (const float scale : {kNan, kInf, -1.0F}) {
    CAPTURE(scale);
    const auto set = [&](const std::string& name) {
      return [&, name](Contents& c) { set_float(c.at(name), 0, scale); };
    };
    check("nf4", q + ".nested_absmax", set(q + ".nested_absmax"));
    check("fp4", q + ".absmax", set(q + ".absmax"));
    check("int8", scb, set(scb));
  }
  check("int8", q, [&](Contents& c) { c.erase(scb); });
  check("int8", scb, [&](Contents& c) { c.erase(q); });
  check("int8", q, [&](Contents& c) { c.at(q).spec.dtype = DType::kU8; });
  check("int8", scb, [&](Contents& c) { c.at(scb).bytes.resize(156), c.at(scb).spec.shape = {39}; });
  check("int8", q + "_format", [&](Contents& c) { c.at(q + "_format").bytes[0] = 1; });
}

TEST_CASE("weights without a format, and maps whose last bits differ, are taken") {
  const std::string map = std::string(kQ) + ".nested_quant_map";
  CHECK(error_after("int8", [](Contents& c) { c.erase(std::string(kQ) + "_format"); }).empty());
  CHECK(error_after("nf4", [&](Contents& c) {
          float value = 0;
          std::memcpy(&value, c.at(map).bytes.data() + 4 * 200, 4);
          set_float(c.at(map), 200, std::nextafter(value, 1.0F));
        }).empty());
}
