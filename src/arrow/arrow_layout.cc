// Reads the layout of columns of bytes from the footer of a Parquet file, and decompresses Brotli, for
// data/files/parquet_bytes.h. That reads such columns itself, since Arrow would read a whole page, and so a whole row
// group, for one value.
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/util/compression.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "data/files/byte_source.h"
#include "data/files/parquet_layout.h"

namespace spillway::data {
namespace {

PageCodec codec_of(arrow::Compression::type type) {
  switch (type) {
    case arrow::Compression::UNCOMPRESSED:
      return PageCodec::kNone;
    case arrow::Compression::SNAPPY:
      return PageCodec::kSnappy;
    case arrow::Compression::GZIP:
      return PageCodec::kGzip;
    case arrow::Compression::BROTLI:
      return PageCodec::kBrotli;
    case arrow::Compression::ZSTD:
      return PageCodec::kZstd;
    case arrow::Compression::LZ4:
      return PageCodec::kLz4;
    default:
      return PageCodec::kOther;
  }
}

ColumnChunk chunk_of(const parquet::ColumnChunkMetaData& chunk, const parquet::ColumnDescriptor& column) {
  ColumnChunk out{.is_there = true};
  out.first_byte = chunk.data_page_offset();
  if (chunk.has_dictionary_page() && chunk.dictionary_page_offset() > 0)
    out.first_byte = std::min(out.first_byte, chunk.dictionary_page_offset());
  out.bytes = chunk.total_compressed_size();
  out.codec = codec_of(chunk.compression());
  out.codec_name = arrow::util::Codec::GetCodecAsString(chunk.compression());
  out.is_bytes = column.physical_type() == parquet::Type::BYTE_ARRAY ||
                 column.physical_type() == parquet::Type::FIXED_LEN_BYTE_ARRAY;
  if (column.physical_type() == parquet::Type::FIXED_LEN_BYTE_ARRAY) out.fixed_bytes = column.type_length();
  out.max_definition = column.max_definition_level();
  out.is_repeated = column.max_repetition_level() > 0;
  return out;
}

ParquetLayout layout_of(const parquet::FileMetaData& file, const std::vector<std::string>& wanted) {
  ParquetLayout layout;
  const parquet::SchemaDescriptor& schema = *file.schema();
  for (int i = 0; i < schema.group_node()->field_count(); ++i)
    layout.columns.push_back(schema.group_node()->field(i)->name());
  for (int i = 0; i < file.num_row_groups(); ++i) {
    const auto group = file.RowGroup(i);
    ParquetLayout::RowGroup& out = layout.groups.emplace_back();
    out.rows = group->num_rows();
    out.chunks.resize(wanted.size());
    for (int column = 0; column < schema.num_columns(); ++column) {
      const auto found = std::find(wanted.begin(), wanted.end(), schema.GetColumnRoot(column)->name());
      if (found == wanted.end() || nth(out.chunks, found - wanted.begin()).is_there) continue;
      nth(out.chunks, found - wanted.begin()) = chunk_of(*group->ColumnChunk(column), *schema.Column(column));
    }
  }
  return layout;
}

// Brotli's stream, a buffer at a time.
class BrotliBytes {
 public:
  BrotliBytes(ByteSource source, std::string name)
      : source_(std::move(source)), name_(std::move(name)), buffer_(kBufferBytes) {
    const auto codec = value(arrow::util::Codec::Create(arrow::Compression::BROTLI));
    stream_ = value(codec->MakeDecompressor());
  }

  size_t read(char* into, size_t size) {
    while (!stream_->IsFinished()) {
      const auto step = value(stream_->Decompress(static_cast<int64_t>(end_ - at_),
                                                  reinterpret_cast<const uint8_t*>(buffer_.data()) + at_,
                                                  static_cast<int64_t>(size), reinterpret_cast<uint8_t*>(into)));
      at_ += static_cast<size_t>(step.bytes_read);
      if (step.bytes_written > 0) return static_cast<size_t>(step.bytes_written);
      if (at_ < end_) continue;
      at_ = 0;
      end_ = source_(buffer_.data(), buffer_.size());
      if (end_ == 0) break;
    }
    return 0;
  }

 private:
  static constexpr size_t kBufferBytes = size_t{1} << 17;

  template <typename T>
  [[nodiscard]] T value(arrow::Result<T> result) const {
    if (!result.ok())
      throw input_error(name_, "expected Brotli data, got {}; make or download the file again",
                        quote(result.status().message()));
    return std::move(result).ValueUnsafe();
  }

  ByteSource source_;
  std::string name_;
  std::vector<char> buffer_;
  size_t at_ = 0, end_ = 0;
  std::shared_ptr<arrow::util::Decompressor> stream_;
};

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw input_error(path, "expected a Parquet file, got {}; make or download it again", quote(what));
}

}  // namespace
}  // namespace spillway::data

// Both results are the caller's.
extern "C" spillway::data::ParquetLayout* spillway_parquet_layout(const char* path,
                                                                  const std::vector<std::string>& columns) {
  using namespace spillway::data;
  const auto file = arrow::io::ReadableFile::Open(path);
  if (!file.ok()) fail(path, file.status().message());
  try {
    return new ParquetLayout(layout_of(*parquet::ReadMetaData(*file), columns));
  } catch (const parquet::ParquetException& error) {
    fail(path, error.what());
  }
}

extern "C" spillway::data::ByteSource* spillway_unpack_brotli(spillway::data::ByteSource source,
                                                              const std::string& name) {
  using namespace spillway::data;
  const auto bytes = std::make_shared<BrotliBytes>(std::move(source), name);
  return new ByteSource([bytes](char* into, size_t size) { return bytes->read(into, size); });
}
