#include "data/files/parquet_bytes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "base/sizes.h"
#include "base/text.h"
#include "data/files/arrow_loader.h"
#include "data/files/run_lengths.h"

namespace spillway::data {
namespace {

constexpr size_t kCursors = 16;
constexpr int64_t kMaxLevelBytes = int64_t{64} << 20;                            // of the levels, or indices, of a page
constexpr int64_t kFirstHeaderBytes = 512, kMaxHeaderBytes = int64_t{64} << 20;  // statistics may repeat two values
constexpr int64_t kDictionary = -1;                                              // in the place of a page's number
constexpr int32_t kNull = -1;

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view expected, std::string_view got) {
  throw input_error(path.string(), "expected {}, got {}; make or download the file again", expected, got);
}

PageHeader read_page_header(const ReadFile& file, int64_t offset, int64_t end) {
  std::vector<std::byte> bytes;
  for (int64_t size = kFirstHeaderBytes;; size *= 8) {
    resize(bytes, std::min(size, end - offset));
    file.read(offset, bytes);
    if (const auto header = parse_page_header(bytes, file.path().string())) return *header;
    if (size >= kMaxHeaderBytes || std::ssize(bytes) == end - offset)
      fail(file.path(), "the header of a page", "one that is cut short");
  }
}

std::vector<std::byte> read_some(PageStream& stream, int64_t bytes, const std::filesystem::path& path) {
  if (bytes > std::min(kMaxLevelBytes, stream.left()))
    fail(path, "levels and indices that fit the page", fmt::format("{} bytes of them", bytes));
  auto some = make_vector<std::byte>(bytes);
  stream.read(some);
  return some;
}

}  // namespace

std::unique_ptr<PageCursor> PageCursors::take(const void* chunk, int64_t page, int64_t value) {
  const std::lock_guard lock(mutex_);
  auto best = cursors_.end();
  for (auto it = cursors_.begin(); it != cursors_.end(); ++it) {
    const PageCursor& one = **it;
    if (one.chunk != chunk || one.page != page || one.value > value) continue;
    if (best == cursors_.end() || one.value > (*best)->value) best = it;
  }
  if (best == cursors_.end()) return nullptr;
  std::unique_ptr<PageCursor> cursor = std::move(*best);
  cursors_.erase(best);
  return cursor;
}

void PageCursors::give_back(std::unique_ptr<PageCursor> cursor) {
  const std::lock_guard lock(mutex_);
  cursors_.push_back(std::move(cursor));
  if (cursors_.size() > kCursors) cursors_.erase(cursors_.begin());
}

struct ParquetBytes::Page {
  PageHeader header;
  int64_t offset = 0;     // of what follows the header
  int64_t first_row = 0;  // of the row group
  // The index of each row's value in this page or in the dictionary, or kNull; empty until it is needed.
  std::vector<int32_t> entries;

  [[nodiscard]] bool is_in_dictionary() const {
    return header.encoding == kRleDictionary || header.encoding == kPlainDictionary;
  }
};

struct ParquetBytes::Chunk {
  const ColumnChunk* column = nullptr;
  std::optional<Page> dictionary;
  std::vector<Page> pages;
};

ParquetBytes::ParquetBytes(std::filesystem::path path, const std::vector<std::string>& columns, PageCursors& cursors)
    : path_(std::move(path)), cursors_(cursors) {
  const int64_t bytes = ReadFile(path_).size();  // a regular file that can be read, or the error that says why not
  layout_ = *std::unique_ptr<ParquetLayout>(arrow_library(path_).parquet_layout(path_.c_str(), columns));
  check_columns(columns, bytes);
  for (const ParquetLayout::RowGroup& group : layout_.groups) group_ends_.push_back(rows_ += group.rows);
  chunks_.resize(layout_.groups.size() * columns.size());
}

ParquetBytes::~ParquetBytes() = default;

