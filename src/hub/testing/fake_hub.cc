#include "hub/testing/fake_hub.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace spillway::testing {
namespace {

std::string digest_of(const EVP_MD* kind, const std::string& bytes) {
  unsigned char digits[EVP_MAX_MD_SIZE];
  unsigned count = 0;
  EVP_Digest(bytes.data(), bytes.size(), digits, &count, kind, nullptr);
  std::string text;
  for (unsigned i = 0; i < count; ++i) text += fmt::format("{:02x}", digits[i]);
  return text;
}

void answer_error(httplib::Response& response, int status, const char* code) {
  response.status = status;
  response.set_header("X-Error-Code", code);
  response.set_content("{}", "application/json");
}

}  // namespace

std::string sha256_of(const std::string& bytes) { return digest_of(EVP_sha256(), bytes); }

std::string git_blob_of(const std::string& bytes) {
  return digest_of(EVP_sha1(), fmt::format("blob {}", bytes.size()) + '\0' + bytes);
}

FakeHub::FakeHub() {
  start(hub_, false);
  start(store_, true);
  hub_address = endpoint();
  store_address = fmt::format("http://127.0.0.1:{}", store_.port);
}

FakeHub::~FakeHub() {
  for (Side* side : {&hub_, &store_}) {
    side->server.stop();
    side->thread.join();
  }
}

std::string FakeHub::endpoint() const { return fmt::format("http://127.0.0.1:{}", hub_.port); }

void FakeHub::set_fault(std::function<std::optional<Fault>(const Seen&)> fault) {
  const std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

std::vector<Seen> FakeHub::seen() {
  const std::lock_guard lock(mutex_);
  return seen_;
}

void FakeHub::forget_seen() {
  const std::lock_guard lock(mutex_);
  seen_.clear();
}

void FakeHub::start(Side& side, bool is_store) {
  side.server.set_keep_alive_max_count(1000);
  side.server.set_tcp_nodelay(true);  // heads and bodies are sent apart
  side.server.new_task_queue = [] { return new httplib::ThreadPool(24); };
  const auto handle = [this, is_store](const httplib::Request& request, httplib::Response& response) {
    answer(request, response, is_store);
  };
  side.server.Get(".*", handle).Post(".*", handle).Put(".*", handle);
  side.port = side.server.bind_to_any_port("127.0.0.1");
  side.thread = std::thread([&side] { side.server.listen_after_bind(); });
  while (!side.server.is_running()) std::this_thread::yield();
}

void FakeHub::answer(const httplib::Request& request, httplib::Response& response, bool is_store) {
  const Seen seen{.at_store = is_store,
                  .method = request.method,
                  .path = request.path,
                  .token = request.get_header_value("Authorization"),
                  .range = request.get_header_value("Range"),
                  .type = request.get_header_value("Content-Type"),
                  .body = request.body};
  Fault fault;
  {
    const std::lock_guard lock(mutex_);
    seen_.push_back(seen);
    if (fault_) fault = fault_(seen).value_or(Fault{});
  }
  for (const auto& [name, value] : fault.headers) response.set_header(name, value);
  if (fault.status != 0) {
    const_cast<httplib::Request&>(request).ranges.clear();  // of the answer that does not come
    response.status = fault.status;
    response.set_content("{}", "application/json");
  } else if (request.method == "POST") {
    answer_post(request, response);
  } else if (request.method == "PUT") {
    answer_put(request, response);
  } else if (request.path.starts_with("/api/")) {
    answer_listing(request.path.substr(std::string("/api/").size()), response);
  } else {
    answer_file(request, response, is_store, fault);
  }
}

// Answers "models/org/name/revision/main".
void FakeHub::answer_listing(const std::string& path, httplib::Response& response) {
  const std::lock_guard lock(mutex_);
  const size_t mark = path.find("/revision/");
  const auto found = repositories.find(path.substr(0, mark));
  if (found == repositories.end()) return answer_error(response, 404, "RepoNotFound");
  const std::string revision =
      mark == std::string::npos ? "main" : path.substr(mark + std::string("/revision/").size());
  if (!found->second.branches.contains(revision) && revision != found->second.commit)
    return answer_error(response, 404, "RevisionNotFound");
  nlohmann::json siblings = nlohmann::json::array();
  for (const auto& [name, file] : found->second.files) {
    nlohmann::json one = {{"rfilename", name}, {"size", file.content.size()}, {"blobId", git_blob_of(file.content)}};
    if (file.is_large) one["lfs"] = {{"sha256", sha256_of(file.content)}, {"size", file.content.size()}};
    siblings.push_back(std::move(one));
  }
  response.set_content(nlohmann::json{{"id", found->first},
                                      {"sha", found->second.commit},
                                      {"private", found->second.is_private},
                                      {"siblings", siblings}}
                           .dump(),
                       "application/json");
}

// Answers "/org/name/resolve/COMMIT/file", behind "/datasets" for a data set.
void FakeHub::answer_file(const httplib::Request& request, httplib::Response& response, bool is_store,
                          const Fault& fault) {
  const size_t mark = request.path.find("/resolve/");
  const std::string before = request.path.substr(0, mark);
  const auto found = repositories.find(before.starts_with("/datasets/") ? before.substr(1) : "models" + before);
  if (mark == std::string::npos || found == repositories.end()) return answer_error(response, 404, "RepoNotFound");
  const std::string rest = request.path.substr(mark + std::string("/resolve/").size());
  const auto file = found->second.files.find(rest.substr(std::min(rest.size(), rest.find('/') + 1)));
  if (file == found->second.files.end()) return answer_error(response, 404, "EntryNotFound");
  std::string content = file->second.content;
  response.set_header("X-Repo-Commit", found->second.commit);
  if (file->second.is_large && !is_store) {
    response.set_header("X-Linked-Etag", fmt::format("\"{}\"", sha256_of(content)));
    response.set_header("X-Linked-Size", fmt::format("{}", content.size()));
    response.set_redirect(fmt::format("http://127.0.0.1:{}{}", store_.port, request.path));
    return;
  }
  if (!file->second.is_large) response.set_header("ETag", fmt::format("\"{}\"", git_blob_of(content)));
  if (fault.wrong_bytes) content[content.size() / 2] ^= 1;
  if (fault.longer) content += "more";
  if (fault.ignores_range) const_cast<httplib::Request&>(request).ranges.clear();
  const size_t size = content.size();
  if (fault.cut_after < 0) return response.set_content(content, "application/octet-stream");
  response.set_content_provider(size, "application/octet-stream",
                                [content = std::move(content), cut = static_cast<size_t>(fault.cut_after)](
                                    size_t offset, size_t length, httplib::DataSink& sink) {
                                  const size_t count = std::min(cut, length);
                                  sink.write(content.data() + offset, count);
                                  return count == length;
                                });
}

}  // namespace spillway::testing
