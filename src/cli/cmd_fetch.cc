#include "cli/cmd_fetch.h"

#include <cstdio>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/fetching.h"
#include "hub/fetch.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

hub::Repository repository_of(const std::string& id, const std::string& revision, bool is_data_set) {
  const auto kind = is_data_set ? hub::RepositoryKind::kDataset : hub::RepositoryKind::kModel;
  std::optional<hub::Repository> repository = hub::repository_named(id, kind);
  if (!repository)
    throw input_error("ID", "expected a name of the hub such as org/name or org/name@revision, got {}; correct it",
                      quote(id));
  if (revision.empty()) return *std::move(repository);
  if (!repository->revision.empty())
    throw input_error("--revision", "expected one revision, got {} and {}; give one", quote(repository->revision),
                      quote(revision));
  if (!hub::is_revision(revision))
    throw input_error("--revision", "expected a branch, a tag or a commit, got {}; correct it", quote(revision));
  repository->revision = revision;
  return *std::move(repository);
}

Json fetched_json(const hub::FetchList& list, bool is_dry_run) {
  Json files = Json::array();
  for (const hub::ListedFile& one : list.files) {
    files.push_back({{"path", one.file.path}, {"bytes", one.file.size}, {"was_there", one.is_there}});
  }
  return {{"id", list.repository.id}, {"revision", list.repository.wanted_revision()},
          {"commit", list.commit},    {"folder", list.snapshot.string()},
          {"bytes", list.bytes},      {is_dry_run ? "bytes_to_fetch" : "bytes_fetched", list.missing_bytes},
          {"files", std::move(files)}};
}

void print_list(const hub::FetchList& list) {
  for (const hub::ListedFile& one : list.files) {
    fmt::print("{:>10}  {}{}\n", one.file.size < 0 ? "?" : format_bytes(one.file.size), shown_line(one.file.path),
               one.is_there ? "  (in the cache)" : "");
  }
  fmt::print("{:>10}  to fetch into {}\n", format_bytes(list.missing_bytes), shown_line(list.snapshot.string()));
}

}  // namespace

int cmd_fetch(std::span<const std::string> args) {
  CommandLine line(
      "spillway fetch",
      "Fetches a model, an adapter or a data set of the Hugging Face hub into the cache that its libraries\n"
      "share, and prints the folder.");
  std::string id, revision;
  std::vector<std::string> include;
  bool is_data_set = false, is_dry_run = false, json = false;
  line.required("ID", id, "its name: org/name, or org/name@revision");
  line.option("--revision REVISION", revision, "a branch, a tag or a commit; main where it is not given");
  line.flag("--dataset", is_data_set, "ID is a data set");
  line.options("--include PATTERN", include,
               "the files whose paths match, such as 'data/*.parquet' (* also goes over slashes); may be given several "
               "times; in the place of what is usual: safetensors, config, tokenizer, templates, README and licence of "
               "a model, data files of a data set");
  line.flag("--dry-run", is_dry_run, "only list the files and their sizes");
  line.flag("--json", json, "print one JSON document");
  line.example("spillway fetch HuggingFaceTB/SmolLM2-135M-Instruct");
  line.example("spillway fetch --dataset trl-lib/Capybara --include 'data/train-*'");
  if (!line.parse(args)) return kDone;

  const hub::Repository repository = repository_of(id, revision, is_data_set);
  hub::FetchOptions options;
  options.include = include;
  const hub::FetchList list = hub::list_fetch(repository, options);
  if (!is_dry_run) {
    const hub::Lookup shown = fetching_lookup();
    options.on_progress = shown.on_progress;
    if (list.missing_bytes > 0 && !json)
      log_info("fetching {} of {} (commit {:.8}) from {}", format_bytes(list.missing_bytes),
               hub::shown_name(repository), list.commit, options.server.endpoint);
    hub::fetch(list, options);
  }
  if (json) {
    fmt::print("{}\n", json_text(fetched_json(list, is_dry_run), 2));
  } else if (is_dry_run) {
    print_list(list);
  } else {
    fmt::print("{}\n", shown_line(list.snapshot.string()));
  }
  return kDone;
}

}  // namespace spillway
