// Read back by a reader of its own: the framing of TFRecord, then the wire format of Protocol Buffers, field by field.
#include "report/event_file.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/temporary_folder.h"

using namespace spillway;

namespace {

// The remainder of a division of polynomials over GF(2), bit by bit, most significant first: the definition of a CRC,
// with Castagnoli's polynomial as it is written.
uint32_t crc_by_division(std::string_view bytes) {
  const auto reversed = [](uint32_t value, int bits) {
    uint32_t result = 0;
    for (int i = 0; i < bits; ++i) result |= (value >> i & 1U) << (bits - 1 - i);
    return result;
  };
  uint32_t remainder = 0xffffffff;
  for (const char byte : bytes) {
    remainder ^= reversed(static_cast<unsigned char>(byte), 8) << 24;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder << 1) ^ (remainder >> 31 != 0 ? 0x1edc6f41U : 0U);
  }
  return ~reversed(remainder, 32);
}

uint32_t masked(std::string_view bytes) {
  const uint32_t crc = crc_by_division(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

template <typename T>
T number_at(std::string_view text, size_t at) {
  T value;
  std::memcpy(&value, text.data() + at, sizeof(T));
  return value;
}

std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  for (size_t at = 0; at < file.size();) {
    const auto length = number_at<uint64_t>(file, at);
    CHECK(number_at<uint32_t>(file, at + 8) == masked(std::string_view(file).substr(at, 8)));
    records.push_back(file.substr(at + 12, length));
    CHECK(number_at<uint32_t>(file, at + 12 + length) == masked(records.back()));
    at += 16 + length;
  }
  return records;
}

// The fields of a message: their raw content, varints as 8 bytes.
std::multimap<int, std::string> fields_of(std::string_view message) {
  std::multimap<int, std::string> fields;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= static_cast<uint64_t>(byte & 0x7fU) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const uint64_t key = varint();
    uint64_t number = 0;
    size_t length = 0;
    switch (key & 7U) {
      case 0:
        number = varint();
        fields.emplace(key >> 3, std::string(reinterpret_cast<const char*>(&number), 8));
        continue;
      case 1:
        length = 8;
        break;
      case 2:
        length = varint();
        break;
      default:
        REQUIRE((key & 7U) == 5);
        length = 4;
    }
    fields.emplace(key >> 3, std::string(message.substr(at, length)));
    at += length;
  }
  return fields;
}

struct Scalar {
  int64_t step;
  std::string tag;
  float value;
};
std::vector<Scalar> scalars_of(const std::vector<std::string>& records) {
  std::vector<Scalar> scalars;
  for (const std::string& record : records) {
    const auto event = fields_of(record);
    CHECK(number_at<double>(event.find(1)->second, 0) > 1.6e9);  // a time of this century
    if (event.count(5) == 0) continue;
    const auto summary = fields_of(event.find(5)->second);
    const auto [first, last] = summary.equal_range(1);
    for (auto it = first; it != last; ++it) {
      const auto value = fields_of(it->second);
      scalars.push_back({number_at<int64_t>(event.find(2)->second, 0), value.find(1)->second,
                         number_at<float>(value.find(2)->second, 0)});
    }
  }
  return scalars;
}

}  // namespace

TEST_CASE("crc32c is that of RFC 3720 and of the definition") {
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  for (const char* text : {"", "a", "brain.Event:2"}) CHECK(crc32c(text) == crc_by_division(text));
}

TEST_CASE("an event file holds each number under its tag and step") {
  const TemporaryFolder folder;
  EventFile file(folder.path() / "runs" / "one", 0);
  CHECK(file.path().filename().string().starts_with("events.out.tfevents."));
  file.begin_step(1);
  file.add("train", "loss", 2.5);
  file.add("train", "rewards/chosen", -0.125);
  file.end_step();
  file.begin_step(300);
  file.add("eval", "loss", 1e-3);
  file.end_step();
  file.sync();
  const std::vector<std::string> records = records_of(read_file(file.path(), 1 << 20));
  REQUIRE(records.size() == 3);
  CHECK(fields_of(records[0]).find(3)->second == "brain.Event:2");
  const std::vector<Scalar> scalars = scalars_of(records);
  REQUIRE(scalars.size() == 3);
  CHECK(scalars[0].tag == "train/loss");
  CHECK(scalars[0].step == 1);
  CHECK(scalars[0].value == 2.5f);
  CHECK(scalars[1].tag == "train/rewards/chosen");
  CHECK(scalars[1].value == -0.125f);
  CHECK(scalars[2].tag == "eval/loss");
  CHECK(scalars[2].step == 300);
  CHECK(scalars[2].value == 1e-3f);
}

TEST_CASE("a run that goes on has a file of its own, which takes back what was later") {
  const TemporaryFolder folder;
  const EventFile first(folder.path(), 0), second(folder.path(), 7);
  CHECK(first.path() != second.path());
  const std::vector<std::string> records = records_of(read_file(second.path(), 1 << 20));
  REQUIRE(records.size() == 2);
  const auto event = fields_of(records[1]);
  CHECK(number_at<int64_t>(event.find(2)->second, 0) == 8);
  CHECK(number_at<int64_t>(fields_of(event.find(7)->second).find(1)->second, 0) == 1);  // SessionLog.START
}

TEST_CASE("the folder of a run is named by its beginning, as in transformers") {
  const std::string name = event_folder("out", "2026-11-25T22:14:41").string();
  CHECK(name.starts_with("out/runs/Nov25_22-14-41_"));
}
