#include "hub/download.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/sizes.h"
#include "hub/blob.h"
#include "hub/cache.h"
#include "io/file.h"

namespace spillway::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kPartial = 206, kBeyond = 416;

// A blob and its workers. Guarded by the mutex, except `content`, which belongs to the thread that has set `is_busy`.
struct Blob {
  std::string path, digest;  // of the file that it is fetched for, as the list has it
  std::string etag, location;
  int64_t size = -1;
  BlobLock lock;
  IncompleteBlob content;
  bool is_begun = false, is_in_pieces = false, is_busy = false, is_done = false;
  bool ignores_ranges = false;  // the server does
  int wrong_digests = 0;
  int64_t next = 0;                                   // where the next piece begins
  int in_flight = 0;                                  // pieces that are being fetched
  std::map<int64_t, std::vector<std::byte>> waiting;  // pieces behind one that is not there
};

struct Piece {
  Blob* blob = nullptr;
  int64_t first = 0, bytes = 0;  // none: the blob is to be begun
};

class Downloads {
 public:
  Downloads(const Server& server, const Repository& repository, const std::string& commit,
            std::span<const RemoteFile> files, const fs::path& cache, const DownloadOptions& options)
      : server_(server),
        repository_(repository),
        commit_(commit),
        folder_(repository_folder(cache, repository)),
        locks_(repository_folder(cache / ".locks", repository)),
        options_(options),
        is_stopped_([this] { return stop_.load(); }) {
    for (const RemoteFile& file : files) {
      blobs_.emplace_back();
      blobs_.back().path = file.path;
      blobs_.back().size = file.size;
      blobs_.back().digest = file.digest;
    }
  }

  std::map<std::string, std::string> run() {
    create_folders(folder_ / "blobs");
    create_folders(locks_);
    std::vector<std::thread> threads;
    const auto stop = [&] {
      {
        const std::lock_guard lock(mutex_);  // so that no thread misses it between looking and waiting
        stop_ = true;
      }
      changed_.notify_all();
      for (std::thread& thread : threads) thread.join();
    };
    try {
      for (int i = 0; i < options_.connections; ++i) threads.emplace_back([this] { work(); });
      wait_for_all();
    } catch (...) {
      stop();
      throw;
    }
    stop();
    if (failure_) std::rethrow_exception(failure_);
    check_interrupt();
    return etags_;
  }

 private:
  void wait_for_all() {
    constexpr auto kGlance = std::chrono::milliseconds(100);
    std::unique_lock lock(mutex_);
    const auto is_over = [&] {
      return stop_ || std::all_of(blobs_.begin(), blobs_.end(), [](const Blob& blob) { return blob.is_done; });
    };
    int64_t shown = 0;
    while (!is_over() && !interrupt_requested()) {
      changed_.wait_for(lock, kGlance);
      lock.unlock();
      const int64_t before = std::exchange(shown, done_bytes_);
      if (options_.on_progress && shown != before) options_.on_progress(shown);
      lock.lock();
    }
  }

  void work() {
    try {
      HttpClient client;
      while (const std::optional<Piece> piece = take()) {
        if (piece->bytes == 0) {
          begin(client, *piece->blob);
        } else {
          fetch_piece(client, *piece);
        }
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_ && !stop_) failure_ = std::current_exception();
      stop_ = true;
      changed_.notify_all();
    }
  }

