#include "model/storages/fp8.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/safetensors_writer.h"
#include "model/wrapper_parts.h"

using namespace spillway;

namespace {

constexpr int64_t kRows = 4, kColumns = 6;

// A code that is no NaN, for each element of `elems`.
std::vector<uint8_t> fp8_codes(int64_t elems) {
  std::vector<uint8_t> codes;
  for (int64_t i = 0; i < elems; ++i) codes.push_back(static_cast<uint8_t>(i * 37 % 127 + (i % 3 == 0 ? 128 : 0)));
  return codes;
}

// The number of a code by the definition of E4M3: a sign, four bits of exponent with bias 7, three bits of mantissa.
double e4m3(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (code & 128) != 0 ? -size : size;
}

struct Fp8File {
  std::vector<int64_t> shape = {kRows, kColumns};
  std::vector<int64_t> scale_shape;
  std::vector<float> scales;
  std::string name = "m.weight", scale = "m.weight_scale_inv", codes_dtype = "F8_E4M3";
  DType scale_dtype = DType::kF32;
  std::map<std::string, std::vector<int64_t>> of_inputs = {};  // shapes by name

  [[nodiscard]] int64_t elems() const { return Shape(std::span(shape)).elems(); }
  void write(const std::filesystem::path& folder, std::vector<uint8_t> codes) const {
    std::vector<TensorSpec> specs = {
        {name, DType::kU8, shape, codes_dtype, elems()}, {scale, scale_dtype, scale_shape}, {"norm.weight", {}, {2}}};
    for (const auto& [tensor, dims] : of_inputs) specs.push_back({tensor, DType::kF32, dims});
    SafetensorsWriter writer(folder / "model.safetensors", specs);
    writer.append(name, codes.data(), DType::kU8, elems());
    writer.append(scale, scales.data(), DType::kF32, std::ssize(scales));
    const std::vector<float> ones(8, 1);
    writer.append("norm.weight", ones.data(), DType::kF32, 2);
    for (const auto& [tensor, dims] : of_inputs)
      writer.append(tensor, ones.data(), DType::kF32, Shape(std::span(dims)).elems());
    writer.commit();
  }
  [[nodiscard]] SafetensorsFolder folder(const TemporaryFolder& room) const {
    write(room.path(), fp8_codes(elems()));
    return SafetensorsFolder(room.path());
  }
};

// Reads the parts of slab `slab` of the file's weight, piece by piece, and decodes them.
std::vector<float> decoded(const SafetensorsFolder& folder, const Fp8File& file, const Storage& storage,
                           int64_t slab = 0) {
  const Shape shape = {file.shape.end()[-2], file.shape.end()[-1]};
  const WeightSpec weight{shape, DType::kF32};
  std::vector<std::vector<std::byte>> contents;
  std::vector<TensorView> views;
  for (const StoragePart& part : storage.parts(weight)) {
    TensorView view{nullptr, part.dtype, part.shape};
    view.data = contents.emplace_back(static_cast<size_t>(view.bytes())).data();
    const int64_t elems = part.shape.elems(), half = (elems + 1) / 2;
    for (const auto& [first, count] : {std::pair(int64_t{0}, half), {half, elems - half}}) {
      const TensorView piece{view.as<std::byte>() + first * size_of(part.dtype), part.dtype, {count}};
      storage.read(folder, file.name, weight, views.size(), piece, slab * elems + first);
    }
    views.push_back(view);
  }
  std::vector<float> elements(static_cast<size_t>(shape.elems()));
  storage.decode(weight, views, 0, shape[0], elements.data());
  return elements;
}

std::string tensors_error(const Fp8File& file, const QuantisedFormat& format) {
  const TemporaryFolder room;
  try {
    const SafetensorsFolder folder = file.folder(room);
    const LinearStorage stored = stored_fp8(folder, format);
    (void)stored.storage->tensors(file.name, {Shape(std::span(file.shape)), DType::kF32});
    (void)decoded(folder, file, *stored.storage);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// Compares with the formula: scale_at(row, column) of slab 0.
template <typename ScaleAt>
void check_elements(const Fp8File& file, const QuantisedFormat& format, const ScaleAt& scale_at, int64_t slab = 0) {
  const TemporaryFolder room;
  const SafetensorsFolder folder = file.folder(room);
  const LinearStorage stored = stored_fp8(folder, format);
  CHECK(stored.of("m").get() == stored.storage.get());
  CHECK_FALSE(stored.of("norm")->is_coded());
  const std::vector<float> elements = decoded(folder, file, *stored.storage, slab);
  const std::vector<uint8_t> codes = fp8_codes(file.elems());
  for (int64_t i = 0; i < std::ssize(elements); ++i) {
    CAPTURE(i);
    const double number = e4m3(nth(codes, slab * std::ssize(elements) + i));
    CHECK(nth(elements, i) == static_cast<float>(number) * scale_at(i / kColumns, i % kColumns));
  }
}

}  // namespace

TEST_CASE("weights in FP8 are the numbers of their codes times the scales of their blocks") {
  // Blocks of 3 x 4, of which those at the ends are smaller.
  check_elements({.scale_shape = {2, 2}, .scales = {0.1f, 0.3f, 7.0f, 0.7f}}, fp8_format(3, 4),
                 [](int64_t row, int64_t column) {
                   return std::vector{0.1f, 0.3f, 7.0f, 0.7f}[row / 3 * 2 + column / 4];
                 });
  // One scale, of no dimension, and for each row, as compressed-tensors names them.
  check_elements({.scale_shape = {}, .scales = {0.1f}}, fp8_format(1, 0), [](int64_t, int64_t) { return 0.1f; });
  check_elements({.scale_shape = {4, 1},
                  .scales = {0.5f, 0.25f, 3, 4},
                  .scale = "m.weight_scale",
                  .scale_dtype = DType::kBF16,
                  .of_inputs = {{"m.input_scale", {1}}}},
                 fp8_format(1, 0), [](int64_t row, int64_t) {
                   return std::vector{0.5f, 0.25f, 3.0f, 4.0f}[row];
                 });
}

TEST_CASE("experts of a layer in FP8 are a stack with scales for the halves of each") {
  const Fp8File file{.shape = {2, kRows, kColumns},
                     .scale_shape = {2, 2, 1},
                     .scales = {0.1f, 0.2f, 0.3f, 0.4f},
                     .name = "m.experts.gate_up_proj",
                     .scale = "m.experts.gate_up_proj_scale_inv",
                     .of_inputs = {{"m.experts.gate_up_proj_activation_scale", {2}}}};
  check_elements(
      file, fp8_format(1, 0), [](int64_t row, int64_t) { return row < 2 ? 0.3f : 0.4f; }, 1);
  const TemporaryFolder room;
  const LinearStorage stored = stored_fp8(file.folder(room), fp8_format(1, 0));
  CHECK(stored.of_experts("m.experts").get() == stored.storage.get());
  CHECK(has_input_scales(*stored.storage));
  for (const char* part : {"", "_scale_inv", "_activation_scale"})
    CHECK(is_of_fp8(SafetensorsFolder(room.path()), file.name + part));
  CHECK_FALSE(is_of_fp8(SafetensorsFolder(room.path()), "norm.weight"));
  const std::vector<ParameterTensor> tensors =
      stored.storage->tensors(file.name, {Shape(std::span(file.shape)), DType::kF32});
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].foreign_dtype == "F8_E4M3");
  CHECK(tensors[2].name == "m.experts.gate_up_proj_activation_scale");
}