void ParquetBytes::check_columns(const std::vector<std::string>& columns, int64_t file_bytes) const {
  for (const ParquetLayout::RowGroup& group : layout_.groups) {
    if (group.rows < 0 || group.rows > INT32_MAX)
      fail(path_, "row groups of at most 2^31 rows", fmt::format("one of {}", group.rows));
    for (size_t i = 0; i < columns.size(); ++i) {
      const ColumnChunk& chunk = group.chunks[i];
      if (!chunk.is_there) continue;
      if (!chunk.is_bytes || chunk.is_repeated || chunk.max_definition > 1)
        throw input_error(path_.string(), "expected bytes in the column {}, got values of another type; correct it",
                          quote(columns[i]));
      if (chunk.codec == PageCodec::kOther)
        throw input_error(path_.string(),
                          "expected the column {} plain or compressed with snappy, gzip, brotli, zstd or lz4, got {}; "
                          "write it so",
                          quote(columns[i]), quote(chunk.codec_name));
      if (chunk.first_byte < 0 || chunk.bytes < 0 || chunk.bytes > file_bytes - chunk.first_byte)
        fail(path_, fmt::format("the column {} in the file", quote(columns[i])), "a place outside of it");
    }
  }
}

ParquetBytes::Chunk& ParquetBytes::opened(size_t group, size_t column) const {
  std::unique_ptr<Chunk>& chunk = chunks_[group * layout_.groups[group].chunks.size() + column];
  if (!chunk) {
    auto fresh = std::make_unique<Chunk>();
    fresh->column = &layout_.groups[group].chunks[column];
    find_pages(*fresh, ReadFile(path_), layout_.groups[group].rows);
    chunk = std::move(fresh);
  }
  return *chunk;
}

// Reads the pages' headers alone.
void ParquetBytes::find_pages(Chunk& chunk, const ReadFile& file, int64_t rows) const {
  const int64_t end = chunk.column->first_byte + chunk.column->bytes;
  int64_t row = 0;
  for (int64_t at = chunk.column->first_byte; row < rows;) {
    if (at >= end) fail(path_, fmt::format("pages of {} rows", rows), fmt::format("those of {}", row));
    Page page{.header = read_page_header(file, at, end), .offset = 0, .first_row = row, .entries = {}};
    page.offset = at + page.header.header_bytes;
    at = page.offset + page.header.bytes;
    if (at > end) fail(path_, "a page inside of its column", "one that ends behind it");
    if (page.header.type == static_cast<int64_t>(PageType::kDictionary)) {
      chunk.dictionary = std::move(page);
    } else if (page.header.type == static_cast<int64_t>(PageType::kData) ||
               page.header.type == static_cast<int64_t>(PageType::kDataV2)) {
      row += page.header.values;
      if (row > rows) fail(path_, fmt::format("pages of {} rows", rows), "more");
      if (page.header.values > 0) chunk.pages.push_back(std::move(page));
    }
  }
}

// A page's values, behind its levels.
PageStream ParquetBytes::values_of(const Chunk& chunk, const Page& page, std::shared_ptr<const ReadFile> file) const {
  const PageHeader& header = page.header;
  if (header.type == static_cast<int64_t>(PageType::kDataV2)) {
    const int64_t levels = header.definition_bytes + header.repetition_bytes;
    return {std::move(file), page.offset + levels, header.bytes - levels,
            header.is_packed ? chunk.column->codec : PageCodec::kNone,
            std::max<int64_t>(header.unpacked_bytes - levels, 0)};
  }
  PageStream stream(std::move(file), page.offset, header.bytes, chunk.column->codec, header.unpacked_bytes);
  if (header.type == static_cast<int64_t>(PageType::kData) && chunk.column->max_definition > 0)
    stream.skip(stream.read_number());
  return stream;
}