  // Returns the next piece of work, of the first file, so that few are open at a time.
  std::optional<Piece> take() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (stop_) return {};
      bool all_done = true;
      for (Blob& blob : blobs_) {
        all_done = all_done && blob.is_done;
        if (!blob.is_begun) {
          blob.is_begun = true;
          return Piece{.blob = &blob};
        }
        if (const auto piece = next_piece(blob)) return piece;
      }
      if (all_done) return {};
      changed_.wait(lock);
    }
  }

  [[nodiscard]] std::optional<Piece> next_piece(Blob& blob) const {
    const auto window = 2 * static_cast<int64_t>(options_.connections);
    if (!blob.is_in_pieces || blob.ignores_ranges || blob.next >= blob.size) return {};
    if (blob.in_flight + std::ssize(blob.waiting) >= window) return {};
    const Piece piece{
        .blob = &blob, .first = blob.next, .bytes = std::min(options_.piece_bytes, blob.size - blob.next)};
    blob.next += piece.bytes;
    ++blob.in_flight;
    return piece;
  }

  void begin(HttpClient& client, Blob& blob) {
    const FileHead head = head_of_file(client, server_, repository_, commit_, blob.path, is_stopped_);
    if (stop_) return;
    if (head.size >= 0 && blob.size >= 0 && head.size != blob.size)
      throw machine_error(name_of(blob), "expected {} bytes, got an announcement of {}; try again later", blob.size,
                          head.size);
    if (!blob.digest.empty() && digest_kind(head.etag) != DigestKind::kNone && head.etag != blob.digest)
      throw machine_error(name_of(blob), "expected the digest {}, got an announcement of {}; try again later",
                          blob.digest, head.etag);
    const fs::path path = folder_ / "blobs" / head.etag;
    bool is_second = false;
    {
      const std::lock_guard lock(mutex_);
      if (blob.size < 0) blob.size = head.size;
      blob.location = head.location;
      blob.etag = head.etag;
      etags_[blob.path] = head.etag;
      // Two files with the same bytes are one blob.
      is_second = std::any_of(blobs_.begin(), blobs_.end(),
                              [&](const Blob& other) { return &other != &blob && other.etag == head.etag; });
      if (is_second) blob.is_done = true;
    }
    if (is_second) return count(blob.size);
    blob.lock = BlobLock(locks_ / (head.etag + ".lock"), name_of(blob), is_stopped_);
    if (stop_) return;
    std::error_code none;
    if (fs::is_regular_file(path, none) && (blob.size < 0 || static_cast<int64_t>(fs::file_size(path)) == blob.size)) {
      count(blob.size);
      return finish(blob);
    }
    blob.content = IncompleteBlob(path, blob.size);
    count(blob.content.written());
    start(client, blob);
  }

  // Starts a blob that no other thread works on.
  void start(HttpClient& client, Blob& blob) {
    if (blob.size < 0 || blob.ignores_ranges || blob.size - blob.content.written() <= 2 * options_.piece_bytes)
      return stream(client, blob);
    const std::lock_guard lock(mutex_);
    blob.next = blob.content.written();
    blob.is_in_pieces = true;
  }

  // Fetches all that is missing, as it comes.
  void stream(HttpClient& client, Blob& blob) {
    Attempts attempts(server_, is_stopped_);
    while (blob.content.written() != blob.size) {
      const int64_t before = blob.content.written();
      bool is_too_long = false;
      const HttpRequest request{.url = file_url(server_, repository_, commit_, blob.path),
                                .token = server_.token,
                                .first = before > 0 ? before : -1,
                                .sink =
                                    [&, is_first = true](int status, std::span<const std::byte> bytes) mutable {
                                      if (std::exchange(is_first, false) && before > 0 && status != kPartial)
                                        clear(blob);
                                      is_too_long =
                                          blob.size >= 0 && blob.content.written() + std::ssize(bytes) > blob.size;
                                      if (is_too_long) return false;
                                      blob.content.append(bytes);
                                      count(std::ssize(bytes));
                                      return true;
                                    },
                                .is_stopped = is_stopped_};
      HttpResponse response = client.follow(request);
      if (stop_) return;
      if (is_too_long) {
        clear(blob);
        response.error = fmt::format("more bytes than the {} announced", blob.size);
        response.by_sink = false;
      } else if (response.status == kBeyond) {
        clear(blob);
        response.error = "no bytes where the file goes on";
      } else if (response.is_whole() && is_success(response)) {
        if (blob.size < 0) blob.size = blob.content.written();
        if (blob.content.written() == blob.size) break;
        response.error = fmt::format("{} bytes of {}", blob.content.written(), blob.size);
      }
      if (blob.content.written() > before) attempts.restart();
      if (!may_pass(response) || !attempts.wait(response)) {
        if (stop_) return;
        throw_refusal(server_, repository_, blob.path, response);
      }
    }
    check_digest(client, blob);
  }

  void fetch_piece(HttpClient& client, const Piece& piece) {
    Blob& blob = *piece.blob;
    std::vector<std::byte> bytes;
    const bool ranges = read_piece(client, piece, bytes);
    if (stop_) return;
    {
      const std::lock_guard lock(mutex_);
      --blob.in_flight;
      if (!ranges) blob.ignores_ranges = true;
      if (ranges && !blob.ignores_ranges) blob.waiting.emplace(piece.first, std::move(bytes));
    }
    write_waiting(client, blob);
  }

  // Writes waiting pieces that follow the present bytes. For one thread at a time; others leave their pieces to it.
  void write_waiting(HttpClient& client, Blob& blob) {
    {
      std::unique_lock lock(mutex_);
      if (blob.is_busy) return;
      while (!blob.waiting.empty() && blob.waiting.begin()->first == blob.content.written() && !blob.ignores_ranges) {
        const std::vector<std::byte> bytes = std::move(blob.waiting.begin()->second);
        blob.waiting.erase(blob.waiting.begin());
        blob.is_busy = true;
        lock.unlock();
        blob.content.append(bytes);
        changed_.notify_all();
        lock.lock();
        blob.is_busy = false;
      }
      const bool is_over = blob.content.written() == blob.size || (blob.ignores_ranges && blob.in_flight == 0);
      if (!blob.is_in_pieces || !is_over) return;
      blob.is_in_pieces = false;
      blob.waiting.clear();
    }
    if (blob.content.written() == blob.size) return check_digest(client, blob);
    stream(client, blob);
  }

  // Returns false if the server ignores ranges.
  [[nodiscard]] bool read_piece(HttpClient& client, const Piece& piece, std::vector<std::byte>& bytes) {
    Blob& blob = *piece.blob;
    Attempts attempts(server_, is_stopped_);
    reserve(bytes, piece.bytes);
    for (;;) {
      const int64_t there = std::ssize(bytes);
      std::string location = location_of(blob);
      bool is_wrong = false;
      const HttpRequest request{.url = location,
                                .token = origin_of(location) == origin_of(server_.endpoint) ? server_.token : "",
                                .first = piece.first + there,
                                .last = piece.first + piece.bytes - 1,
                                .sink =
                                    [&](int status, std::span<const std::byte> more) {
                                      is_wrong =
                                          status != kPartial || std::ssize(bytes) + std::ssize(more) > piece.bytes;
                                      if (is_wrong) return false;
                                      bytes.insert(bytes.end(), more.begin(), more.end());
                                      count(std::ssize(more));
                                      return true;
                                    },
                                .is_stopped = is_stopped_};
      HttpResponse response = client.follow(request);
      if (stop_) return true;
      if (is_wrong) {
        count(-std::ssize(bytes));
        return false;
      }
      if (std::ssize(bytes) == piece.bytes) return true;
      if (std::ssize(bytes) > there) attempts.restart();
      if (response.is_whole() && is_success(response)) response.error = "fewer bytes than were asked for";
      const bool is_refused = response.status == 401 || response.status == 403 || response.status == 404;
      if (is_refused && response.url != file_url(server_, repository_, commit_, blob.path) && !response.by_sink) {
        response.error = fmt::format("HTTP status {}", response.status);  // an address that has expired
        renew_location(client, blob, location);
      }
      if (!may_pass(response) || !attempts.wait(response)) {
        if (stop_) return true;
        throw_refusal(server_, repository_, blob.path, response);
      }
    }
  }

  [[nodiscard]] std::string location_of(const Blob& blob) {
    const std::lock_guard lock(mutex_);
    return blob.location;
  }

  void renew_location(HttpClient& client, Blob& blob, const std::string& old) {
    if (location_of(blob) != old) return;  // another thread has
    FileHead head = head_of_file(client, server_, repository_, commit_, blob.path, is_stopped_);
    if (stop_) return;
    const std::lock_guard lock(mutex_);
    blob.location = std::move(head.location);
  }

  // Checks a blob that has all its bytes, and that no other thread works on.
  void check_digest(HttpClient& client, Blob& blob) {
    if (!blob.content.is_right(is_stopped_)) {
      if (stop_) return;
      clear(blob);
      if (++blob.wrong_digests > 1)
        throw machine_error(name_of(blob),
                            "expected bytes with the digest {}, got others twice; try again later, or without a proxy",
                            blob.etag);
      return start(client, blob);
    }
    blob.content.complete();
    finish(blob);
  }

  void finish(Blob& blob) {
    const std::lock_guard lock(mutex_);
    blob.lock = BlobLock();
    blob.content = IncompleteBlob();
    blob.is_done = true;
  }

  void clear(Blob& blob) {
    count(-blob.content.written());
    blob.content.clear();
  }

  void count(int64_t bytes) { done_bytes_ += bytes; }
  static bool is_success(const HttpResponse& response) { return response.status >= 200 && response.status < 300; }
  [[nodiscard]] std::string name_of(const Blob& blob) const {
    return fmt::format("{}: {}", shown_name(repository_), blob.path);
  }

  const Server& server_;
  const Repository& repository_;
  const std::string& commit_;
  fs::path folder_, locks_;
  const DownloadOptions& options_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> done_bytes_{0};
  IsStopped is_stopped_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Blob> blobs_;
  std::map<std::string, std::string> etags_;
  std::exception_ptr failure_;
};

}  // namespace

std::map<std::string, std::string> download_files(const Server& server, const Repository& repository,
                                                  const std::string& commit, std::span<const RemoteFile> files,
                                                  const fs::path& cache, const DownloadOptions& options) {
  return Downloads(server, repository, commit, files, cache, options).run();
}

}  // namespace spillway::hub
