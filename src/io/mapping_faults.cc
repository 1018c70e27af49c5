#include "io/mapping_faults.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

namespace spillway {
namespace {

// The exit status of a MachineError, which cannot be thrown from a signal's handler.
constexpr int kMachineFailed = 3;

// A mapping that is watched. The handler may neither allocate nor wait for a lock.
struct Watched {
  std::atomic<bool> is_taken{false};
  std::atomic<const std::byte*> begin{nullptr};  // null: nothing is watched here; set after the rest
  size_t bytes = 0;
  std::array<char, 1024> message{};
};
std::array<Watched, 64> all_watched;
struct sigaction usual;

void handle(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  for (const Watched& watched : all_watched) {
    const std::byte* begin = watched.begin;
    if (begin == nullptr || std::less<>()(at, begin) || !std::less<>()(at, begin + watched.bytes)) continue;
    [[maybe_unused]] const auto written =
        ::write(STDERR_FILENO, watched.message.data(), std::strlen(watched.message.data()));
    ::_exit(kMachineFailed);
  }
  ::sigaction(SIGBUS, &usual, nullptr);  // the fault comes again, for the handler that was there before
}

bool install() {
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  return ::sigaction(SIGBUS, &action, &usual) == 0;
}

bool is_installed() {
  static const bool kIsInstalled = install();
  return kIsInstalled;
}

void set_message(Watched& watched, std::string_view path) {
  const std::string text = fmt::format(
      "[{}] expected the file as it was when it was opened, got one that is shorter or cannot be read; check it and "
      "its disk, then go on from the last checkpoint\n",
      path.substr(0, 768));
  watched.message.fill('\0');
  text.copy(watched.message.data(), watched.message.size() - 1);
}

}  // namespace

void handle_mapping_faults() { static_cast<void>(is_installed()); }

void watch_mapping(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const auto free = std::find_if(all_watched.begin(), all_watched.end(),
                                 [](Watched& watched) { return !watched.is_taken.exchange(true); });
  if (!is_installed() || free == all_watched.end()) return;
  set_message(*free, path.string());
  free->bytes = bytes.size();
  free->begin = bytes.data();
}

void unwatch_mapping(const std::byte* begin) {
  for (Watched& watched : all_watched) {
    if (begin == nullptr || watched.begin != begin) continue;
    watched.begin = nullptr;
    watched.is_taken = false;
  }
}

}  // namespace spillway
