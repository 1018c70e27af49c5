#include "report/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <ctime>

#include "base/local_time.h"
#include "base/this_host.h"
#include "io/file.h"
#include "report/trackers/protobuf.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// Fields of Event, Summary, Summary.Value and SessionLog, by their numbers.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
constexpr int kSummaryValue = 1, kTag = 1, kSimpleValue = 2, kStatus = 1;
constexpr uint64_t kStart = 1;  // of a SessionLog

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc % 2 == 1 ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}();

// Returns a name that no file of the folder has. Files of a folder are read in the order of their names. Two of one
// second, by one process, are told by the number.
fs::path new_path(const fs::path& folder) {
  const auto second = static_cast<int64_t>(wall_seconds());
  fs::path path;
  for (int number = 0; path.empty() || fs::exists(path); ++number)
    path = folder / fmt::format("events.out.tfevents.{}.{}.{}.{}", second, host_name(), ::getpid(), number);
  return path;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8U; }

fs::path event_folder(const fs::path& output, std::string_view started) {
  const std::tm time = time_from_text(started).value_or(local_now());
  std::array<char, 32> text{};
  (void)std::strftime(text.data(), text.size(), "%b%d_%H-%M-%S", &time);
  return output / "runs" / fmt::format("{}_{}", text.data(), host_name());
}

EventFile::EventFile(const fs::path& folder, int64_t resumed_step) {
  create_folders(folder);
  file_ = AppendFile(new_path(folder), 0);
  write_event(0, kFileVersion, "brain.Event:2");
  if (resumed_step == 0) return;
  std::string log;
  protobuf::append_number(log, kStatus, kStart);
  write_event(resumed_step + 1, kSessionLog, log);
}

void EventFile::begin_step(int64_t step) {
  step_ = step;
  summary_.clear();
}

void EventFile::add(std::string_view prefix, std::string_view key, double value) {
  value_.clear();
  tag_.assign(prefix);
  tag_ += '/';
  tag_ += key;
  protobuf::append_bytes(value_, kTag, tag_);
  protobuf::append_float(value_, kSimpleValue, static_cast<float>(value));
  protobuf::append_bytes(summary_, kSummaryValue, value_);
}

void EventFile::end_step() { write_event(step_, kSummary, summary_); }

// A record: the length of its content, the sum of that, the content, its sum. It reaches the file in one write.
void EventFile::write_event(int64_t step, int field, std::string_view content) {
  constexpr size_t kHeader = sizeof(uint64_t) + sizeof(uint32_t);
  record_.assign(kHeader, '\0');
  protobuf::append_double(record_, kWallTime, wall_seconds());
  protobuf::append_number(record_, kStep, static_cast<uint64_t>(step));
  protobuf::append_bytes(record_, field, content);
  value_.clear();
  protobuf::append_fixed(value_, uint64_t{record_.size() - kHeader});
  protobuf::append_fixed(value_, masked_crc32c(value_));
  record_.replace(0, kHeader, value_);
  protobuf::append_fixed(record_, masked_crc32c(std::string_view(record_).substr(kHeader)));
  file_.write(record_);
}

}  // namespace spillway
