#include "io/folder_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/sizes.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/file_error.h"
#include "io/folder_entries.h"

namespace spillway {
namespace fs = std::filesystem;

namespace {

constexpr int64_t kMaxRecordBytes = int64_t{16} << 20;

std::string content_sum(const ReadFile& file) {
  Checksum sum;
  auto buffer = make_vector<std::byte>(std::min<int64_t>(file.size(), int64_t{1} << 20));
  for (int64_t at = 0; at < file.size();) {
    const auto piece = first_of(buffer, std::min(std::ssize(buffer), file.size() - at));
    file.read(at, piece);
    sum.add(piece);
    at += std::ssize(piece);
  }
  return sum.text();
}

RecordedFile recorded(const fs::path& folder, const std::string& name) {
  const ReadFile file(folder / name);
  return {name, file.size(), file.size() <= kMaxSummedBytes ? content_sum(file) : ""};
}

std::string quoted(const std::string& text) { return json_text(nlohmann::json(text)); }

// A record may have been edited: checks that a name in it does not lead out of the folder.
bool is_within(const std::string& name) {
  const fs::path path(name);
  return !name.empty() && path.is_relative() && std::find(path.begin(), path.end(), "..") == path.end();
}

// Reads a record event by event, because containers of the JSON library allocate in their destructors.
class FolderRecordReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  FolderRecord record;

  // Returns true if all members of a record were there and valid.
  [[nodiscard]] bool is_whole() const { return is_fine_ && has_command_ && has_complete_ && has_files_; }

  bool null() override { return false; }
  bool boolean(bool value) override {
    has_complete_ = is_fine_ = depth_ == 1 && key_ == "complete";
    record.is_complete = value;
    return is_fine_;
  }
  bool number_integer(number_integer_t value) override { return value >= 0 && set_bytes(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return value <= INT64_MAX && set_bytes(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return false; }
  bool string(string_t& value) override {
    if (depth_ == 1 && key_ == "command") {
      record.command = value;
      has_command_ = true;
    } else if (depth_ == 3 && key_ == "name" && is_within(value)) {
      record.files.back().name = value;
    } else if (depth_ == 3 && key_ == "xxh3") {
      record.files.back().xxh3 = value;
    } else {
      is_fine_ = false;
    }
    return is_fine_;
  }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(size_t /*size*/) override {
    is_fine_ = depth_ == 0 || depth_ == 2;
    if (depth_ == 2) record.files.emplace_back();
    ++depth_;
    return is_fine_;
  }
  bool end_object() override {
    --depth_;
    is_fine_ = depth_ == 0 || !record.files.back().name.empty();
    return is_fine_;
  }
  bool start_array(size_t /*size*/) override {
    has_files_ = is_fine_ = depth_ == 1 && key_ == "files";
    ++depth_;
    return is_fine_;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& value) override {
    key_ = value;
    return true;
  }
  bool parse_error(size_t /*at*/, const std::string& /*token*/, const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  bool set_bytes(int64_t value) {
    is_fine_ = depth_ == 3 && key_ == "bytes";
    if (is_fine_) record.files.back().bytes = value;
    return is_fine_;
  }

  std::string key_;
  int depth_ = 0;  // 1: in the record, 2: in its list of files, 3: in a file
  bool is_fine_ = true, has_command_ = false, has_complete_ = false, has_files_ = false;
};

// Removes the folders below that are empty, and those that become so.
void remove_empty_folders(const fs::path& folder) {
  for (const FolderEntry& entry : entries_of(folder)) {
    if (entry.kind != EntryKind::kFolder) continue;
    remove_empty_folders(folder / entry.name);
    ::rmdir((folder / entry.name).c_str());
  }
}

void remove_files_of(const FolderRecord& record, const fs::path& folder) {
  std::set<std::string_view> names;
  for (const RecordedFile& file : record.files) names.insert(file.name);
  // Only existing files are removed, as the way to a recorded name may lead over a link by now.
  for (const std::string& name : files_below(folder)) {
    if (names.contains(name)) ::unlink((folder / name).c_str());
  }
  remove_empty_folders(folder);
  const auto left = entries_of(folder);
  if (std::all_of(left.begin(), left.end(), [](const FolderEntry& entry) { return entry.name == kRecordName; }))
    ::unlink((folder / kRecordName).c_str());
}

}  // namespace

FolderRecord record_of(const fs::path& folder, std::string_view command, const std::vector<std::string>& names) {
  FolderRecord record{.command = std::string(command), .is_complete = true, .files = {}};
  for (const std::string& name : names) {
    if (name != kRecordName) record.files.push_back(recorded(folder, name));
  }
  return record;
}

// Builds the text by hand: the JSON library's values allocate in their destructors, which ends the program if memory
// runs out.
std::string record_text(const FolderRecord& record) {
  std::string text =
      fmt::format("{{\"command\": {}, \"complete\": {}, \"files\": [", quoted(record.command), record.is_complete);
  std::string_view separator = "\n";
  for (const RecordedFile& file : record.files) {
    text += fmt::format("{}  {{\"name\": {}, \"bytes\": {}, \"xxh3\": {}}}", separator, quoted(file.name), file.bytes,
                        quoted(file.xxh3));
    separator = ",\n";
  }
  return text + "]}\n";
}

std::optional<FolderRecord> read_record(const fs::path& folder) {
  std::string text;
  try {
    text = read_file(folder / kRecordName, kMaxRecordBytes);
  } catch (const InputError&) {
    return {};
  }
  FolderRecordReader reader;
  if (!nlohmann::json::sax_parse(text, &reader) || !reader.is_whole()) return {};
  return std::move(reader.record);
}

void write_record(const fs::path& folder, const FolderRecord& record) {
  write_file(folder / kRecordName, record_text(record));
}

// Marks it in one call: a folder that a killed process left has the mark, or nothing at all.
void mark_unfinished(const fs::path& folder) {
  const fs::path path = folder / kRecordName;
  const FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (fd.get() < 0) throw_file_error(path, "be written", errno);
}

bool is_unfinished(const fs::path& folder) {
  struct stat status {};
  return ::lstat((folder / kRecordName).c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size == 0;
}

bool is_unchanged(const fs::path& folder, const RecordedFile& file) {
  if (file.is_open()) return true;
  try {
    const RecordedFile now = recorded(folder, file.name);
    return now.bytes == file.bytes && now.xxh3 == file.xxh3;
  } catch (const InputError&) {
    return false;
  }
}

bool remove_recorded(const fs::path& folder) {
  try {
    if (const auto record = read_record(folder)) remove_files_of(*record, folder);
  } catch (const InputError&) {  // what cannot be read stays
  }
  return ::rmdir(folder.c_str()) == 0 || errno == ENOENT;
}

}  // namespace spillway
