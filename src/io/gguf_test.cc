#include "io/gguf.h"

#include <doctest/doctest.h>

#include <cstring>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace fs = std::filesystem;
using namespace spillway;

namespace {

const fs::path kGolden = fs::path(SPILLWAY_SOURCE_DIR) / "tests" / "golden" / "io" / "types.gguf";

// Builds small files by hand, right or wrong.
struct Bytes {
  std::string bytes;

  template <typename T>
  Bytes& number(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& text(std::string_view value) {
    number<uint64_t>(value.size());
    bytes.append(value);
    return *this;
  }
  Bytes& start(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    bytes = "GGUF";
    return number(version).number(tensors).number(keys);
  }
  // Adds a tensor of `dims` (innermost first) and an encoding.
  Bytes& tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
    text(name).number(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) number(dim);
    return number(type).number(offset);
  }
  // Adds padding up to the data, and the data.
  Bytes& data(size_t count) {
    bytes.resize((bytes.size() + 31) / 32 * 32 + count);
    return *this;
  }
};

std::string refusal(const Bytes& content) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "x.gguf";
  write_file(path, content.bytes);
  try {
    (void)GgufFile(path);
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("x.gguf] expected ") != std::string::npos);
    return error.what();
  }
  return "accepted";
}

void contains(const std::string& text, std::string_view part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("every metadata type reads as the gguf package wrote it") {
  const GgufFile file(kGolden);
  const auto integer = [&](std::string_view key) { return file.get<int64_t>(key); };
  CHECK(integer("test.u8") == 200);
  CHECK(integer("test.i8") == -100);
  CHECK(integer("test.u16") == 60000);
  CHECK(integer("test.i16") == -30000);
  CHECK(integer("test.u32") == 4'000'000'000);
  CHECK(integer("test.i32") == -2'000'000'000);
  CHECK(integer("test.u64") == int64_t{1} << 62);
  CHECK(integer("test.i64") == -(int64_t{1} << 62));
  CHECK(file.get<double>("test.f32") == 0.1f);
  CHECK(file.get<double>("test.f64") == 0.1);
  CHECK(file.get<bool>("test.bool"));
  CHECK(file.get<std::string>("test.string") == "häuser");
  CHECK(file.get<std::vector<std::string>>("test.strings") == std::vector<std::string>{"a", "", "ĠĠ"});
  CHECK(file.get<std::vector<int64_t>>("test.ints") == std::vector<int64_t>{1, -2, 3});
  CHECK(file.get<std::vector<double>>("test.floats") == std::vector<double>{0.5, -1.5});
  CHECK(file.find<bool>("test.none") == nullptr);
  CHECK_THROWS_WITH_AS((void)file.get<bool>("test.none"), doctest::Contains("expected the key 'test.none', got none"),
                       InputError);
  CHECK_THROWS_WITH_AS((void)file.get<bool>("test.u8"), doctest::Contains("of another type"), InputError);
}

TEST_CASE("every encoding dequantizes to the bits of the gguf package") {
  const GgufFile file(kGolden);
  int encodings = 0;
  for (const auto& [name, tensor] : file.tensors()) {
    if (name.ends_with(".values")) continue;
    INFO(name);
    const GgufTensor* expected = file.find_tensor(name + ".values");
    REQUIRE(expected != nullptr);
    REQUIRE(tensor.elems() == 512);
    std::vector<float> values(512), reference(512);
    file.read_rows(tensor, 0, 1, values.data());
    file.read_rows(*expected, 0, 1, reference.data());
    CHECK(std::memcmp(values.data(), reference.data(), 512 * sizeof(float)) == 0);
    ++encodings;
  }
  CHECK(encodings == 16);
}

TEST_CASE("a part of a tensor reads as the same part of the whole") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "x.gguf";
  Bytes content;
  content.start(1, 0, 2).tensor("t", {32, 3}, 0, 0).data(3 * 32 * 4);
  const float mark = 2.5f;
  std::memcpy(content.bytes.data() + content.bytes.size() - 32 * 4, &mark, sizeof mark);
  write_file(path, content.bytes);
  const GgufFile file(path);
  CHECK(file.tensors().at("t").shape == std::vector<int64_t>{3, 32});
  float row[32];
  file.read_rows(file.tensors().at("t"), 2, 1, row);
  CHECK(row[0] == 2.5f);
}

TEST_CASE("GGUF files that are broken are refused with the reason") {
  contains(refusal({"GGML"}), "expected a GGUF file");
  contains(refusal({"GG"}), "expected room for 1 numbers");
  contains(refusal(Bytes().start(0, 0, 1)), "version 2 or 3, got 1");
  contains(refusal(Bytes().start(0, 0, 0x03000000)), "big-endian");
  CHECK(refusal(Bytes().start(0, 0)) == "accepted");
  contains(refusal(Bytes().start(uint64_t{1} << 60, 0)), "tensors at byte 24");
  contains(refusal(Bytes().start(0, uint64_t{1} << 63)), "metadata keys at byte 24");

  const auto with_key = [](auto... numbers) {
    Bytes content;
    content.start(0, 1).text("key");
    (content.number(numbers), ...);
    content.bytes.resize(content.bytes.size() + 64);
    return refusal(content);
  };
  CHECK(with_key(uint32_t{4}, uint32_t{7}) == "accepted");
  contains(with_key(uint32_t{13}), "type of 0 to 12");
  contains(with_key(uint32_t{8}, uint64_t{1} << 40), "bytes of text");
  contains(with_key(uint32_t{9}, uint32_t{8}, uint64_t{1} << 40), "list items");
  contains(with_key(uint32_t{9}, uint32_t{9}, uint64_t{1}), "a list of lists");
  contains(with_key(uint32_t{10}, ~uint64_t{0}), "below 2^63");

  Bytes twice;
  twice.start(0, 2);
  for (int i = 0; i < 2; ++i) twice.text("key").number(uint32_t{7}).number(uint8_t{1});
  contains(refusal(twice), "got two of 'key'");
  contains(refusal(Bytes().start(0, 1).text("general.alignment").number(uint32_t{4}).number(uint32_t{3})),
           "power of two");
}

TEST_CASE("GGUF tensors that do not fit their file are refused") {
  const auto one = [](std::vector<uint64_t> dims, uint32_t type, uint64_t offset, size_t bytes) {
    return refusal(Bytes().start(1, 0).tensor("t", std::move(dims), type, offset).data(bytes));
  };
  CHECK(one({32}, 2, 0, 18) == "accepted");
  contains(one({32}, 2, 0, 17), "within the file");
  contains(one({32}, 2, 16, 40), "within the file");
  contains(one({32}, 2, ~uint64_t{0} / 2 / 32 * 32, 18), "within the file");
  contains(one({33}, 2, 0, 40), "whole Q4_0 blocks");
  contains(one({32, 0}, 2, 0, 40), "whole Q4_0 blocks");
  contains(one({uint64_t{1} << 40, uint64_t{1} << 40}, 0, 0, 40), "got [1099511627776, 1099511627776]");
  contains(one({}, 0, 0, 40), "1 to 4 dimensions");
  contains(one({1, 1, 1, 1, 1}, 0, 0, 40), "1 to 4 dimensions");
  contains(one({32}, 16, 0, 40), "got encoding 16");
  contains(refusal(Bytes().start(2, 0).tensor("a", {16}, 0, 0).tensor("b", {16}, 0, 32).data(96)), "on the same bytes");
  contains(refusal(Bytes().start(2, 0).tensor("a", {8}, 0, 0).tensor("a", {8}, 0, 32).data(96)), "got two of 'a'");
}

TEST_CASE("GGUF values that are not finite are refused") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "x.gguf";
  Bytes content;
  content.start(1, 0).tensor("t", {4}, 0, 0).data(16);
  std::memset(content.bytes.data() + content.bytes.size() - 4, 0xFF, 4);
  write_file(path, content.bytes);
  const GgufFile file(path);
  float row[4];
  CHECK_THROWS_WITH_AS(file.read_rows(file.tensors().at("t"), 0, 1, row),
                       doctest::Contains("NaN or infinity at element 3"), InputError);
}
