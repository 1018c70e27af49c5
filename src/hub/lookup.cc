#include "hub/lookup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <optional>
#include <system_error>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "hub/fetch.h"

namespace spillway::hub {
namespace {

namespace fs = std::filesystem;

bool is_path(const std::string& named) {
  std::error_code ignored;
  return named.empty() || fs::exists(named, ignored);
}

bool may_be_fetched(const Repository& repository) {
  std::error_code ignored;
  const size_t slash = repository.id.find('/');
  return slash != std::string::npos && !fs::is_directory(repository.id.substr(0, slash), ignored);
}

bool is_fetched(const Repository& repository, const Lookup& lookup) {
  return lookup.may_fetch && !is_offline() && may_be_fetched(repository);
}

std::string fetch_said(const Repository& repository, FetchOptions options, const Lookup& lookup) {
  options.on_progress = lookup.on_progress;
  const FetchList list = list_fetch(repository, options);
  if (list.missing_bytes > 0)
    log_info("fetching {} ({}, commit {:.8}) from {} into {}", shown_name(repository), format_bytes(list.missing_bytes),
             list.commit, options.server.endpoint, list.snapshot.string());
  fetch(list, options);
  return list.snapshot.string();
}

// Returns the advice to the user about a model that is missing or not whole.
std::string advice_for(const Repository& repository) {
  return fmt::format("{}fetch it with `{}`, or name a folder", is_offline() ? "unset HF_HUB_OFFLINE, " : "",
                     fetch_command(repository));
}

[[noreturn]] void throw_incomplete(const Repository& repository, std::string_view where, const fs::path& snapshot,
                                   const std::vector<std::string>& missing) {
  throw input_error(where, "expected all files of {} in {}, got none called {}; {}", shown_name(repository),
                    snapshot.string(), fmt::join(missing, ", "), advice_for(repository));
}

}  // namespace

std::string folder_of(const std::string& named, std::string_view where, FolderUse use, const Lookup& lookup) {
  const std::optional<Repository> repository = repository_named(named);
  if (is_path(named) || !repository) return named;
  fs::path snapshot = snapshot_folder(cache_folder(), *repository);
  std::vector<std::string> missing;
  if (!snapshot.empty()) {
    missing = missing_files(snapshot, use);
    const bool may_lack_tokenizer = use == FolderUse::kAdapter || has_its_tokenizer(snapshot);
    if (missing.empty() && (may_lack_tokenizer || !is_fetched(*repository, lookup))) return snapshot.string();
  } else if (!may_be_fetched(*repository)) {
    return named;
  }
  if (is_fetched(*repository, lookup)) {
    FetchOptions options;
    options.use = use;
    snapshot = fetch_said(*repository, std::move(options), lookup);
    missing = missing_files(snapshot, use);
    if (missing.empty()) return snapshot.string();
    throw input_error(where, "expected {} in {}, got a {} without; choose another one", fmt::join(missing, ", "),
                      shown_name(*repository), repository->noun());
  }
  if (!snapshot.empty()) throw_incomplete(*repository, where, snapshot, missing);
  throw input_error(where, "expected a folder, or a name of the hub that {} has, got {}, which is neither; {}",
                    cache_folder().string(), quote(named), advice_for(*repository));
}

void fetch_data_set(const Repository& repository, const std::vector<std::string>& include, const Lookup& lookup) {
  if (!is_fetched(repository, lookup)) return;
  FetchOptions options;
  options.include = include;
  (void)fetch_said(repository, std::move(options), lookup);
}

std::string name_elsewhere(const std::string& folder) {
  Repository repository = repository_of(folder);
  return repository.id.empty() ? folder : repository.id;
}

}  // namespace spillway::hub
