#include "hub/push.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/base64.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/json_field.h"
#include "base/sizes.h"
#include "base/text.h"
#include "hub/cache.h"
#include "hub/digest.h"
#include "hub/selection.h"
#include "hub/upload.h"
#include "io/file.h"

namespace spillway::hub {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kConflict = 409, kPreconditionFailed = 412;
constexpr const char* kJsonType = "application/json";

// A file that differs from the repository's, and how it goes there.
struct Addition {
  PushedFile file;
  bool is_large = false;
  std::string sha256;   // of a large one
  std::string content;  // of another
};

std::string sample_of(const PushedFile& file) {
  constexpr int64_t kSampleBytes = 512;
  const ReadFile content(file.path);
  std::string sample = repeated('\0', std::min(kSampleBytes, file.size));
  content.read(0, std::as_writable_bytes(std::span(sample)));
  return sample;
}

// Returns true for files of tensors that readers look for by their names.
bool is_tensor_file(std::string_view name) {
  const std::string_view file = name.substr(name.rfind('/') + 1);
  return file.ends_with(".safetensors") || matches(file, "pytorch_model*.bin") || file == "adapter_model.bin";
}

// Returns true for those, and for the indices of their shards.
bool is_weights_file(std::string_view name) {
  const std::string_view file = name.substr(name.rfind('/') + 1);
  return is_tensor_file(name) || file.ends_with(".safetensors.index.json") || file == "pytorch_model.bin.index.json";
}

std::string folder_of_name(std::string_view name) {
  const size_t slash = name.rfind('/');
  return std::string(name.substr(0, slash == std::string_view::npos ? 0 : slash));
}

class Push {
 public:
  Push(Repository repository, const PushOptions& options) : repository_(std::move(repository)), options_(options) {
    if (is_offline())
      throw input_error(shown_name(repository_), "expected to send to the hub, got HF_HUB_OFFLINE; unset it");
    if (options.server.token.empty())
      throw input_error("HF_TOKEN",
                        "expected a token with the right to write to {}, got none; set HF_TOKEN, or log in "
                        "(`hf auth login`)",
                        repository_.id);
    if (is_commit(repository_.wanted_revision()))
      throw input_error(shown_name(repository_), "expected a branch to push to, got a commit; name a branch");
  }

  // Finds the repository and its revision, or creates them.
  void open() {
    const bool has_owner = repository_.id.find('/') != std::string::npos;
    FoundRepository found;
    if (has_owner) found = find();
    if (!found.is_there) {
      create();
      found = find();
    }
    if (options_.is_private && found.is_there) check_private(found);
    if (found.is_there && !found.listing) {
      create_branch();
      found = find();
    }
    check_interrupt_of_push();
    if (!found.listing)
      throw machine_error(shown_name(repository_), "expected what was created just now, got 404; push again");
    listing_ = *std::move(found.listing);
  }

  // Asks how files go there. The hub refuses that to those who may not write.
  void check_right() const { (void)preupload(Json::array({file_json({.name = "README.md"}, "")})); }

  void check_weights(const std::string& pattern) const {
    (void)other_weights({folder_of_name(pattern)}, [&](const std::string& name) { return matches(name, pattern); });
  }

  [[nodiscard]] const Repository& repository() const { return repository_; }

  Pushed run(std::vector<PushedFile> files) {
    Pushed pushed{.repository = repository_, .commit = listing_.commit, .url = page(), .is_new = is_new_};
    std::vector<PushedFile> changed;
    for (PushedFile& file : files) {
      names_.insert(file.name);
      if (is_unchanged(file)) {
        pushed.unchanged.push_back(file.name);
      } else {
        changed.push_back(std::move(file));
      }
    }
    if (changed.empty()) return pushed;
    std::vector<Addition> additions = planned_additions(std::move(changed), pushed.ignored);
    for (const std::string& name : pushed.ignored) names_.erase(name);
    pushed.removed =
        other_weights(folders_of_tensors(additions), [&](const std::string& name) { return names_.contains(name); });
    send_large_files(additions);
    for (const Addition& one : additions) {
      pushed.sent.push_back(one.file.name);
      pushed.bytes += one.file.size;
    }
    if (!additions.empty()) pushed.commit = commit(additions, pushed.removed);
    return pushed;
  }

