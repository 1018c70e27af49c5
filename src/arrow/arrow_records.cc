// Records of Parquet and Arrow files. This is a library of its own, which data/files/arrow_loader.cc loads when the
// first such file is opened: Arrow's 60 MB then cost nothing where they are not needed, nor are they needed to build
// the rest (docs/decisions/0008-arrow-from-pyarrow.md).
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/schema.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/index.h"
#include "base/json.h"
#include "base/ordered_members.h"
#include "base/sizes.h"
#include "base/text.h"
#include "base/utf8.h"
#include "data/files/record_reader.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kBatchRows = 1024;
constexpr int64_t kMaxBytes = int64_t{4} << 30;  // of the columns of all open files at a time
constexpr int kMaxNesting = 64;

// Counts and caps what all open files take. Never destroyed: Arrow reads a file's footer on its I/O thread, which lets
// go of the bytes whenever it likes, after the reader has gone, too.
arrow::MemoryPool* pool() {
  static auto* const kPool = new arrow::CappedMemoryPool(arrow::system_memory_pool(), kMaxBytes);
  return kPool;
}

std::string row_where(const std::string& file, int64_t row) { return fmt::format("{}, row {}", file, row + 1); }

// Values of a row's columns as JSON. Lists of nulls, and of words of a dictionary, take next to nothing in the file:
// how much a row becomes is counted.
class Converter {
 public:
  explicit Converter(std::string where) : where_(std::move(where)) {}

  Json convert(const arrow::Array& array, int64_t i, int depth = 0) {
    take(sizeof(Json));
    if (depth > kMaxNesting)
      throw input_error(where_, "expected values nested at most {} deep, got more; correct the file", kMaxNesting);
    if (array.IsNull(i)) return nullptr;
    switch (array.type_id()) {
      case arrow::Type::BOOL:
        return static_cast<const arrow::BooleanArray&>(array).Value(i);
      case arrow::Type::INT8:
        return number<arrow::Int8Array>(array, i);
      case arrow::Type::INT16:
        return number<arrow::Int16Array>(array, i);
      case arrow::Type::INT32:
        return number<arrow::Int32Array>(array, i);
      case arrow::Type::INT64:
        return number<arrow::Int64Array>(array, i);
      case arrow::Type::UINT8:
        return number<arrow::UInt8Array>(array, i);
      case arrow::Type::UINT16:
        return number<arrow::UInt16Array>(array, i);
      case arrow::Type::UINT32:
        return number<arrow::UInt32Array>(array, i);
      case arrow::Type::UINT64:
        return number<arrow::UInt64Array>(array, i);
      case arrow::Type::FLOAT:
        return number<arrow::FloatArray>(array, i);
      case arrow::Type::DOUBLE:
        return number<arrow::DoubleArray>(array, i);
      case arrow::Type::STRING:
        return text(static_cast<const arrow::BinaryArray&>(array).GetView(i));
      case arrow::Type::BINARY:
        return bytes(static_cast<const arrow::BinaryArray&>(array).GetView(i));
      case arrow::Type::LARGE_STRING:
        return text(static_cast<const arrow::LargeBinaryArray&>(array).GetView(i));
      case arrow::Type::LARGE_BINARY:
        return bytes(static_cast<const arrow::LargeBinaryArray&>(array).GetView(i));
      case arrow::Type::STRING_VIEW:
        return text(static_cast<const arrow::BinaryViewArray&>(array).GetView(i));
      case arrow::Type::BINARY_VIEW:
        return bytes(static_cast<const arrow::BinaryViewArray&>(array).GetView(i));
      case arrow::Type::LIST:
        return list(static_cast<const arrow::ListArray&>(array), i, depth);
      case arrow::Type::LARGE_LIST:
        return list(static_cast<const arrow::LargeListArray&>(array), i, depth);
      case arrow::Type::FIXED_SIZE_LIST:
        return list(static_cast<const arrow::FixedSizeListArray&>(array), i, depth);
      case arrow::Type::MAP:
        return map(static_cast<const arrow::MapArray&>(array), i, depth);
      case arrow::Type::STRUCT:
        return object(static_cast<const arrow::StructArray&>(array), i, depth);
      case arrow::Type::DICTIONARY: {
        const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
        return convert(*dictionary.dictionary(), dictionary.GetValueIndex(i), depth + 1);
      }
      case arrow::Type::EXTENSION: {
        const auto& extension = static_cast<const arrow::ExtensionArray&>(array);
        const Json stored = convert(*extension.storage(), i, depth + 1);
        return extension.extension_type()->extension_name() == "arrow.json" ? json(stored) : stored;
      }
      default: {  // times, decimals and the like, as text
        const auto scalar = array.GetScalar(i);
        if (!scalar.ok())
          throw input_error(where_, "expected readable values, got {}", quote(scalar.status().message()));
        return (*scalar)->ToString();
      }
    }
  }

