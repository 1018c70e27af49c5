#include "report/trackers/wandb_log.h"

#include <zlib.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "report/trackers/protobuf.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFileHeader(":W&B\xe1\xbe\0", 7);
constexpr int64_t kBlock = 32768, kFragmentHeader = 7;

enum class Fragment : uint8_t { kNone = 0, kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

uint32_t checksum_of(Fragment type, std::string_view content) {
  const auto place = static_cast<unsigned char>(type);
  const uLong begun = ::crc32(0, &place, 1);
  return static_cast<uint32_t>(
      ::crc32(begun, reinterpret_cast<const unsigned char*>(content.data()), static_cast<uInt>(content.size())));
}

uint64_t number_at(std::string_view bytes, int64_t at, int size) {
  uint64_t value = 0;
  for (int i = 0; i < size; ++i) value |= uint64_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return value;
}

// A fragment, as it stands in a block; kNone where none is there or it is damaged.
struct Found {
  Fragment type = Fragment::kNone;
  std::string_view content = {};
};

Found fragment_at(std::string_view block, int64_t at) {
  if (std::ssize(block) - at < kFragmentHeader) return {};
  const auto length = static_cast<int64_t>(number_at(block, at + 4, 2));
  const auto type = static_cast<Fragment>(number_at(block, at + 6, 1));
  if (type < Fragment::kFull || type > Fragment::kLast || std::ssize(block) - at - kFragmentHeader < length) return {};
  const std::string_view content = block.substr(at + kFragmentHeader, length);
  if (number_at(block, at, 4) != checksum_of(type, content)) return {};
  return {type, content};
}

void append_fragment(Fragment type, std::string_view content, std::string& out) {
  protobuf::append_fixed(out, checksum_of(type, content));
  protobuf::append_fixed(out, static_cast<uint16_t>(content.size()));
  out += static_cast<char>(type);
  out += content;
}

}  // namespace

WandbLog::WandbLog(const fs::path& path, const Keeps& keeps) {
  if (keeps && fs::exists(path)) scan(path, keeps);
  file_ = AppendFile(path, end_);
  if (end_ > 0) return;
  file_.write(kFileHeader);
  end_ = std::ssize(kFileHeader);
}

// Finds the records to keep, and the end of the last of them.
void WandbLog::scan(const fs::path& path, const Keeps& keeps) {
  const ReadFile file(path);
  std::string block, record;
  for (int64_t begin = 0; begin < file.size(); begin += kBlock) {
    block.resize(std::min(kBlock, file.size() - begin));
    file.read(begin, std::as_writable_bytes(std::span(block)));
    if (begin == 0 && !block.starts_with(kFileHeader))
      throw input_error(path.string(), "expected a file of wandb's records, got another; remove it");
    int64_t at = begin == 0 ? std::ssize(kFileHeader) : 0;
    if (begin == 0) end_ = at;
    while (std::ssize(block) - at >= kFragmentHeader) {
      const Found found = fragment_at(block, at);
      if (found.type == Fragment::kNone) return;
      at += kFragmentHeader + std::ssize(found.content);
      if (found.type == Fragment::kFull || found.type == Fragment::kFirst) record.clear();
      record += found.content;
      if (found.type == Fragment::kFirst || found.type == Fragment::kMiddle) continue;
      if (!keeps(record)) return;
      ++records_;
      end_ = begin + at;
    }
  }
}

void WandbLog::write(std::string_view record) {
  written_.clear();
  const int64_t begin = end_;
  bool is_first = true;
  do {
    const int64_t left = kBlock - (begin + std::ssize(written_)) % kBlock;
    if (left < kFragmentHeader) {
      written_.append(left, '\0');
      continue;
    }
    const int64_t size = std::min(left - kFragmentHeader, std::ssize(record));
    const bool is_last = size == std::ssize(record);
    const Fragment type =
        is_first ? (is_last ? Fragment::kFull : Fragment::kFirst) : (is_last ? Fragment::kLast : Fragment::kMiddle);
    append_fragment(type, record.substr(0, size), written_);
    record.remove_prefix(size);
    is_first = false;
  } while (is_first || !record.empty());
  file_.write(written_);
  end_ = begin + std::ssize(written_);
  ++records_;
}

}  // namespace spillway
