// `spillway watch` as a browser sees it, beside a run and after its end.
#include <doctest/doctest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/patience.h"
#include "tests/support/process.h"
#include "tests/support/tiny_job.h"

using namespace spillway;
using namespace spillway::testing;
using namespace std::chrono_literals;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// A socket that listens to a port of this machine, and so uses it.
class UsedPort {
 public:
  UsedPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(fd_, generic, size) == 0);
    REQUIRE(::listen(fd_, 1) == 0);
    REQUIRE(::getsockname(fd_, generic, &size) == 0);
    number_ = ntohs(address.sin_port);
  }
  ~UsedPort() { ::close(fd_); }
  UsedPort(UsedPort&&) = delete;
  [[nodiscard]] int number() const { return number_; }

 private:
  int fd_, number_ = 0;
};

int free_port() { return UsedPort().number(); }

// `spillway watch FOLDER` on a port of its own, once it listens.
class Watch {
 public:
  explicit Watch(const fs::path& folder)
      : port_(free_port()),
        process_(std::vector<std::string>{"watch", folder.string(), "--port", std::to_string(port_)}) {
    (void)comes_true([&] { return client().Get("/"); });
  }
  [[nodiscard]] httplib::Client client() const {
    httplib::Client client("127.0.0.1", port_);
    client.set_connection_timeout(60s);
    client.set_read_timeout(60s);
    return client;
  }
  [[nodiscard]] httplib::Result get(const std::string& path, const std::string& tag = "") const {
    httplib::Client one = client();
    return one.Get(path, tag.empty() ? httplib::Headers{} : httplib::Headers{{"If-None-Match", tag}});
  }
  [[nodiscard]] Process& process() { return process_; }

 private:
  int port_;
  Process process_;
};

// Returns the report in a page, as a browser would read it; null if the page is not the report.
json report_of(const std::string& html) {
  const std::string start = "<script type=\"application/json\" id=\"report\">";
  const size_t at = html.find(start);
  if (at == std::string::npos) return nullptr;
  const size_t begin = at + start.size();
  return json::parse(html.substr(begin, html.find("</script>", begin) - begin));
}

}  // namespace

TEST_CASE("a run is watched from its first step to its end, and afterwards") {
  const TinyJob job;
  constexpr int kSteps = 100'000;  // more than any machine takes before it is interrupted
  Process run(job.train("run", {"--max_steps", std::to_string(kSteps), "--save_steps", "100000"}));
  REQUIRE(comes_true([&] { return fs::exists(job.output("run") / "report.html"); }));
  Watch watch(job.output("run"));

  std::vector<int64_t> seen;
  for (int i = 0; i < 3000 && (seen.size() < 3 || seen.back() == 0); ++i) {
    const httplib::Result page = watch.get("/");
    REQUIRE(page);
    REQUIRE(page->status == 200);
    CHECK(page->get_header_value("Spillway-Run") == "held");
    const json report = report_of(page->body);
    REQUIRE(report.is_object());  // whenever it is asked for, the page is whole
    if (report["state"] != "running") break;
    CHECK(report["total_steps"] == kSteps);
    const int64_t step = report["step_now"];
    if (seen.empty() || step != seen.back()) seen.push_back(step);
    std::this_thread::sleep_for(50ms);
  }
  CHECK(std::is_sorted(seen.begin(), seen.end()));
  CHECK(seen.size() >= 2);
  CHECK_FALSE(fs::exists(job.output("run") / "report.json"));
  CHECK(watch.get("/report.json")->status == 404);

  run.signal(SIGINT);
  CHECK(run.wait().status == 130);
  const httplib::Result last = watch.get("/report.html");
  REQUIRE(last);
  const json report = report_of(last->body);
  CHECK(report["state"] == "interrupted");
  CHECK(report["step_now"] == job.losses("run").size());
  CHECK(report["config"]["text"].get<std::string>().find("lora_alpha: 8") != std::string::npos);
  CHECK(report["config"]["overrides"][0] == json{"max_steps", std::to_string(kSteps)});
  for (const char* curve : {"learning_rate", "grad_norm", "step_tokens_per_second"}) CHECK(report[curve].size() > 1);
  CHECK(json::parse(watch.get("/report.json")->body)["state"] == "interrupted");

  // A client that has the page already gets that answer without the page.
  const httplib::Result again = watch.get("/", last->get_header_value("ETag"));
  CHECK(again->status == 304);
  CHECK(again->body.empty());
  CHECK(watch.get("/metrics.jsonl")->status == 404);
  CHECK(watch.get("/../run.yml")->status == 404);

  watch.process().signal(SIGINT);
  const Finished finished = watch.process().wait();
  CHECK(finished.status == 130);
  CHECK(finished.out.empty());
  CHECK(finished.err.find("http://127.0.0.1:") != std::string::npos);
}

TEST_CASE("the page of a run that failed says so") {
  const TinyJob job;
  CHECK(run_spillway(job.train("run", {"--lora_alpha", "1e38"})).status == 2);
  const json report = report_of(read_file(job.output("run") / "report.html", 1 << 24));
  CHECK(report["state"] == "failed");
  CHECK(report["ended_early"].get<std::string>().starts_with("[step 1] expected a loss and gradients that are finite"));
  CHECK_FALSE(fs::exists(job.output("run") / "report.json"));
}

TEST_CASE("before a run has written its page, the browser is told to ask again") {
  const TemporaryFolder folder;
  write_file(folder.path() / "spillway_run.json", "{}");
  const Watch watch(folder.path());
  const httplib::Result page = watch.get("/");
  CHECK(page->status == 200);
  CHECK(page->body.find("http-equiv=\"refresh\"") != std::string::npos);
}

TEST_CASE("who asks by a name of another site is refused, whatever address that name leads to") {
  const TemporaryFolder folder;
  write_file(folder.path() / "spillway_run.json", "{}");
  const Watch watch(folder.path());
  const auto status = [&](const std::string& path, const std::string& host) {
    httplib::Client client = watch.client();
    const httplib::Result answer = client.Get(path, httplib::Headers{{"Host", host}});
    REQUIRE(answer);
    CHECK((answer->status == 403) == (answer->body.find("[Host] expected localhost") == 0));
    return answer->status;
  };
  for (const char* host : {"localhost", "localhost:8090", "127.0.0.1:1", "[::1]:8090"}) CHECK(status("/", host) == 200);
  for (const char* host : {"evil.example", "evil.example:8090", "192.168.1.5"}) {
    CHECK(status("/", host) == 403);
    CHECK(status("/report.json", host) == 403);
    CHECK(status("/none", host) == 403);
  }
}

TEST_CASE("a folder that is no run's, and a port that is used, are errors that say what to do") {
  const TemporaryFolder folder;
  const std::string path = folder.path().string();
  Finished finished = run_spillway({"watch", path});
  CHECK(finished.status == 2);
  CHECK(finished.err == "[OUTPUT_DIR] expected the output folder of a run, got '" + path +
                            "' without report.html and spillway_run.json; name the output_dir of a config that was "
                            "trained\n");
  finished = run_spillway({"watch", path + "/none"});
  CHECK(finished.status == 2);
  CHECK(finished.err.find("which is no folder") != std::string::npos);

  write_file(folder.path() / "spillway_run.json", "{}");
  const UsedPort used;
  finished = run_spillway({"watch", path, "--port", std::to_string(used.number())});
  CHECK(finished.status == 2);
  CHECK(finished.err.starts_with("[--port] expected a port of '127.0.0.1' that can be listened to, got "));
  CHECK(run_spillway({"watch"}).status == 2);
}