 private:
  template <typename Array>
  static Json number(const arrow::Array& array, int64_t i) {
    return static_cast<const Array&>(array).Value(i);
  }

  void take(size_t bytes) {
    bytes_ += bytes;
    if (bytes_ > kMaxRecordBytes)
      throw input_error(where_, "expected a row of at most {} MiB, got a larger one; split it", kMaxRecordBytes >> 20);
  }

  [[nodiscard]] Json text(std::string_view value) {
    take(value.size());
    if (const int64_t at = first_invalid_utf8(value); at >= 0)
      throw input_error(where_, "expected UTF-8, got the byte 0x{:02x} at byte {} of a text; correct the file",
                        static_cast<unsigned char>(nth(value, at)), at + 1);
    return std::string(value);
  }

  // A value that is kept as JSON text, as the datasets library (Json) keeps values whose types differ from row to row.
  [[nodiscard]] Json json(const Json& stored) const {
    if (!stored.is_string()) return stored;
    Json parsed = parse_json<Json>(stored.get_ref<const std::string&>(), where_);
    if (parsed.is_discarded())
      throw input_error(where_, "expected JSON text in a column of JSON, got {}; correct the file",
                        quote(stored.get_ref<const std::string&>()));
    return parsed;
  }

  // Images and the like may be in columns that are not used.
  [[nodiscard]] Json bytes(std::string_view value) { return is_valid_utf8(value) ? text(value) : Json(); }

  template <typename Array>
  [[nodiscard]] Json list(const Array& array, int64_t i, int depth) {
    Json items = Json::array();
    const int64_t begin = array.value_offset(i), end = begin + array.value_length(i);
    for (int64_t at = begin; at < end; ++at) items.push_back(convert(*array.values(), at, depth + 1));
    return items;
  }

  [[nodiscard]] Json map(const arrow::MapArray& array, int64_t i, int depth) {
    Json fields = Json::object();
    OrderedMembers members(fields);
    const int64_t begin = array.value_offset(i), end = begin + array.value_length(i);
    for (int64_t at = begin; at < end; ++at) {
      const Json key = convert(*array.keys(), at, depth + 1);
      members[key.is_string() ? key.get<std::string>() : key.dump()] = convert(*array.items(), at, depth + 1);
    }
    return fields;
  }

  [[nodiscard]] Json object(const arrow::StructArray& array, int64_t i, int depth) {
    Json fields = Json::object();
    OrderedMembers members(fields);
    for (int field = 0; field < array.num_fields(); ++field)
      members[array.struct_type()->field(field)->name()] = convert(*array.field(field), i, depth + 1);
    return fields;
  }

  std::string where_;
  size_t bytes_ = 0;
};

class ArrowRecords : public RecordParser {
 public:
  ArrowRecords(std::string path, RecordFormat format, const std::vector<std::string>* columns)
      : path_(std::move(path)) {
    file_ = value(arrow::io::ReadableFile::Open(path_, pool()));
    if (format == RecordFormat::kParquet) {
      open_parquet(columns);
    } else {
      open_ipc();
    }
  }

  bool next(Record& record) override {
    while (!batch_ || row_ == batch_->num_rows()) {
      rows_before_ += batch_ ? batch_->num_rows() : 0;
      row_ = 0;
      batch_ = next_batch();
      if (!batch_) return false;
      check(batch_->ValidateFull());
    }
    record.where = row_where(path_, rows_before_ + row_);
    Converter converter(record.where);
    record.fields = Json::object();
    OrderedMembers members(record.fields);
    for (int column = 0; column < batch_->num_columns(); ++column)
      members[batch_->column_name(column)] = converter.convert(*batch_->column(column), row_);
    ++row_;
    return true;
  }

