#include "io/safetensors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/convert.h"

namespace fs = std::filesystem;
using namespace spillway;

namespace {

const fs::path kSafetensorsGolden = fs::path(SPILLWAY_SOURCE_DIR) / "tests" / "golden" / "io";

float golden_value(int64_t i) { return static_cast<float>(i - 7) / 8; }

const StoredTensor& find(const SafetensorsFile& file, std::string_view name) {
  for (const StoredTensor& tensor : file.tensors()) {
    if (tensor.name == name) return tensor;
  }
  throw std::runtime_error("not there");
}

std::string file_of(std::string_view header, std::string_view data) {
  std::string bytes(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes.append(header).append(data);
}

// Returns the message of the InputError that opening such a file throws.
std::string refusal_of_file(std::string_view header, int64_t data_bytes) {
  try {
    (void)parse_safetensors_header(header, data_bytes, "x.safetensors");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).starts_with("[x.safetensors] expected "));
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a file of the real library reads back in every floating dtype") {
  const SafetensorsFile file(kSafetensorsGolden / "mixed.safetensors");
  CHECK(file.tensors().size() == 8);
  CHECK(file.metadata().at("note") == "a text");
  for (const std::string name : {"in_f32", "in_bf16", "in_f16"}) {
    const StoredTensor& tensor = find(file, name);
    CHECK(tensor.elems() == 24);
    float values[24];
    file.read(tensor, 0, 24, DType::kF32, values);
    for (int i = 0; i < 24; ++i) CHECK(values[i] == golden_value(i));
    bf16 halves[6];
    file.read(tensor, 6, 6, DType::kBF16, halves);
    for (int i = 0; i < 6; ++i) CHECK(to_float(halves[i]) == golden_value(6 + i));
  }
  int64_t integers[5];
  file.read(find(file, "in_i64"), 0, 5, DType::kI64, integers);
  CHECK(integers[0] == -2);
  CHECK(find(file, "in_f16").shape_text() == "[2, 3, 4]");
  CHECK(find(file, "empty").elems() == 0);
  CHECK(find(file, "scalar").elems() == 1);
  CHECK(find(file, "in_bool").dtype_name == "BOOL");
  float one;
  CHECK_THROWS_WITH_AS(file.read(find(file, "in_bool"), 0, 1, DType::kF32, &one), doctest::Contains("got BOOL"),
                       InputError);
}

TEST_CASE("a folder of shards reads as one") {
  const SafetensorsFolder folder(kSafetensorsGolden / "sharded");
  CHECK(folder.tensors().size() == 2);
  float row[4];
  folder.read_rows("b", 1, 1, DType::kF32, row);
  CHECK(row[0] == golden_value(16));
  CHECK(folder.find("c") == nullptr);
  CHECK_THROWS_WITH_AS(folder.read("c", DType::kF32, row), doctest::Contains("expected a tensor 'c'"), InputError);
}

TEST_CASE("what is wrong with a folder of shards is named") {
  const TemporaryFolder temporary;
  const auto copy = [&](const char* name) {
    const fs::path to = temporary.path() / name;
    fs::copy(kSafetensorsGolden / "sharded", to);
    return to;
  };
  const auto write_index = [](const fs::path& folder, std::string_view text) {
    write_file(folder / "model.safetensors.index.json", text);
  };
  const fs::path missing = copy("missing");
  fs::remove(missing / "model-00002-of-00002.safetensors");
  CHECK_THROWS_WITH_AS(SafetensorsFolder{missing},
                       doctest::Contains("expected shard 'model-00002-of-00002.safetensors'"), InputError);

  const fs::path wrong = copy("wrong");
  write_index(wrong,
              R"({"weight_map": {"a": "model-00002-of-00002.safetensors", "b": "model-00001-of-00002.safetensors"}})");
  CHECK_THROWS_WITH_AS(SafetensorsFolder{wrong}, doctest::Contains("got the entry 'model-00002"), InputError);

  const fs::path absent = copy("absent");
  write_index(absent,
              R"({"weight_map": {"a": "model-00001-of-00002.safetensors", "c": "model-00001-of-00002.safetensors"}})");
  CHECK_THROWS_WITH_AS(SafetensorsFolder{absent}, doctest::Contains("expected tensor 'c'"), InputError);

  const fs::path outside = copy("outside");
  write_index(outside, R"({"weight_map": {"a": "../secret.safetensors"}})");
  CHECK_THROWS_WITH_AS(SafetensorsFolder{outside}, doctest::Contains("in a file of this folder"), InputError);

  for (const std::string text : {"", "[]", "{}", "{\"weight_map\": 1}", "{\"weight_map\": {\"a\": 1}}"}) {
    write_index(outside, text);
    CHECK_THROWS_AS(SafetensorsFolder{outside}, InputError);
  }

  const fs::path pickled = temporary.path() / "pickled";
  fs::create_directory(pickled);
  CHECK_THROWS_WITH_AS(SafetensorsFolder{pickled}, doctest::Contains("got neither"), InputError);
  write_file(pickled / "pytorch_model.bin", "");
  CHECK_THROWS_WITH_AS(SafetensorsFolder{pickled}, doctest::Contains("got pytorch_model.bin"), InputError);
}

TEST_CASE("headers that do not describe the file are refused") {
  const auto tensor = [](std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return fmt::format(R"({{"a":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape, offsets);
  };
  CHECK(refusal_of_file(tensor("F32", "[2]", "[0,8]"), 8) == "accepted");
  CHECK(refusal_of_file("{}", 0) == "accepted");
  const auto contains = [](const std::string& text, std::string_view part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  contains(refusal_of_file(tensor("F32", "[2]", "[0,8]"), 9), "bytes too many");
  contains(refusal_of_file(tensor("F32", "[2]", "[0,8]"), 7), "within the 7 bytes");
  contains(refusal_of_file(tensor("F32", "[3]", "[0,8]"), 8), "got a size that differs");
  contains(refusal_of_file(tensor("F4", "[3]", "[0,2]"), 2), "got a size that differs");
  contains(refusal_of_file(tensor("F32", "[4611686018427387904,4611686018427387904]", "[0,8]"), 8),
           "got a size that differs");
  contains(refusal_of_file(tensor("F32", "[18446744073709551615]", "[0,8]"), 8), "beyond 2^63");
  contains(refusal_of_file(tensor("F32", "[-2]", "[0,8]"), 8), "a negative number");
  contains(refusal_of_file(tensor("F32", "[2.0]", "[0,8]"), 8), "a fraction");
  contains(refusal_of_file(tensor("F32", "[2]", "[8,0]"), 8), "got bytes 8 to 0");
  contains(refusal_of_file(tensor("F32", "[2]", "[0]"), 8), "fewer than two");
  contains(refusal_of_file(tensor("F32", "[2]", "[0,8,9]"), 8), "got a number");
  contains(refusal_of_file(tensor("F33", "[2]", "[0,8]"), 8), "got 'F33'");
  contains(refusal_of_file(tensor("F32", "[[2]]", "[0,8]"), 8), "got a list");
  contains(refusal_of_file("[]", 0), "got a list");
  contains(refusal_of_file("{\"a\":{\"dtype\":\"F32\"}}", 0), "got only some");
  contains(refusal_of_file("{\"a\":1}", 0), "got a number");
  contains(refusal_of_file("{\"a\":", 0), "expected a header in JSON");
  contains(refusal_of_file("{\"a\\n\xff\":{}}", 0), "expected a header in JSON");
  contains(refusal_of_file("{\"line\\nbreak\":{}}", 0), "line\\nbreak");
  const std::string two =
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"%":{"dtype":"U8","shape":[4],"data_offsets":[*,#]}})";
  const auto variant = [&](std::string name, std::string begin, std::string end) {
    std::string text = two;
    text.replace(text.find('%'), 1, name);
    text.replace(text.find('*'), 1, begin);
    text.replace(text.find('#'), 1, end);
    return text;
  };
  CHECK(refusal_of_file(variant("b", "4", "8"), 8) == "accepted");
  contains(refusal_of_file(variant("b", "2", "6"), 8), "an overlap");
  contains(refusal_of_file(variant("b", "5", "9"), 9), "a gap");
  contains(refusal_of_file(variant("a", "4", "8"), 8), "got two of the name 'a'");
}

TEST_CASE("of a file that is cut short is said what to do, where it was downloaded and where it is a checkpoint's") {
  const std::string_view header = R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})";
  for (const int64_t bytes : {0, 15, 17})
    CHECK(refusal_of_file(header, bytes).ends_with("download it again, or of a checkpoint take another"));
}

TEST_CASE("a file whose length field is wrong is refused") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a.safetensors";
  write_file(path, "short");
  CHECK_THROWS_WITH_AS(SafetensorsFile{path}, doctest::Contains("got 5 bytes"), InputError);
  write_file(path, std::string(8, '\xff') + "{}");
  CHECK_THROWS_WITH_AS(SafetensorsFile{path}, doctest::Contains("expected a header of at most 2 bytes"), InputError);
}

TEST_CASE("NaN, infinity and values too large for the dtype asked for are refused by tensor and element") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "a.safetensors";
  const float values[3] = {1.0f, 3.4e38f, std::numeric_limits<float>::infinity()};
  write_file(path, file_of(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})",
                           {reinterpret_cast<const char*>(values), sizeof values}));
  const SafetensorsFile file(path);
  float floats[3];
  bf16 halves[3];
  file.read(file.tensors()[0], 0, 2, DType::kF32, floats);
  CHECK(floats[1] == 3.4e38f);
  CHECK_THROWS_WITH_AS(file.read(file.tensors()[0], 1, 2, DType::kF32, floats),
                       doctest::Contains("got NaN or infinity at element 2"), InputError);
  CHECK_THROWS_WITH_AS(file.read(file.tensors()[0], 0, 3, DType::kBF16, halves), doctest::Contains("at element 2"),
                       InputError);
  CHECK_THROWS_WITH_AS(file.read(file.tensors()[0], 0, 2, DType::kBF16, halves),
                       doctest::Contains("got a value too large for bf16 at element 1"), InputError);
}

TEST_CASE("conversion covers blocks and reports the first value that is not finite") {
  std::vector<float> values(10000, 1.0f);
  CHECK(find_nonfinite(values.data(), DType::kF32, 10000) == -1);
  values[9000] = values[9999] = std::nanf("");
  CHECK(find_nonfinite(values.data(), DType::kF32, 10000) == 9000);
}