TEST_CASE("FP8 whose scales do not fit is refused with the tensor's name") {
  const Fp8File good{.scale_shape = {2, 2}, .scales = {1, 2, 3, 4}};
  CHECK(tensors_error(good, fp8_format(3, 4)).empty());
  const auto check = [](const Fp8File& file, const QuantisedFormat& format, const char* message) {
    const std::string error = tensors_error(file, format);
    CAPTURE(error);
    CHECK(error.find(message) != std::string::npos);
  };
  check({.scale_shape = {1, 4}, .scales = {1, 2, 3, 4}}, fp8_format(3, 4),
        "['m.weight_scale_inv'] expected scales of shape [2, 2] for a weight of [4, 6] in blocks of 3 x 4, got [1, 4]");
  check(good, fp8_format(1, 0), "expected scales of shape [4, 1] for a weight of [4, 6] in rows");
  check({.scale_shape = {3}, .scales = {1, 2, 3}}, fp8_format(1, 0), "got [3]");
  check({.scale_shape = {1, 1, 1, 1, 1, 1}, .scales = {1}}, fp8_format(1, 0), "got [1, 1, 1, 1, 1, 1]");
  CHECK(tensors_error({.scale_shape = {2, 2}, .scales = {1, 2, 0, 4}}, fp8_format(3, 4)).empty());  // a block of zeros
  for (const float bad : {-1.0f, 0x1p119f})
    check({.scale_shape = {2, 2}, .scales = {1, 2, bad, 4}}, fp8_format(3, 4),
          "['m.weight_scale_inv'] expected scales of at least zero");
  for (const float bad : {HUGE_VALF, std::nanf("")})
    check({.scale_shape = {}, .scales = {bad}}, fp8_format(1, 0), "m.weight_scale_inv");
  check({.scale_shape = {2, 2}, .scales = {1, 2, 3, 4}, .scale = "m.scale"}, fp8_format(3, 4),
        "expected a tensor 'm.weight_scale_inv' beside 'm.weight', got none");
  check({.scale_shape = {2, 2}, .scales = {1, 2, 3, 4}, .codes_dtype = "F8_E5M2"}, fp8_format(3, 4),
        "expected weights in F8_E4M3, as config.json's quantization_config says, got none");
}