void ParquetBytes::find_entries(const Chunk& chunk, Page& page, const std::shared_ptr<const ReadFile>& file) const {
  const PageHeader& header = page.header;
  if (!page.is_in_dictionary() && header.encoding != kPlain)
    throw input_error(path_.string(),
                      "expected bytes in the encodings PLAIN or RLE_DICTIONARY, got Parquet's encoding {}; write the "
                      "file without column_encoding",
                      header.encoding);
  auto levels = make_vector<int32_t>(header.values, 1);
  if (chunk.column->max_definition > 0) {
    const bool is_v2 = header.type == static_cast<int64_t>(PageType::kDataV2);
    if (!is_v2 && header.definition_encoding != kRle) fail(path_, "levels as run lengths", "another encoding");
    PageStream stream = is_v2 ? PageStream(file, page.offset + header.repetition_bytes, header.definition_bytes,
                                           PageCodec::kNone, header.definition_bytes)
                              : PageStream(file, page.offset, header.bytes, chunk.column->codec, header.unpacked_bytes);
    const int64_t bytes = is_v2 ? header.definition_bytes : stream.read_number();
    levels = unpack_run_lengths(read_some(stream, bytes, path_), 1, header.values, path_.string());
  }
  const auto present = std::count(levels.begin(), levels.end(), 1);
  std::vector<int32_t> indices;
  if (page.is_in_dictionary() && present > 0) {
    PageStream stream = values_of(chunk, page, file);
    const std::vector<std::byte> bytes = read_some(stream, stream.left(), path_);
    if (bytes.empty() || bytes[0] > std::byte{32}) fail(path_, "indices of at most 32 bits", "others");
    indices = unpack_run_lengths(std::span(bytes).subspan(1), static_cast<int>(bytes[0]), present, path_.string());
  }
  int32_t value = 0;
  for (int32_t& level : levels) {
    if (level == 1) {
      level = indices.empty() ? value : nth(indices, value);
      ++value;
    } else {
      level = kNull;
    }
  }
  page.entries = std::move(levels);
}

void ParquetBytes::read_value(const Chunk& chunk, int64_t page_number, int64_t value,
                              const std::shared_ptr<const ReadFile>& file, const Room& room) const {
  std::unique_ptr<PageCursor> cursor = cursors_.take(&chunk, page_number, value);
  if (!cursor) {
    const Page& page = page_number == kDictionary ? *chunk.dictionary : nth(chunk.pages, page_number);
    cursor =
        std::make_unique<PageCursor>(PageCursor{.chunk = &chunk,
                                                .page = page_number,
                                                .stream = std::make_unique<PageStream>(values_of(chunk, page, file)),
                                                .value = 0});
  }
  PageStream& stream = *cursor->stream;
  const auto next_bytes = [&] {
    return chunk.column->fixed_bytes > 0 ? chunk.column->fixed_bytes : int64_t{stream.read_number()};
  };
  for (; cursor->value < value; ++cursor->value) stream.skip(next_bytes());
  const int64_t bytes = next_bytes();
  if (bytes > stream.left())
    fail(path_, fmt::format("a value in the {} bytes that are left of a page", stream.left()),
         fmt::format("one of {}", bytes));
  const std::span<std::byte> into = room(bytes);
  SPILLWAY_CHECK(std::ssize(into) == bytes, "room for {} of {} bytes", into.size(), bytes);
  stream.read(into);
  ++cursor->value;
  cursors_.give_back(std::move(cursor));
}

void ParquetBytes::read(size_t column, int64_t row, const Room& room) const {
  const auto end = std::upper_bound(group_ends_.begin(), group_ends_.end(), row);
  const auto group = static_cast<size_t>(end - group_ends_.begin());
  const int64_t row_in_group = row - (*end - layout_.groups[group].rows);
  if (!layout_.groups[group].chunks[column].is_there) return (void)room(-1);
  const auto file = std::make_shared<const ReadFile>(path_);
  std::unique_lock lock(mutex_);
  Chunk& chunk = opened(group, column);
  const auto behind = std::upper_bound(chunk.pages.begin(), chunk.pages.end(), row_in_group,
                                       [](int64_t wanted, const Page& page) { return wanted < page.first_row; });
  Page& page = *(behind - 1);
  if (page.entries.empty()) find_entries(chunk, page, file);
  lock.unlock();
  const int32_t entry = nth(page.entries, row_in_group - page.first_row);
  if (entry == kNull) return (void)room(-1);
  if (!page.is_in_dictionary()) return read_value(chunk, behind - 1 - chunk.pages.begin(), entry, file, room);
  if (!chunk.dictionary || entry < 0 || entry >= chunk.dictionary->header.values)
    fail(path_, "a dictionary with every value", "one without");
  read_value(chunk, kDictionary, entry, file, room);
}

}  // namespace spillway::data