 private:
  // Null columns: all.
  void open_parquet(const std::vector<std::string>* columns) {
    parquet::ArrowReaderProperties properties(/*use_threads=*/false);
    properties.set_batch_size(kBatchRows);
    properties.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    check(builder.Open(file_, parquet::ReaderProperties(pool())));
    builder.memory_pool(pool())->properties(properties);
    parquet_ = value(builder.Build());
    if (columns == nullptr) {
      batches_ = value(parquet_->GetRecordBatchReader());
      return;
    }
    auto groups = make_vector<int>(parquet_->num_row_groups());
    std::vector<int> leaves;
    std::iota(groups.begin(), groups.end(), 0);
    const parquet::SchemaDescriptor& schema = *parquet_->parquet_reader()->metadata()->schema();
    for (int i = 0; i < schema.num_columns(); ++i) {
      const auto wanted = std::find(columns->begin(), columns->end(), schema.GetColumnRoot(i)->name());
      if (wanted != columns->end()) leaves.push_back(i);
    }
    batches_ = value(parquet_->GetRecordBatchReader(groups, leaves));
  }

  // The file format has its magic at the start; the stream format, which the datasets library writes, has none.
  void open_ipc() {
    constexpr std::string_view kMagic = "ARROW1";
    const auto start = value(file_->ReadAt(0, static_cast<int64_t>(kMagic.size())));
    check(file_->Seek(0));
    arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
    options.memory_pool = pool();
    options.use_threads = false;
    options.max_recursion_depth = kMaxNesting;
    if (start->ToString() == kMagic) {
      ipc_file_ = value(arrow::ipc::RecordBatchFileReader::Open(file_, options));
    } else {
      batches_ = value(arrow::ipc::RecordBatchStreamReader::Open(file_, options));
    }
  }

  std::shared_ptr<arrow::RecordBatch> next_batch() {
    if (!ipc_file_) return value(batches_->Next());
    if (ipc_batch_ == ipc_file_->num_record_batches()) return nullptr;
    return value(ipc_file_->ReadRecordBatch(ipc_batch_++));
  }

  void check(const arrow::Status& status) const {
    if (status.ok()) return;
    if (status.IsOutOfMemory())
      throw input_error(path_, "expected batches of at most {} GiB, got more; write smaller row groups",
                        kMaxBytes >> 30);
    throw input_error(path_, "expected a Parquet or Arrow file, got {}; make or download it again",
                      quote(status.message()));
  }
  template <typename T>
  T value(arrow::Result<T> result) const {
    check(result.status());
    return std::move(result).ValueUnsafe();
  }

  std::string path_;
  std::shared_ptr<arrow::io::ReadableFile> file_;
  std::unique_ptr<parquet::arrow::FileReader> parquet_;
  std::shared_ptr<arrow::RecordBatchReader> batches_;
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> ipc_file_;
  int ipc_batch_ = 0;
  std::shared_ptr<arrow::RecordBatch> batch_;
  int64_t row_ = 0, rows_before_ = 0;
};

// Converts the exceptions that Arrow throws instead of returning errors to InputErrors.
class CarefulRecords : public RecordParser {
 public:
  CarefulRecords(const std::string& path, RecordFormat format, const std::vector<std::string>* columns) : path_(path) {
    guarded([&] { records_ = std::make_unique<ArrowRecords>(path, format, columns); });
  }
  bool next(Record& record) override {
    bool more = false;
    guarded([&] { more = records_->next(record); });
    return more;
  }

 private:
  template <typename Action>
  void guarded(const Action& action) const {
    try {
      action();
    } catch (const parquet::ParquetException& error) {
      throw input_error(path_, "expected a Parquet file, got {}; make or download it again", quote(error.what()));
    }
  }

  std::string path_;
  std::unique_ptr<ArrowRecords> records_;
};

}  // namespace
}  // namespace spillway::data

// The function that the program looks up, in addition to those of arrow_layout.cc. The caller owns the result.
extern "C" spillway::data::RecordParser* spillway_open_arrow(const char* path, spillway::data::RecordFormat format,
                                                             const std::vector<std::string>* columns) {
  return new spillway::data::CarefulRecords(path, format, columns);
}
