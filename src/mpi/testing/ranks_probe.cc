// One rank of a job that only exchanges, for tests of src/mpi/:
//
//   mpirun -n N ranks_probe SCENARIO [messages]
//
// With `messages` ranks send messages where they else share memory. Exits as `spillway` does.
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <exception>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/index.h"
#include "dist/open_peers.h"
#include "dist/testing/peers_check.h"

namespace {

using namespace spillway;

void play(Peers& peers, std::string_view scenario) {
  if (scenario == "collectives") {
    check_peers(peers);
    if (peers.rank() == 0) fmt::print("{} ranks agree\n", peers.size());
    return;
  }
  (void)peers.exchange("");
  if (peers.rank() == 1) {
    if (scenario == "killed") std::raise(SIGKILL);
    if (scenario == "silent") std::this_thread::sleep_for(std::chrono::seconds(60));
    if (scenario == "aborts") peers.abort(3);
    if (scenario == "wrong input") throw input_error("here", "expected something else, got this; change it");
    if (scenario == "wrong machine") throw machine_error("here", "expected something else, got this; change it");
    if (scenario == "leaves") return;
  }
  (void)peers.exchange("");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  const bool sends_messages = argc > 2 && std::string_view(argv[2]) == "messages";
  int status = 0;
  try {
    const auto peers = open_peers(read_launch(), {.timeout_seconds = 2, .shares_memory = !sends_messages});
    if (peers == nullptr) return 1;
    play(*peers, argv[1]);
  } catch (const InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    status = 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    status = 3;
  }
  end_ranks(status);
  return status;
}