 private:
  [[nodiscard]] std::string page() const { return fmt::format("{}/{}", options_.server.endpoint, repository_.id); }

  // Returns the member of an answer; empty if there is none.
  static std::string member(const std::string& answer, const std::string& url, const char* name) {
    const auto json = parse_json<nlohmann::json>(answer, url);
    const auto found = json.is_object() ? json.find(name) : json.end();
    return json.is_object() && found != json.end() && found->is_string() ? found->get<std::string>() : "";
  }

  [[nodiscard]] FoundRepository find() { return find_repository(client_, options_.server, repository_, is_stopped_); }

  [[nodiscard]] HttpRequest request(const std::string& url, std::string body, const char* type = kJsonType) const {
    return {.url = url,
            .token = options_.server.token,
            .is_stopped = is_stopped_,
            .post = std::move(body),
            .content_type = type};
  }

  // The hub's answer names the repository, with the owner of the token where the name had none.
  void create() {
    const size_t slash = repository_.id.find('/');
    Json question = {{"name", slash == std::string::npos ? repository_.id : repository_.id.substr(slash + 1)},
                     {"organization", slash == std::string::npos ? Json() : Json(repository_.id.substr(0, slash))}};
    if (options_.is_private) question["visibility"] = "private";
    question["type"] = "model";
    const std::string url = options_.server.endpoint + "/api/repos/create";
    const HttpResponse response = ask(client_, options_.server, request(url, json_text(question)));
    check_interrupt_of_push();
    const bool is_created = response.is_whole() && response.status >= 200 && response.status < 300;
    if (!is_created && response.status != kConflict) throw_write_refusal(options_.server, repository_, "", response);
    is_new_ = is_created;
    if (slash != std::string::npos) return;
    const std::string address = member(response.body, url, "url");
    const size_t name = address.rfind('/'), owner = address.rfind('/', name - 1);
    const std::optional<Repository> named =
        repository_named(name == std::string::npos || owner == std::string::npos ? "" : address.substr(owner + 1));
    if (!named)
      throw machine_error(url, "expected the address of {}, got {}; write its name as ORG/NAME", quote(repository_.id),
                          quote(address));
    repository_.id = named->id;
  }

  // Throws unless the hub says that the repository is private. Where it lacks the revision, main is looked at.
  void check_private(const FoundRepository& found) {
    Repository main = repository_;
    main.revision.clear();
    const std::optional<Listing> listing =
        found.listing ? found.listing : find_repository(client_, options_.server, main, is_stopped_).listing;
    check_interrupt_of_push();
    if (!listing || listing->is_private != true)
      throw input_error(shown_name(repository_),
                        "expected a private repository, got a public one; make it private in its settings, or push "
                        "without asking for that");
  }

  void create_branch() {
    const std::string url =
        fmt::format("{}/branch/{}", api_url(options_.server, repository_), url_segment(repository_.wanted_revision()));
    const HttpResponse response = ask(client_, options_.server, request(url, "{}"));
    check_interrupt_of_push();
    const bool is_success = response.is_whole() && response.status >= 200 && response.status < 300;
    if (!is_success && response.status != kConflict) throw_write_refusal(options_.server, repository_, "", response);
  }

  [[nodiscard]] bool is_unchanged(const PushedFile& file) {
    const auto there = std::find_if(listing_.files.begin(), listing_.files.end(),
                                    [&](const RemoteFile& one) { return one.path == file.name; });
    if (there == listing_.files.end() || there->size != file.size) return false;
    const DigestKind kind = digest_kind(there->digest);
    if (kind == DigestKind::kNone) return false;
    if (kind == DigestKind::kSha256) return sha256_of_file(file) == there->digest;
    const std::string digest = file_digest(file.path, kind, is_stopped_);
    check_interrupt_of_push();
    return digest == there->digest;
  }

  // Reads the file once.
  const std::string& sha256_of_file(const PushedFile& file) {
    std::string& digest = sha256_[file.name];
    if (digest.empty()) digest = file_digest(file.path, DigestKind::kSha256, is_stopped_);
    check_interrupt_of_push();
    return digest;
  }

