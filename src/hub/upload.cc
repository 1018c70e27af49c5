#include "hub/upload.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/json_field.h"
#include "base/text.h"
#include "io/file.h"

namespace spillway::hub {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kLfsType = "application/vnd.git-lfs+json";
constexpr int64_t kFilesOfBatch = 256;
constexpr int kTransfers = 3;  // of a file: new addresses are asked for where those of the last one have expired

bool is_success(const HttpResponse& response) {
  return response.is_whole() && response.status >= 200 && response.status < 300;
}

// The addresses at which the store takes a file.
struct Transfer {
  std::string href, verify;        // the address of a whole file, or of the list of its parts; empty verify: none
  std::vector<std::string> parts;  // their addresses; none: the file goes whole
  int64_t part_bytes = 0;
  bool is_there = false;  // the store has the file
};

// A file on its way. Guarded by the mutex.
struct Upload {
  const LargeFile* file = nullptr;
  Transfer transfer;
  std::vector<std::string> etags;  // of its parts; empty: to be sent
  int64_t next = 0, left = 0;      // the next part, and how many have no etag
  int transfers = 0;
  int64_t sent = 0;  // bytes

  [[nodiscard]] int64_t count() const { return std::max<int64_t>(1, std::ssize(transfer.parts)); }
};

struct Part {
  Upload* upload = nullptr;
  int64_t index = 0;
  int transfer = 0;  // which of the file's
  std::string url;
  int64_t first = 0, bytes = 0;
};

Transfer read_transfer(const JsonField& object, int64_t size) {
  Transfer transfer;
  if (const JsonField error = object["error"]; error.is_object())
    throw error.bad("a place for it", "see to what the hub says");
  const JsonField actions = object["actions"];
  transfer.is_there = actions.is_null();
  if (transfer.is_there) return transfer;
  const JsonField upload = actions["upload"];
  transfer.href = upload["href"].string();
  if (const JsonField verify = actions["verify"]; verify.is_object()) transfer.verify = verify["href"].string();
  const JsonField header = upload["header"].object_or_empty();
  if (!header.has("chunk_size")) return transfer;
  const JsonField chunk = header["chunk_size"];
  transfer.part_bytes = chunk.is_string() ? std::atoll(chunk.string().c_str()) : chunk.integer(1, INT64_MAX);
  std::map<int64_t, std::string> parts;
  for (const auto& [name, value] : header.members()) {
    if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos)
      parts[std::atoll(name.c_str())] = value.string();
  }
  for (auto& [number, url] : parts) transfer.parts.push_back(std::move(url));
  if (transfer.part_bytes < 1 || std::ssize(parts) != (size + transfer.part_bytes - 1) / transfer.part_bytes)
    throw header.bad("an address for each part", "try again later");
  return transfer;
}

class Uploads {
 public:
  Uploads(const Server& server, const Repository& repository, std::span<const LargeFile> files,
          const UploadOptions& options)
      : server_(server),
        repository_(repository),
        options_(options),
        is_stopped_([this] { return stop_.load() || interrupt_requested(); }) {
    for (const LargeFile& file : files) {
      uploads_.emplace_back();
      uploads_.back().file = &file;
    }
  }

  void run() {
    HttpClient client;
    std::vector<Upload*> all;
    for (Upload& upload : uploads_) all.push_back(&upload);
    for (size_t at = 0; at < all.size(); at += kFilesOfBatch)
      ask_for_transfers(client, std::span(all).subspan(at, std::min<size_t>(kFilesOfBatch, all.size() - at)));
    for (const Upload& upload : uploads_) total_ += upload.left > 0 ? upload.file->size : 0;
    std::vector<std::thread> threads;
    const auto join = [&] {
      for (std::thread& thread : threads) thread.join();
    };
    try {
      for (int i = 0; i < options_.connections; ++i) threads.emplace_back([this] { work(); });
      wait_for_all();
    } catch (...) {
      stop_ = true;
      join();
      throw;
    }
    join();
    if (failure_) std::rethrow_exception(failure_);
    if (interrupt_requested()) throw Interrupted();
  }

