#include "io/temporary_name.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <system_error>

#include "base/log.h"
#include "io/file_error.h"
#include "io/folder_entries.h"
#include "io/folder_record.h"
#include "io/name_watch.h"

namespace spillway {
namespace fs = std::filesystem;

namespace {

constexpr size_t kIdDigits = 16;

std::string random_id() {
  uint64_t number = 0;
  // Cannot fail for 8 bytes once the system has booted; if it does, the address differs between processes.
  if (::getrandom(&number, sizeof number, 0) != sizeof number) number = reinterpret_cast<uint64_t>(&number);
  return fmt::format("{:016x}", number);
}

fs::path file_name(const fs::path& folder, std::string_view target, std::string_view id) {
  return folder / fmt::format(".{}.tmp-{}", target, id);
}
fs::path lock_name(const fs::path& folder, std::string_view target, std::string_view id) {
  return folder / fmt::format(".{}.lock-{}", target, id);
}
fs::path folder_name(const fs::path& folder, std::string_view target, std::string_view id) {
  return folder / fmt::format("{}.tmp-{}", target, id);
}
fs::path old_name(const fs::path& folder, std::string_view target, std::string_view id) {
  return folder / fmt::format("{}.old-{}", target, id);
}

// Creates a file under a name of a new id, and locks it. Between the two another process may take it for abandoned and
// remove it: then another id is tried.
template <typename NameOf>
TemporaryFile create_locked(const fs::path& target, const NameOf& name_of, std::string& id) {
  constexpr int kMaxAttempts = 100;
  for (int attempt = 1;; ++attempt) {
    id = random_id();
    TemporaryFile file{name_of(folder_of(target), target.filename().string(), id), {}};
    file.fd = FileDescriptor(::open(file.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    const bool is_taken = file.fd.get() < 0 && errno == EEXIST;
    if (file.fd.get() < 0 && !(is_taken && attempt < kMaxAttempts)) throw_file_error(target, "be written", errno);
    if (is_taken) continue;
    const bool is_lost = ::flock(file.fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    struct stat status {};
    const bool is_there = ::stat(file.path.c_str(), &status) == 0;
    if (is_there && !is_lost) return file;
    if (attempt == kMaxAttempts) throw_file_error(target, "be written", EBUSY);
  }
}

struct LeftoverName {
  std::string target, id;
  bool is_lock = false;  // of folders; else a file that is its own lock
};

// Parses the name of a file that a writer locks; nullopt for other names.
std::optional<LeftoverName> parse_name(std::string_view name) {
  if (!name.starts_with('.') || name.size() < kIdDigits) return {};
  const std::string_view id = name.substr(name.size() - kIdDigits);
  if (id.find_first_not_of("0123456789abcdef") != std::string_view::npos) return {};
  name.remove_suffix(kIdDigits);
  name.remove_prefix(1);
  for (const std::string_view mark : {".tmp-", ".lock-"}) {
    if (!name.ends_with(mark) || name.size() == mark.size()) continue;
    name.remove_suffix(mark.size());
    return LeftoverName{std::string(name), std::string(id), mark == ".lock-"};
  }
  return {};
}

// Returns the first name that is free.
fs::path kept_name(const fs::path& target) {
  for (int64_t number = 1;; ++number) {
    fs::path name = fs::path(target) += fmt::format(".kept-{}", number);
    struct stat status {};
    if (::lstat(name.c_str(), &status) != 0) return name;
  }
}

// Removes the folder that has the name `folder` for the time being: work that was not finished, or the former `target`.
// If something cannot be removed, it does no harm, and the next call tries again.
void remove_one(const fs::path& folder, const fs::path& target) {
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) return;
  if (is_unfinished(folder)) {
    remove_tree(folder);
    return;
  }
  if (remove_recorded(folder)) return;
  const fs::path kept = kept_name(target);
  if (::rename(folder.c_str(), kept.c_str()) == 0)
    log_warning("{} held files that this program did not write; they are in {}", target.string(), kept.string());
}

// A folder that is being replaced goes only when there is something in its place. The lock goes last: a folder without
// one would never be removed.
void remove_folders(const fs::path& folder, std::string_view target, std::string_view id, const fs::path& lock) {
  std::error_code error;
  remove_one(folder_name(folder, target, id), folder / target);
  const fs::path old = old_name(folder, target, id);
  if (fs::exists(folder / target, error)) remove_one(old, folder / target);
  if (!fs::exists(folder_name(folder, target, id), error) && !fs::exists(old, error)) ::unlink(lock.c_str());
}

}  // namespace

bool is_temporary_name(std::string_view name) {
  if (parse_name(name)) return true;
  // The name of a folder has no dot of its own.
  const auto of_folder = parse_name(fmt::format(".{}", name));
  return of_folder && !of_folder->is_lock;
}

TemporaryFile create_temporary_file(const fs::path& target) {
  tell_name(target);
  std::string id;
  return create_locked(target, file_name, id);
}

TemporaryFolderName::TemporaryFolderName(const fs::path& target) : target_(target) {
  std::string id;
  TemporaryFile lock = create_locked(target, lock_name, id);
  lock_path_ = std::move(lock.path);
  lock_ = std::move(lock.fd);
  temporary_ = folder_name(folder_of(target), target.filename().string(), id);
  old_ = old_name(folder_of(target), target.filename().string(), id);
}

TemporaryFolderName::~TemporaryFolderName() {
  try {
    const std::string lock = lock_path_.string();
    remove_folders(folder_of(target_), target_.filename().string(), lock.substr(lock.size() - kIdDigits), lock_path_);
  } catch (...) {  // the next writer removes it
  }
}

void clear_leftovers_of(const fs::path& folder, std::string_view target) {
  for (const FolderEntry& entry : readable_entries_of(folder)) {
    const auto name = parse_name(entry.name);
    if (!name || (!target.empty() && name->target != target)) continue;
    const fs::path path = folder / entry.name;
    // Opens for writing, since a network file system gives no lock to readers. An entry of such a name that is no file
    // does not block.
    const FileDescriptor lock(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    if (lock.get() < 0 || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
    // If a writer that has finished since has given its file the final name, there is nothing of this one.
    if (name->is_lock) {
      remove_folders(folder, name->target, name->id, path);
    } else {
      ::unlink(path.c_str());
    }
  }
}

}  // namespace spillway
