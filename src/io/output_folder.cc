#include "io/output_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "io/file.h"
#include "io/folder_entries.h"
#include "io/folder_record.h"
#include "io/name_watch.h"
#include "io/temporary_name.h"

namespace spillway {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kCheckpoint = "checkpoint-", kReadme = "README.md";

struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const Identity&) const = default;
};

std::optional<Identity> identity_of(const fs::path& path) {
  struct stat status {};
  if (path.empty() || ::stat(path.c_str(), &status) != 0) return {};
  return Identity{status.st_dev, status.st_ino};
}

// Returns true if `path` is the file of `identity`, or lies below it.
bool lies_in(const fs::path& path, const Identity& identity) {
  for (fs::path at = path; !at.empty(); at = at.parent_path()) {
    if (identity_of(at) == identity) return true;
    if (at == at.parent_path()) break;
  }
  return false;
}

[[noreturn]] void refuse_foreign(std::string_view key, const fs::path& folder, std::string_view command,
                                 const std::string& name) {
  throw input_error(folder.string(),
                    "expected {} to name a new or empty folder, or one that `spillway {}` wrote, got one with {}; "
                    "choose another, or move that away",
                    key, command, quote(name));
}

[[noreturn]] void refuse_changed(std::string_view key, const fs::path& folder, std::string_view command,
                                 const std::string& name) {
  throw input_error(folder.string(),
                    "expected {} to name a folder as `spillway {}` wrote it, got one whose {} was changed since; "
                    "choose another, or move that away",
                    key, command, quote(name));
}

// Checks early, since a file or a broken link in the place of a checkpoint would otherwise fail late in the run.
void check_checkpoint(std::string_view key, const fs::path& path) {
  const std::string name = path.filename().string();
  const bool is_checkpoint =
      name.starts_with(kCheckpoint) && name.find_first_not_of("0123456789", kCheckpoint.size()) == std::string::npos;
  std::error_code error;
  if (!is_checkpoint || fs::is_directory(path, error)) return;
  throw input_error(path.string(),
                    "expected a checkpoint's folder in {}, or nothing of that name, got a file or a link to nothing; "
                    "move it away",
                    key);
}

// Returns true if the folder exists; throws if a file is in the way.
bool is_there(std::string_view key, const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return false;
  if (fs::is_directory(folder, error)) return true;
  throw input_error(fmt::format("{}: {}", key, folder.string()),
                    "expected the name of a folder to write, got a file; choose another name");
}

}  // namespace

void check_apart(std::string_view key, const fs::path& output, std::span<const CommandInput> inputs) {
  const std::optional<Identity> out = identity_of(output);
  if (!out) return;
  for (const CommandInput& input : inputs) {
    if (!identity_of(input.path)) continue;
    std::error_code error;
    const fs::path resolved = fs::canonical(input.path, error), named = fs::absolute(input.path, error);
    // Checks the path in both forms: a link to an input is lost with the folder that holds it.
    const bool holds = lies_in(resolved, *out) || lies_in(without_trailing_slash(named.lexically_normal()), *out);
    const bool is_part =
        fs::is_regular_file(output, error) && lies_in(fs::canonical(output, error), *identity_of(input.path));
    if (!holds && !is_part) continue;
    const bool is_same = identity_of(input.path) == out;
    throw input_error(key, "expected a place apart from what is read, got {}, which {} {} ({}); choose another",
                      output.string(),
                      is_same ? "is"
                      : holds ? "holds"
                              : "is part of",
                      input.name, input.path.string());
  }
}

void check_new_file(std::string_view key, const fs::path& file) {
  std::error_code error;
  if (fs::symlink_status(file, error).type() != fs::file_type::not_found)
    throw input_error(key, "expected a file that is not there yet, got {}; choose another name or remove it",
                      quote(file.string()));
  check_writable_place(key, file);
}

void check_writable_place(std::string_view key, const fs::path& file) {
  std::error_code error;
  if (!fs::is_directory(folder_of(file), error))
    throw input_error(key, "expected a file in a folder that exists, got {}; create the folder", quote(file.string()));
  if (fs::is_directory(file, error))
    throw input_error(key, "expected the name of a file to write, got the folder {}; choose another name",
                      quote(file.string()));
}

void check_different_files(std::string_view key, const fs::path& file, std::string_view other_key,
                           const fs::path& other) {
  if (file.empty() || other.empty()) return;
  std::error_code error;
  const auto whole = [&](const fs::path& path) {
    return fs::weakly_canonical(folder_of(path), error) / path.filename();
  };
  if (whole(file) != whole(other)) return;
  throw input_error(other_key, "expected another file than that of {}, got {} for both; choose another name", key,
                    quote(other.string()));
}