 private:
  void ask_for_transfers(HttpClient& client, std::span<Upload* const> uploads) {
    Json objects = Json::array();
    for (const Upload* upload : uploads)
      objects.push_back({{"oid", upload->file->sha256}, {"size", upload->file->size}});
    const Json question = {{"operation", "upload"},
                           {"transfers", {"basic", "multipart"}},
                           {"objects", std::move(objects)},
                           {"hash_algo", "sha256"},
                           {"ref", {{"name", repository_.wanted_revision()}}}};
    const std::string url =
        fmt::format("{}/{}{}.git/info/lfs/objects/batch", server_.endpoint,
                    repository_.kind == RepositoryKind::kDataset ? "datasets/" : "", url_path(repository_.id));
    const std::string answer = post_json(client, server_, repository_,
                                         {.url = url,
                                          .token = server_.token,
                                          .is_stopped = is_stopped_,
                                          .post = json_text(question),
                                          .content_type = kLfsType,
                                          .accept = kLfsType});
    if (is_stopped_()) return;
    try {
      const JsonDocument document(answer, origin_of(url));
      std::map<std::string, JsonField> objects_by_id;
      for (const JsonField& object : document.root()["objects"].elements())
        objects_by_id.emplace(object["oid"].string(), object);
      const std::lock_guard lock(mutex_);
      for (Upload* upload : uploads) {
        const auto found = objects_by_id.find(upload->file->sha256);
        if (found == objects_by_id.end())
          throw document.root()["objects"].bad(fmt::format("an entry for {}", upload->file->name), "try again later");
        begin(*upload, read_transfer(found->second, upload->file->size));
      }
    } catch (const InputError& error) {  // not the user's doing
      throw MachineError(error.what());
    }
  }

  void begin(Upload& upload, Transfer transfer) {
    upload.transfer = std::move(transfer);
    ++upload.transfers;
    upload.next = 0;
    upload.left = upload.transfer.is_there ? 0 : upload.count();
    upload.etags.assign(static_cast<size_t>(upload.count()), "");
    done_bytes_ -= std::exchange(upload.sent, 0);
  }

  void wait_for_all() {
    constexpr auto kGlance = std::chrono::milliseconds(100);
    std::unique_lock lock(mutex_);
    const auto is_over = [&] {
      return is_stopped_() ||
             std::all_of(uploads_.begin(), uploads_.end(), [](const Upload& one) { return one.left == 0; });
    };
    int64_t shown = 0;
    while (!is_over()) {
      changed_.wait_for(lock, kGlance);
      lock.unlock();
      const int64_t before = std::exchange(shown, done_bytes_);
      if (options_.on_progress && shown != before) options_.on_progress(shown, total_);
      lock.lock();
    }
  }