  static std::set<std::string> folders_of_tensors(const std::vector<Addition>& additions) {
    std::set<std::string> folders;
    for (const Addition& one : additions) {
      if (is_tensor_file(one.file.name)) folders.insert(folder_of_name(one.file.name));
    }
    return folders;
  }

  // Returns the repository's weights in these folders that are not of the push; throws unless they are to be replaced.
  [[nodiscard]] std::vector<std::string> other_weights(const std::set<std::string>& folders,
                                                       const std::function<bool(const std::string&)>& is_own) const {
    std::vector<std::string> others;
    for (const RemoteFile& file : listing_.files) {
      if (is_weights_file(file.path) && folders.contains(folder_of_name(file.path)) && !is_own(file.path))
        others.push_back(file.path);
    }
    if (!others.empty() && !options_.replaces_weights)
      throw input_error(
          shown_name(repository_), "expected a repository without other weights, got {}; {}",
          others.size() == 1 ? others.front() : fmt::format("{} and {} more", others.front(), others.size() - 1),
          options_.advice_on_weights);
    return others;
  }

  static Json file_json(const PushedFile& file, std::string_view sample) {
    return {{"path", file.name}, {"sample", base64(sample)}, {"size", file.size}};
  }

  [[nodiscard]] std::string preupload(Json files) const {
    const std::string url = fmt::format("{}/preupload/{}", api_url(options_.server, repository_),
                                        url_segment(repository_.wanted_revision()));
    HttpClient client;
    std::string answer =
        post_json(client, options_.server, repository_, request(url, json_text(Json{{"files", std::move(files)}})));
    check_interrupt_of_push();
    return answer;
  }

  // Asks the hub which files are large, and which it ignores.
  [[nodiscard]] std::vector<Addition> planned_additions(std::vector<PushedFile> files,
                                                        std::vector<std::string>& ignored) const {
    constexpr size_t kFilesOfQuestion = 256;
    std::vector<Addition> additions;
    for (size_t at = 0; at < files.size(); at += kFilesOfQuestion) {
      const auto chunk = std::span(files).subspan(at, std::min(kFilesOfQuestion, files.size() - at));
      Json question = Json::array();
      for (const PushedFile& file : chunk) question.push_back(file_json(file, sample_of(file)));
      const std::string answer = preupload(std::move(question));
      try {
        const JsonDocument document(answer, page());
        std::map<std::string, JsonField> answers;
        for (const JsonField& one : document.root()["files"].elements()) answers.emplace(one["path"].string(), one);
        for (PushedFile& file : chunk) {
          const auto found = answers.find(file.name);
          if (found == answers.end())
            throw document.root()["files"].bad(fmt::format("an entry for {}", file.name), "try again later");
          if (found->second["shouldIgnore"].boolean_or(false)) {
            ignored.push_back(file.name);
            continue;
          }
          const bool is_large = found->second["uploadMode"].string() == "lfs" && file.size > 0;
          additions.push_back({.file = std::move(file), .is_large = is_large});
        }
      } catch (const InputError& error) {  // not the user's doing
        throw MachineError(error.what());
      }
    }
    return additions;
  }

  void send_large_files(std::vector<Addition>& additions) {
    std::map<std::string, LargeFile> large;  // by their digests: two files with the same bytes go once
    for (Addition& one : additions) {
      if (!one.is_large) {
        constexpr int64_t kMaxBytes = 256 * kMiB;  // the hub takes far less that way
        one.content = read_file(one.file.path, kMaxBytes);
        continue;
      }
      one.sha256 = sha256_of_file(one.file);
      large[one.sha256] = {one.file.path, one.file.name, one.file.size, one.sha256};
    }
    std::vector<LargeFile> files;
    for (auto& [digest, file] : large) files.push_back(std::move(file));
    if (!files.empty())
      upload_large_files(options_.server, repository_, files,
                         {.connections = options_.connections, .on_progress = options_.on_progress});
  }

