#include "data/prepared/prepared_rows.h"

#include <deque>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/mapped_file.h"

namespace spillway::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kIndex = "prepared.json";
constexpr int64_t kMaxIndexBytes = int64_t{64} << 20;
// The version of the format of these files; increased when it changes.
constexpr int kFormat = 4;

Json to_json(RowSchema schema) {
  Json columns = Json::array();
  for (const RowColumn& column : schema)
    columns.push_back({{"name", column.name}, {"per", column.axis == RowColumn::Axis::kToken ? "token" : "row"}});
  return columns;
}

// Writes bytes to a file and computes their checksum.
class SummedFile {
 public:
  explicit SummedFile(const fs::path& path) : file_(path) {}

  template <typename T>
  void append(std::span<const T> numbers) {
    const auto bytes = std::as_bytes(numbers);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    if (buffer_.size() >= kBufferBytes) flush();
  }
  // Name, size and checksum for the index.
  [[nodiscard]] Json finish() {
    flush();
    file_.commit();
    return {{"name", file_.path().filename().string()}, {"bytes", bytes_}, {"xxh3", sum_.text()}};
  }

 private:
  static constexpr size_t kBufferBytes = size_t{1} << 20;

  void flush() {
    sum_.add(buffer_);
    file_.append(buffer_);
    bytes_ += std::ssize(buffer_);
    buffer_.clear();
  }

  AtomicFile file_;
  std::vector<std::byte> buffer_;
  Checksum sum_;
  int64_t bytes_ = 0;
};

// Returns the checksum of the index without its own field for it.
std::string sum_of(const Json& index) {
  Json rest = index;
  rest.erase("xxh3");
  return checksum_text(std::as_bytes(std::span<const char>(json_text(rest))));
}

class PreparedWriter final : public RowSink {
 public:
  PreparedWriter(const fs::path& target, RowSchema schema)
      : folder_(target), schema_(schema), ids_(folder_.path() / "ids.bin"), offsets_(folder_.path() / "offsets.bin") {
    for (const RowColumn& column : schema) columns_.emplace_back(folder_.path() / fmt::format("{}.bin", column.name));
    offsets_.append(std::span<const int64_t>(&end_, 1));
  }

  void add(const Row& row) override {
    ids_.append(std::span<const int32_t>(row.input_ids));
    const auto numbers = columns_of(row, schema_);
    for (size_t i = 0; i < columns_.size(); ++i) columns_[i].append(numbers[i]);
    end_ += std::ssize(row.input_ids);
    offsets_.append(std::span<const int64_t>(&end_, 1));
    largest_id_ = std::max(largest_id_, row.largest_id());
  }

  void finish(std::string_view identity, const DatasetSummary& summary) {
    Json files = {ids_.finish()};
    for (SummedFile& column : columns_) files.push_back(column.finish());
    files.push_back(offsets_.finish());
    Json index = {{"format", kFormat},           {"rows", summary.rows},        {"largest_id", largest_id_},
                  {"summary", to_json(summary)}, {"columns", to_json(schema_)}, {"files", std::move(files)},
                  {"made_from", identity}};
    index["xxh3"] = sum_of(index);
    write_file(folder_.path() / kIndex, json_text(index, 2) + "\n");
  }
  [[nodiscard]] AtomicFolder& folder() { return folder_; }

 private:
  AtomicFolder folder_;
  RowSchema schema_;
  SummedFile ids_, offsets_;
  std::deque<SummedFile> columns_;
  int64_t end_ = 0;
  int32_t largest_id_ = -1;
};

class MappedRows final : public RowTokens {
 public:
  // `files`: ids, the columns and offsets.
  MappedRows(RowSchema row_schema, std::vector<MappedFile> files, Checksums sums, int32_t largest)
      : RowTokens(row_schema), files_(std::move(files)), sums_(std::move(sums)) {
    ids = numbers<int32_t>(files_.front());
    for (size_t i = 0; i < columns.size(); ++i) columns[i] = numbers<int32_t>(files_[i + 1]);
    offsets = numbers<int64_t>(files_.back());
    largest_id = largest;
  }

  // Returns true if each column has a number for each token or row.
  [[nodiscard]] bool has_whole_columns() const {
    for (size_t i = 0; i < columns.size(); ++i) {
      const size_t expected = schema[i].axis == RowColumn::Axis::kToken ? ids.size() : offsets.size() - 1;
      if (columns[i].size() != expected) return false;
    }
    return true;
  }

