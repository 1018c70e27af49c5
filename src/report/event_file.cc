#include "report/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <optional>

#include "base/error.h"
#include "base/local_time.h"
#include "io/file_error.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// Fields of Event, Summary, Summary.Value and SessionLog, by their numbers.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
constexpr int kSummaryValue = 1, kTag = 1, kSimpleValue = 2, kStatus = 1;
constexpr uint64_t kStart = 1;  // of a SessionLog

// The encodings of a field's content.
enum Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

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

// Little-endian, as both formats are.
template <typename T>
void append_fixed(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void append_varint(std::string& out, uint64_t value) {
  constexpr uint64_t kMore = 0x80;
  for (; value >= kMore; value >>= 7) out += static_cast<char>((value & (kMore - 1)) | kMore);
  out += static_cast<char>(value);
}

void append_key(std::string& out, int field, Wire wire) {
  append_varint(out, static_cast<uint64_t>(field << 3 | wire));
}

void append_bytes(std::string& out, int field, std::string_view content) {
  append_key(out, field, kBytes);
  append_varint(out, content.size());
  out += content;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

FileDescriptor create_file(const fs::path& path) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
  if (file.get() < 0)
    throw machine_error(path.string(), "expected to write the file, got {}; check the folder", std::strerror(errno));
  return file;
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
  // Files of a folder are read in the order of their names. Two of one second, by one process, are told by the number.
  const auto second = static_cast<int64_t>(wall_time());
  for (int number = 0; path_.empty() || fs::exists(path_); ++number)
    path_ = folder / fmt::format("events.out.tfevents.{}.{}.{}.{}", second, host_name(), ::getpid(), number);
  file_ = create_file(path_);
  write_event(0, kFileVersion, "brain.Event:2");
  if (resumed_step == 0) return;
  std::string log;
  append_key(log, kStatus, kVarint);
  append_varint(log, kStart);
  write_event(resumed_step + 1, kSessionLog, log);
}

void EventFile::begin_step(int64_t step) {
  step_ = step;
  summary_.clear();
}

void EventFile::add(std::string_view prefix, std::string_view key, double value) {
  value_.clear();
  append_key(value_, kTag, kBytes);
  append_varint(value_, prefix.size() + 1 + key.size());
  value_ += prefix;
  value_ += '/';
  value_ += key;
  append_key(value_, kSimpleValue, kFixed32);
  append_fixed(value_, std::bit_cast<uint32_t>(static_cast<float>(value)));
  append_bytes(summary_, kSummaryValue, value_);
}

void EventFile::end_step() { write_event(step_, kSummary, summary_); }

// A record: the length of its content, the sum of that, the content, its sum. It reaches the file in one write.
void EventFile::write_event(int64_t step, int field, std::string_view content) {
  constexpr size_t kHeader = sizeof(uint64_t) + sizeof(uint32_t);
  record_.assign(kHeader, '\0');
  append_key(record_, kWallTime, kFixed64);
  append_fixed(record_, std::bit_cast<uint64_t>(wall_time()));
  append_key(record_, kStep, kVarint);
  append_varint(record_, static_cast<uint64_t>(step));
  append_bytes(record_, field, content);
  value_.clear();
  append_fixed(value_, uint64_t{record_.size() - kHeader});
  append_fixed(value_, masked_crc32c(value_));
  record_.replace(0, kHeader, value_);
  append_fixed(record_, masked_crc32c(std::string_view(record_).substr(kHeader)));
  for (std::string_view rest = record_; !rest.empty();) {
    const ssize_t written = ::write(file_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw_file_error(path_, "be written", written < 0 ? errno : EIO);
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

void EventFile::sync() {
  if (::fsync(file_.get()) != 0) throw_file_error(path_, "be brought to the disk", errno);
}

}  // namespace spillway