  [[nodiscard]] std::string commit_text(const std::vector<Addition>& additions,
                                        const std::vector<std::string>& removed) const {
    const auto line = [](const char* key, Json value) {
      return json_text(Json{{"key", key}, {"value", std::move(value)}}) + "\n";
    };
    std::string text =
        line("header", {{"summary", options_.message}, {"description", ""}, {"parentCommit", listing_.commit}});
    for (const Addition& one : additions) {
      if (one.is_large) {
        text += line("lfsFile",
                     {{"path", one.file.name}, {"algo", "sha256"}, {"oid", one.sha256}, {"size", one.file.size}});
      } else {
        text += line("file", {{"content", base64(one.content)}, {"path", one.file.name}, {"encoding", "base64"}});
      }
    }
    for (const std::string& name : removed) text += line("deletedFile", {{"path", name}});
    return text;
  }

  // Returns the new commit. It stands on the one that was listed, so that a request whose answer was lost is not made
  // twice, and nothing of somebody else's is replaced unseen.
  [[nodiscard]] std::string commit(const std::vector<Addition>& additions, const std::vector<std::string>& removed) {
    const std::string url =
        fmt::format("{}/commit/{}", api_url(options_.server, repository_), url_segment(repository_.wanted_revision()));
    const HttpRequest wanted = request(url, commit_text(additions, removed), "application/x-ndjson");
    Attempts attempts(options_.server, is_stopped_);
    for (;;) {
      const HttpResponse response = client_.follow(wanted);
      check_interrupt_of_push();
      const bool is_success = response.is_whole() && response.status >= 200 && response.status < 300;
      if (is_success) return member(response.body, url, "commitOid");
      const bool is_lost = may_pass(response);
      const bool is_other = response.status == kPreconditionFailed || response.status == kConflict;
      if (is_lost || is_other) {
        const FoundRepository now = find();
        check_interrupt_of_push();
        if (now.listing && now.listing->commit != listing_.commit) {
          if (has(*now.listing, additions, removed)) return now.listing->commit;
          throw machine_error(shown_name(repository_),
                              "expected it to be at commit {:.8}, got {:.8}: somebody else has pushed; push again",
                              listing_.commit, now.listing->commit);
        }
      }
      if (!is_lost || !attempts.wait(response)) {
        check_interrupt_of_push();
        throw_write_refusal(options_.server, repository_, "", response);
      }
    }
  }

  // Returns true if the listing has all that was sent, and nothing of what was removed.
  [[nodiscard]] static bool has(const Listing& listing, const std::vector<Addition>& additions,
                                const std::vector<std::string>& removed) {
    std::map<std::string, std::string> digests;
    for (const RemoteFile& file : listing.files) digests[file.path] = file.digest;
    const auto is_there = [&](const Addition& one) {
      const auto found = digests.find(one.file.name);
      if (found == digests.end()) return false;
      const DigestKind kind = one.is_large ? DigestKind::kSha256 : DigestKind::kGitBlob;
      return found->second == (one.is_large ? one.sha256 : file_digest(one.file.path, kind, [] { return false; }));
    };
    return std::all_of(additions.begin(), additions.end(), is_there) &&
           std::none_of(removed.begin(), removed.end(),
                        [&](const std::string& name) { return digests.contains(name); });
  }

  static void check_interrupt_of_push() {
    if (interrupt_requested()) throw Interrupted();
  }

  Repository repository_;
  const PushOptions& options_;
  IsStopped is_stopped_ = [] { return interrupt_requested(); };
  HttpClient client_;
  Listing listing_;
  bool is_new_ = false;
  std::map<std::string, std::string> sha256_;  // by the names of files that were hashed
  std::set<std::string> names_;  // of all files that are pushed, changed or not, without those that are ignored
};

}  // namespace

Repository prepare_push(const Repository& repository, const PushOptions& options, const std::string& weights) {
  Push push(repository, options);
  push.open();
  push.check_right();
  if (!weights.empty()) push.check_weights(weights);
  return push.repository();
}

Pushed push(const Repository& repository, std::vector<PushedFile> files, const PushOptions& options) {
  Push push(repository, options);
  push.open();
  return push.run(std::move(files));
}

}  // namespace spillway::hub