void check_replaceable(std::string_view key, const fs::path& folder, std::string_view command) {
  if (!is_there(key, folder)) return;
  std::error_code error;
  if (fs::equivalent(folder, ".", error)) {
    throw input_error(folder.string(),
                      "expected {} to name a folder other than the current one, got it; "
                      "call the command from another folder",
                      key);
  }
  std::vector<std::string> others;
  const std::vector<std::string> files = files_below(folder, &others);
  if (!others.empty()) refuse_foreign(key, folder, command, others[0]);
  if (files.empty()) return;
  const std::optional<FolderRecord> record = read_record(folder);
  std::map<std::string_view, const RecordedFile*> known;
  if (record && record->command == command) {
    for (const RecordedFile& file : record->files) known[file.name] = &file;
  }
  for (const std::string& name : files) {
    if (!known.empty() && name == kRecordName) continue;
    const auto found = known.find(name);
    if (found == known.end()) refuse_foreign(key, folder, command, name);
    if (!is_unchanged(folder, *found->second)) refuse_changed(key, folder, command, name);
  }
}

// Keeps the record of a command at work.
class SharedOutput::Journal {
 public:
  Journal(fs::path folder, FolderRecord record, std::function<bool(std::string_view)> writes)
      : folder_(std::move(folder)), record_(std::move(record)), writes_(std::move(writes)) {
    write_record(folder_, record_);
    watch_.emplace(folder_, [this](const std::string& name) { open(name); });
  }

  void end() { watch_.reset(); }

 private:
  void open(const std::string& name) {
    if (!writes_(name)) return;
    const auto known = std::find_if(record_.files.begin(), record_.files.end(),
                                    [&](const RecordedFile& file) { return file.name == name; });
    if (known != record_.files.end() && known->is_open()) return;
    RecordedFile& file = known != record_.files.end() ? *known : record_.files.emplace_back();
    file = {.name = name, .bytes = 0, .xxh3 = ""};
    write_record(folder_, record_);
  }

  fs::path folder_;
  FolderRecord record_;
  std::function<bool(std::string_view)> writes_;
  std::optional<NameWatch> watch_;
};

SharedOutput::SharedOutput(std::string_view key, fs::path folder, std::string_view command,
                           std::function<bool(std::string_view)> writes, std::span<const fs::path> known)
    : folder_(std::move(folder)), command_(command), writes_(std::move(writes)) {
  if (!is_there(key, folder_)) return;
  std::optional<FolderRecord> record = read_record(folder_);
  if (record && record->command != command) record.reset();
  for (const FolderEntry& entry : entries_of(folder_)) {
    const fs::path path = folder_ / entry.name;
    if (record) {
      check_checkpoint(key, path);
      if (entry.name == kRecordName || entry.name == kReadme || !writes_(entry.name)) continue;
      const auto found = std::find_if(record->files.begin(), record->files.end(),
                                      [&](const RecordedFile& file) { return file.name == entry.name; });
      if (found == record->files.end()) refuse_foreign(key, folder_, command, entry.name);
      if (!is_unchanged(folder_, *found)) refuse_changed(key, folder_, command, entry.name);
      continue;
    }
    const bool is_known = std::any_of(known.begin(), known.end(), [&](const fs::path& one) {
      return identity_of(one) && lies_in(fs::weakly_canonical(one), *identity_of(path));
    });
    const bool is_ours = entry.kind == EntryKind::kFolder && read_record(path).has_value();
    if (!is_known && !is_ours && !is_temporary_name(entry.name)) refuse_foreign(key, folder_, command, entry.name);
  }
}

SharedOutput::SharedOutput(SharedOutput&&) noexcept = default;
SharedOutput::~SharedOutput() = default;

std::vector<std::string> SharedOutput::own_names() const {
  std::vector<std::string> names;
  for (const FolderEntry& entry : entries_of(folder_)) {
    if (entry.kind == EntryKind::kFile && writes_(entry.name)) names.push_back(entry.name);
  }
  return names;
}

FolderRecord SharedOutput::record() const { return record_of(folder_, command_, own_names()); }

void SharedOutput::begin() {
  FolderRecord now = record();
  now.is_complete = false;
  journal_ = std::make_unique<Journal>(folder_, std::move(now), writes_);
}

void SharedOutput::finish() const {
  if (journal_) journal_->end();
  write_record(folder_, record());
}

void SharedOutput::abandon() const {
  if (journal_) journal_->end();
  const auto left = readable_entries_of(folder_);
  if (left.empty()) return;
  if (left.size() == 1 && left[0].name == kRecordName) {
    ::unlink((folder_ / kRecordName).c_str());
    return;
  }
  FolderRecord now = record();
  now.is_complete = false;
  write_record(folder_, now);
}

}  // namespace spillway
