#include "cli/cmd_push.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/pushed_files.h"
#include "hub/push.h"
#include "report/progress.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

hub::Repository repository_to_push(const std::string& id, const std::string& revision) {
  std::optional<hub::Repository> repository = hub::repository_named(id);
  if (!repository || !repository->revision.empty())
    throw input_error("ORG/NAME", "expected a name on the hub such as org/name, got {}; correct it", quote(id));
  if (!revision.empty() && !hub::is_revision(revision))
    throw input_error("--revision", "expected a branch, got {}; correct it", quote(revision));
  repository->revision = revision;
  return *std::move(repository);
}

int64_t bytes_of(const std::vector<hub::PushedFile>& files) {
  return std::accumulate(files.begin(), files.end(), int64_t{0},
                         [](int64_t sum, const hub::PushedFile& file) { return sum + file.size; });
}

Json pushed_json(const hub::Pushed& pushed) {
  return {{"id", pushed.repository.id}, {"revision", pushed.repository.wanted_revision()},
          {"commit", pushed.commit},    {"url", pushed.url},
          {"created", pushed.is_new},   {"bytes", pushed.bytes},
          {"sent", pushed.sent},        {"unchanged", pushed.unchanged},
          {"ignored", pushed.ignored},  {"removed", pushed.removed}};
}

int print_files(const std::vector<hub::PushedFile>& files, const hub::Repository& repository, bool json) {
  if (json) {
    Json list = Json::array();
    for (const hub::PushedFile& file : files) list.push_back({{"path", file.name}, {"bytes", file.size}});
    fmt::print("{}\n", json_text(Json{{"id", repository.id}, {"files", std::move(list)}}, 2));
    return kDone;
  }
  for (const hub::PushedFile& file : files) fmt::print("{:>10}  {}\n", format_bytes(file.size), shown_line(file.name));
  fmt::print("{:>10}  to push to {}\n", format_bytes(bytes_of(files)), hub::shown_name(repository));
  return kDone;
}

}  // namespace

int cmd_push(std::span<const std::string> args) {
  CommandLine line("spillway push",
                   "Sends a model, an adapter or a GGUF file to the Hugging Face hub as one commit, and prints the\n"
                   "address of its page. The token is that of HF_TOKEN, or of `hf auth login`.");
  std::string folder, id, revision;
  hub::PushOptions options{.server = {}};
  std::vector<std::string> include;
  bool is_dry_run = false, json = false;
  line.required("FOLDER", folder, "what to send: a folder that train, merge or export wrote, or one file");
  line.required("ORG/NAME", id, "its name on the hub; a repository that is not there is created");
  line.option("--revision BRANCH", revision, "the branch, which is created; main where it is not given");
  line.flag("--private", options.is_private, "of a repository that is created: only its owners see it");
  line.option("--message TEXT", options.message, "of the commit");
  line.options("--include PATTERN", include,
               "the files whose paths match, such as '*.gguf' (* also goes over slashes); may be given several times; "
               "in the place of what is usual: all but hidden files, checkpoints, and logs of a run");
  line.flag("--replace-weights", options.replaces_weights,
            "remove other weights that the repository has in the same folder");
  line.flag("--dry-run", is_dry_run, "only list the files and their sizes");
  line.flag("--json", json, "print one JSON document");
  line.example("spillway push ./model-out me/my-adapter --private");
  line.example("spillway push ./model-q4_k_m.gguf me/my-model-gguf");
  if (!line.parse(args)) return kDone;

  const hub::Repository repository = repository_to_push(id, revision);
  std::vector<hub::PushedFile> files = files_to_push(folder, include);
  if (is_dry_run) return print_files(files, repository, json);
  options.server = hub::server_of_environment();
  if (!json)
    log_info("pushing {} files of {} to {} of {}", files.size(), format_bytes(bytes_of(files)),
             hub::shown_name(repository), hub::origin_of(options.server.endpoint));
  Progress progress({});
  options.on_progress = [&](int64_t done, int64_t total) {
    progress.load({.what = "sent", .bytes = done, .total_bytes = total}, now_seconds());
  };
  const hub::Pushed pushed = hub::push(repository, std::move(files), options);
  progress.clear();
  if (json) {
    fmt::print("{}\n", json_text(pushed_json(pushed), 2));
    return kDone;
  }
  if (pushed.sent.empty() && pushed.removed.empty()) {
    log_info("all of it was there already (commit {:.8})", pushed.commit);
  } else {
    log_info("sent {} files of {}, {} were there already (commit {:.8})", pushed.sent.size(),
             format_bytes(pushed.bytes), pushed.unchanged.size(), pushed.commit);
  }
  for (const std::string& name : pushed.ignored) log_info("{} is ignored by the repository's .gitignore", name);
  for (const std::string& name : pushed.removed) log_info("{} was removed there", name);
  fmt::print("{}\n", shown_line(pushed.url));
  return kDone;
}

}  // namespace spillway
