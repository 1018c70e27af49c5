// A hub on this machine, which answers downloads and pushes as huggingface.co does, with files of its own and faults on
// demand. Large files (LFS) lie on a second server, which stands for the hub's store elsewhere.
#pragma once

#include <httplib.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace spillway::testing {

struct FakeFile {
  std::string content;
  bool is_large = false;
};

struct FakeRepository {
  std::string commit = "0123456789abcdef0123456789abcdef01234567";
  std::map<std::string, FakeFile> files;
  std::set<std::string> branches = {"main", "a/branch"};  // all at this commit
  bool is_private = false;
};

// A request that was received.
struct Seen {
  bool at_store = false;
  std::string method, path, token, range{}, type{}, body{};
};

// A wrong answer to give.
struct Fault {
  int status = 0;  // 0: the right one
  std::map<std::string, std::string> headers{};
  int64_t cut_after = -1;  // bytes of the body, then the connection ends
  bool ignores_range = false, wrong_bytes = false, longer = false;
};

class FakeHub {
 public:
  FakeHub();
  ~FakeHub();
  FakeHub(FakeHub&&) = delete;

  [[nodiscard]] std::string endpoint() const;
  // By "models/org/name" or "datasets/org/name". To be set before the first request.
  std::map<std::string, FakeRepository> repositories;
  // The tokens that may write, and only read; and the bytes above which a pushed file is sent in parts of that size.
  std::string writer = "hf_secret", reader = "hf_reader";
  size_t part_bytes = 1 << 20;
  // The addresses of hub and store that answers about pushes name: their own, unless a proxy stands before them.
  std::string hub_address, store_address;
  // Called for each request, in turn; must not call back.
  void set_fault(std::function<std::optional<Fault>(const Seen&)> fault);
  [[nodiscard]] std::vector<Seen> seen();
  void forget_seen();

 private:
  struct Side {
    httplib::Server server;
    int port = 0;
    std::thread thread;
  };

  void start(Side& side, bool is_store);
  void answer(const httplib::Request& request, httplib::Response& response, bool is_store);
  void answer_post(const httplib::Request& request, httplib::Response& response);
  void answer_put(const httplib::Request& request, httplib::Response& response);
  void create_repository(const std::string& body, httplib::Response& response);
  void answer_batch(const std::string& id, const std::string& body, httplib::Response& response);
  void join_parts(const std::string& body, httplib::Response& response);
  void take_commit(FakeRepository& repository, const std::string& body, httplib::Response& response);
  void answer_listing(const std::string& path, httplib::Response& response);
  void answer_file(const httplib::Request& request, httplib::Response& response, bool is_store, const Fault& fault);

  std::mutex mutex_;
  std::function<std::optional<Fault>(const Seen&)> fault_;
  std::vector<Seen> seen_;
  std::map<std::string, std::string> objects_;               // of the store, by their digests
  std::map<std::string, std::map<int, std::string>> parts_;  // of files that are sent in parts
  int commits_ = 0;
  Side hub_, store_;
};

// Both return lower-case hexadecimal digits.
[[nodiscard]] std::string sha256_of(const std::string& bytes);
[[nodiscard]] std::string git_blob_of(const std::string& bytes);

}  // namespace spillway::testing