  // The checksums are known since the files were opened; reading the files again would make all of them resident.
  [[nodiscard]] Checksums checksums() const override { return sums_; }

 private:
  template <typename T>
  static std::span<const T> numbers(const MappedFile& file) {
    return {reinterpret_cast<const T*>(file.bytes().data()), file.bytes().size() / sizeof(T)};
  }

  std::vector<MappedFile> files_;
  Checksums sums_;
};

std::string sum_text(const Json& file) { return file.at("xxh3").get<std::string>(); }

MappedFile open_checked(const fs::path& folder, const Json& file) {
  MappedFile mapped(folder / file.at("name").get<std::string>());
  const auto expected = file.at("bytes").get<int64_t>(), got = std::ssize(mapped.bytes());
  const std::string name = file.at("name");
  if (got != expected) throw input_error(name, "expected {} bytes, got {}; prepare it again", expected, got);
  if (checksum_text(mapped.bytes()) != sum_text(file))
    throw input_error(name, "expected the bytes that were written, got others; prepare it again");
  mapped.forget();
  return mapped;
}

// Throws InputError, or an exception of the JSON library, if anything is not as it was written.
Dataset open_prepared(const fs::path& folder, std::string_view identity, RowSchema schema) {
  const Json index = parse_json<Json>(read_file(folder / kIndex, kMaxIndexBytes), kIndex);
  if (index.at("format") != kFormat) throw input_error(kIndex, "expected format {}, got another", kFormat);
  if (index.at("made_from") != identity) throw input_error(kIndex, "expected rows of this job, got another's");
  if (index.at("xxh3") != sum_of(index)) throw input_error(kIndex, "expected what was written, got something else");
  const Json& files = index.at("files");
  if (index.at("columns") != to_json(schema) || files.size() != schema.size() + 2)
    throw input_error(kIndex, "expected the columns of this job's rows, got others");
  std::vector<MappedFile> mapped;
  RowTokens::Checksums sums;
  for (const Json& file : files) {
    mapped.push_back(open_checked(folder, file));
    sums.push_back(sum_text(file));
  }
  auto tokens =
      std::make_shared<MappedRows>(schema, std::move(mapped), std::move(sums), index.at("largest_id").get<int32_t>());
  const DatasetSummary summary = summary_from_json(index.at("summary"));
  const auto run = std::ssize(tokens->ids);
  const bool fits = !tokens->offsets.empty() && tokens->offsets.back() == run && tokens->has_whole_columns();
  if (!fits) throw input_error(kIndex, "expected files of one length, got others");
  if (summary.rows != std::ssize(tokens->offsets) - 1 || summary.tokens != run)
    throw input_error(kIndex, "expected {} rows of {} tokens, got others", summary.rows, summary.tokens);
  return {RowTable(std::move(tokens)), summary};
}

std::optional<Dataset> try_open(const fs::path& folder, std::string_view identity, RowSchema schema) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return {};
  try {
    return open_prepared(folder, identity, schema);
  } catch (const InputError& error) {
    log_info("{} is damaged and prepared again: {}", folder.string(), error.what());
  } catch (const nlohmann::json::exception&) {
    log_info("{} is damaged and prepared again: [{}] expected what was written, got something else", folder.string(),
             kIndex);
  }
  return {};
}

}  // namespace

PreparedRows prepare_rows(const fs::path& base, std::string_view identity, RowSchema schema,
                          const std::function<DatasetSummary(RowSink&)>& read) {
  const fs::path folder = base / checksum_text(std::as_bytes(std::span(identity)));
  if (auto dataset = try_open(folder, identity, schema)) return {std::move(*dataset), folder, true};
  // Removes those of other identities, too: the identity of a job changes with its data.
  clear_leftovers(base);
  PreparedWriter writer(folder, schema);
  const DatasetSummary summary = read(writer);
  writer.finish(identity, summary);
  if (!writer.folder().publish_new()) {
    // Another run has prepared the same rows in the meantime; or these are the damaged ones from before.
    if (auto dataset = try_open(folder, identity, schema)) return {std::move(*dataset), folder, true};
    writer.folder().publish();
  }
  return {open_prepared(folder, identity, schema), folder, false};
}

}  // namespace spillway::data