TEST_CASE("NaN among codes of FP8 is refused with its place") {
  for (const uint8_t nan : {0x7F, 0xFF}) {
    const TemporaryFolder room;
    const Fp8File file{.scale_shape = {}, .scales = {1}};
    std::vector<uint8_t> codes = fp8_codes(file.elems());
    codes[17] = nan;
    file.write(room.path(), codes);
    const SafetensorsFolder folder(room.path());
    const LinearStorage stored = stored_fp8(folder, fp8_format(1, 0));
    CHECK_THROWS_WITH_AS((void)decoded(folder, file, *stored.storage),
                         "['m.weight'] expected codes that are numbers, got NaN at element 17; download the file again",
                         InputError);
  }
}

TEST_CASE("experts of a layer that are codes in part are refused") {
  const TemporaryFolder room;
  const std::vector<TensorSpec> specs = {{"m.experts.0.up_proj.weight", DType::kU8, {1, 2}, "F8_E4M3", 2},
                                         {"m.experts.0.up_proj.weight_scale_inv", DType::kF32, {1, 1}},
                                         {"m.experts.1.up_proj.weight", DType::kBF16, {1, 2}}};
  SafetensorsWriter writer(room.path() / "model.safetensors", specs);
  const std::vector<float> ones(2, 1);
  const std::vector<uint8_t> codes(2, 8);
  writer.append(specs[0].name, codes.data(), DType::kU8, 2);
  writer.append(specs[1].name, ones.data(), DType::kF32, 1);
  writer.append(specs[2].name, ones.data(), DType::kF32, 2);
  writer.commit();
  CHECK_THROWS_WITH_AS((void)stored_fp8(SafetensorsFolder(room.path()), fp8_format(128, 128)),
                       doctest::Contains("expected 'm.experts.1.up_proj.weight' in F8_E4M3, as "
                                         "'m.experts.0.up_proj.weight' is, got BF16"),
                       InputError);
}

TEST_CASE("another part of a model that holds FP8 is left out of what is written whole, and no other is") {
  const TemporaryFolder room;
  const Fp8File file{.scale_shape = {2, 2},
                     .scales = {1, 2, 3, 4},
                     .name = "model.layers.3.mlp.weight",
                     .scale = "model.layers.3.mlp.weight_scale_inv",
                     .of_inputs = {{"model.layers.3.enorm.weight", {2}}, {"model.layers.31.enorm.weight", {2}}}};
  const SafetensorsFolder folder = file.folder(room);
  ParameterTable parameters;
  parameters.set_own_beginnings({"norm."});
  CHECK(parts_left_out(folder, parameters) == std::set<std::string, std::less<>>{"model.layers.3"});
  const std::vector<TensorSpec> kept = tensors_of_wrapper_parts(folder, parameters);
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].name == "model.layers.31.enorm.weight");
  CHECK(part_of("vision_tower.block.0.weight") == "vision_tower");
  CHECK(part_of("model.visual.block.0.weight") == "model.visual");
}