  void work() {
    try {
      HttpClient client;
      while (const std::optional<Part> part = take()) {
        send(client, *part);
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      stop_ = true;
    }
    changed_.notify_all();
  }

  // Returns the next part, of the first file that has one.
  std::optional<Part> take() {
    constexpr auto kGlance = std::chrono::milliseconds(100);  // at a signal, which notifies nobody
    std::unique_lock lock(mutex_);
    for (;;) {
      if (is_stopped_()) return {};
      bool all_done = true;
      for (Upload& upload : uploads_) {
        all_done = all_done && upload.left == 0;
        if (upload.left == 0 || upload.next == upload.count()) continue;
        const Transfer& transfer = upload.transfer;
        Part part{.upload = &upload, .index = upload.next++, .transfer = upload.transfers, .url = transfer.href};
        part.bytes = upload.file->size;
        if (!transfer.parts.empty()) {
          part.url = nth(transfer.parts, part.index);
          part.first = part.index * transfer.part_bytes;
          part.bytes = std::min(transfer.part_bytes, upload.file->size - part.first);
        }
        return part;
      }
      if (all_done) return {};
      changed_.wait_for(lock, kGlance);
    }
  }

  void send(HttpClient& client, const Part& part) {
    const LargeFile& file = *part.upload->file;
    const ReadFile content(file.path);
    if (content.size() != file.size) throw_changed(file);
    const HttpRequest request{.url = part.url,
                              .is_stopped = is_stopped_,
                              .put = HttpUpload{.bytes = part.bytes, .read = [&](int64_t at, auto into) {
                                                  content.read(part.first + at, into);
                                                }}};
    const HttpResponse response = ask(client, server_, request);
    if (is_stopped_()) return;
    const bool has_expired = response.is_whole() && response.status >= 400 && response.status < 500;
    if (has_expired && renew(client, part)) return;
    if (!is_success(response)) throw_write_refusal(server_, repository_, file.name, response);
    const bool is_whole = part.upload->transfer.parts.empty();
    const std::string etag = is_whole ? "whole" : response.header("etag");
    if (etag.empty())
      throw machine_error(file.name, "expected an etag for part {}, got none; try again later", part.index + 1);
    std::vector<std::string> etags;
    {
      const std::lock_guard lock(mutex_);
      Upload& upload = *part.upload;
      if (part.transfer != upload.transfers) return;  // which was given up
      done_bytes_ += part.bytes;
      upload.sent += part.bytes;
      nth(upload.etags, part.index) = etag;
      if (upload.left > 1) {
        --upload.left;
        return;
      }
      etags = upload.etags;
    }
    complete(client, part, etags);
  }

  // Begins the file anew, with other addresses, unless another thread has. Returns false if it was begun too often.
  [[nodiscard]] bool renew(HttpClient& client, const Part& part) {
    const std::lock_guard renewing(renewing_);
    {
      const std::lock_guard lock(mutex_);
      if (part.transfer != part.upload->transfers) return true;
      if (part.transfer == kTransfers) return false;
    }
    Upload* const one[] = {part.upload};
    ask_for_transfers(client, one);
    return true;
  }

  // Tells the hub which parts there are, and that the file is whole. The last part counts as missing until then.
  void complete(HttpClient& client, const Part& part, const std::vector<std::string>& etags) {
    Upload& upload = *part.upload;
    const LargeFile& file = *upload.file;
    if (!upload.transfer.parts.empty()) {
      Json parts = Json::array();
      for (const std::string& etag : etags) parts.push_back({{"partNumber", parts.size() + 1}, {"etag", etag}});
      const HttpRequest request{.url = upload.transfer.href,
                                .is_stopped = is_stopped_,
                                .post = json_text(Json{{"oid", file.sha256}, {"parts", std::move(parts)}}),
                                .content_type = kLfsType,
                                .accept = kLfsType};
      const HttpResponse response = ask(client, server_, request);
      if (is_stopped_()) return;
      if (!is_success(response)) throw_write_refusal(server_, repository_, file.name, response);
    }
    if (!upload.transfer.verify.empty()) {
      const std::string& url = upload.transfer.verify;
      const HttpRequest request{.url = url,
                                .token = origin_of(url) == origin_of(server_.endpoint) ? server_.token : "",
                                .is_stopped = is_stopped_,
                                .post = json_text(Json{{"oid", file.sha256}, {"size", file.size}}),
                                .content_type = "application/json"};
      (void)post_json(client, server_, repository_, request);
    }
    const std::lock_guard lock(mutex_);
    upload.left = 0;
  }

  [[noreturn]] static void throw_changed(const LargeFile& file) {
    throw input_error(file.path.string(), "expected {} bytes, got another size while it was sent; push it again",
                      file.size);
  }

  const Server& server_;
  const Repository& repository_;
  const UploadOptions& options_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> done_bytes_{0};
  int64_t total_ = 0;
  IsStopped is_stopped_;
  std::mutex mutex_, renewing_;
  std::condition_variable changed_;
  std::deque<Upload> uploads_;
  std::exception_ptr failure_;
};

}  // namespace

void upload_large_files(const Server& server, const Repository& repository, std::span<const LargeFile> files,
                        const UploadOptions& options) {
  Uploads(server, repository, files, options).run();
}

void throw_write_refusal(const Server& server, const Repository& repository, std::string_view name,
                         const HttpResponse& response) {
  const std::string where = name.empty() ? shown_name(repository) : fmt::format("{}: {}", shown_name(repository), name);
  const std::string host = origin_of(response.url);
  std::string said = response.header("x-error-message");
  for (size_t at = said.find(server.token); !server.token.empty() && at != std::string::npos;
       at = said.find(server.token))
    said.replace(at, server.token.size(), "...");
  const std::string answer =
      fmt::format("HTTP status {}{}", response.status, said.empty() ? "" : fmt::format(" ({})", quote(said)));
  if (!response.error.empty())
    throw machine_error(where,
                        "expected {} to answer, got \"{}\"; see to the network and push again, files that have arrived "
                        "are not sent again",
                        host, response.error);
  if (response.status == 401)
    throw input_error(where, "expected a valid token, got {}; see to HF_TOKEN, or log in again (`hf auth login`)",
                      answer);
  if (response.status == 403 || response.status == 404)
    throw input_error(
        where,
        "expected the right to write there, got {}; see that HF_TOKEN belongs to an account that may, and "
        "has the role write",
        answer);
  if (response.status >= 400 && response.status < 500)
    throw input_error(where, "expected {} to take it, got {}; see to what it says, and push again", host, answer);
  throw machine_error(where,
                      "expected {} to answer, got {}; push again later, files that have arrived are not sent again",
                      host, answer);
}

std::string post_json(HttpClient& client, const Server& server, const Repository& repository, HttpRequest request) {
  const HttpResponse response = ask(client, server, request);
  if (response.by_sink) return {};
  if (!is_success(response)) throw_write_refusal(server, repository, "", response);
  return response.body;
}

}  // namespace spillway::hub
