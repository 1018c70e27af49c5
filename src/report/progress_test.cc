#include "report/progress.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <span>
#include <string>
#include <thread>

#include "base/bytes.h"
#include "base/clock.h"

using namespace spillway;

namespace {

const std::array<TierMemory, 2> kTwoTiers = {TierMemory{"device", 380 * kMiB, 400 * kMiB},
                                             TierMemory{"disk", kGiB, 20 * kGiB}};

ProgressState halfway() {
  ProgressState state;
  state.step = 45;
  state.total_steps = 100;
  state.loss = 1.23456;
  state.tokens_per_second = 1234.4;
  state.tiers = kTwoTiers;
  state.seconds_left = 83;
  return state;
}

std::string bar(const ProgressState& state, int columns) {
  std::array<char, 400> buffer;
  return std::string(format_bar(state, columns, buffer));
}

// Returns the text on a terminal while `work` runs with a bar.
template <typename Work>
std::string shown_on_terminal(const Work& work) {
  const int controller = posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(controller >= 0);
  REQUIRE(grantpt(controller) == 0);
  REQUIRE(unlockpt(controller) == 0);
  const int terminal = open(ptsname(controller), O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  {
    Progress progress({.file = terminal});
    work(progress);
  }
  close(terminal);
  // The kernel hands on in pieces what a terminal shows, and an error at its end.
  std::string text;
  pollfd shown{.fd = controller, .events = POLLIN, .revents = 0};
  while (poll(&shown, 1, 5000) == 1) {
    std::array<char, 4096> buffer;
    const ssize_t size = read(controller, buffer.data(), buffer.size());
    if (size <= 0) break;
    text.append(buffer.data(), static_cast<size_t>(size));
  }
  close(controller);
  return text;
}

}  // namespace

TEST_CASE("the progress names the rank that others wait for, before the memory if there is not room for both") {
  ProgressState state = halfway();
  state.slowest = "rank 3 on b";
  state.waited_share = 0.124;
  std::array<char, 400> buffer;
  CHECK(format_progress_line(state, buffer) ==
        "step 45/100  loss 1.2346  1234 tokens/s  12 % waiting for rank 3 on b  device 380.0/400.0 MiB  disk "
        "1.00/20.00 GiB  1:23 left");
  CHECK(bar(state, 100).find("12 % waiting for rank 3 on b") != std::string::npos);
  CHECK(bar(state, 100).find("MiB") == std::string::npos);
}

TEST_CASE("the bar shows share, step, loss, time left, rate and memory") {
  const std::string text = bar(halfway(), 200);
  CHECK(text ==
        " 45% [##################                      ]  step 45/100  loss 1.2346  1:23 left  1234 tokens/s  "
        "device 380.0/400.0 MiB  disk 1.00/20.00 GiB");
}

TEST_CASE("a narrow terminal gets what matters most, and never a second line") {
  for (int columns = 0; columns < 160; ++columns) CHECK(bar(halfway(), columns).size() <= static_cast<size_t>(columns));
  CHECK(bar(halfway(), 40) == " 45%   step 45/100  loss 1.2346");
  CHECK(bar(halfway(), 60).find("1:23 left") != std::string::npos);
}

TEST_CASE("a bar without steps or past its end is still a bar") {
  ProgressState state;
  CHECK(bar(state, 80).starts_with("  0% ["));
  state.step = 12;
  state.total_steps = 10;
  state.loss = 1e300;
  CHECK(bar(state, 80).starts_with("100% "));
}

TEST_CASE("a pipe gets a line every so many steps and one for the last") {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  {
    Progress progress({.file = ends[1], .steps_per_line = 4});
    ProgressState state = halfway();
    state.total_steps = 10;
    for (state.step = 1; state.step <= 10; ++state.step) progress.update(state, 2.0 * static_cast<double>(state.step));
  }
  close(ends[1]);
  std::array<char, 4096> buffer;
  const ssize_t size = read(ends[0], buffer.data(), buffer.size());
  close(ends[0]);
  const std::string text(buffer.data(), static_cast<size_t>(size));
  CHECK(text ==
        "step 4/10  loss 1.2346  1234 tokens/s  device 380.0/400.0 MiB  disk 1.00/20.00 GiB  0:12 left\n"
        "step 8/10  loss 1.2346  1234 tokens/s  device 380.0/400.0 MiB  disk 1.00/20.00 GiB  0:04 left\n"
        "step 10/10  loss 1.2346  1234 tokens/s  device 380.0/400.0 MiB  disk 1.00/20.00 GiB\n");
}

TEST_CASE("a line's loss is the mean of the steps since the last, as transformers logs it") {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  {
    Progress progress({.file = ends[1]});
    progress.set_steps_per_line(2);
    for (int step = 1; step <= 5; ++step)
      progress.update({.step = step, .total_steps = 5, .loss = static_cast<double>(step * step)}, 2.0 * step);
  }
  close(ends[1]);
  std::array<char, 4096> buffer;
  const ssize_t size = read(ends[0], buffer.data(), buffer.size());
  close(ends[0]);
  const std::string text(buffer.data(), static_cast<size_t>(size));
  for (const char* line : {"step 2/5  loss 2.5000", "step 4/5  loss 12.5000", "step 5/5  loss 25.0000"}) {
    CAPTURE(std::string(line));
    CHECK(text.find(line) != std::string::npos);
  }
}

TEST_CASE("loading shows the bytes done, a line every few seconds in a pipe and one at its end") {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  {
    Progress progress({.file = ends[1], .seconds_per_load = 5});
    progress.say("planning");
    LoadState state{.what = "weights", .total_bytes = 4 * kGiB, .tiers = std::span(kTwoTiers).first(1)};
    for (int i = 0; i <= 8; ++i) {
      state.bytes = i * kGiB / 2;
      progress.load(state, 2.0 * i);
    }
  }
  close(ends[1]);
  std::array<char, 4096> buffer;
  const ssize_t size = read(ends[0], buffer.data(), buffer.size());
  close(ends[0]);
  CHECK(std::string(buffer.data(), static_cast<size_t>(size)) ==
        "planning ...\n"
        "weights 1.50/4.00 GiB  device 380.0/400.0 MiB  0:10 left\n"
        "weights 3.00/4.00 GiB  device 380.0/400.0 MiB  0:04 left\n"
        "weights 4.00/4.00 GiB  device 380.0/400.0 MiB\n");
}

TEST_CASE("a tier without a budget shows what it takes alone") {
  const std::array<TierMemory, 1> tiers = {TierMemory{"device", 380 * kMiB, 0}};
  std::array<char, 400> buffer;
  CHECK(format_bar(LoadState{.what = "weights", .bytes = kMiB, .total_bytes = 2 * kMiB, .tiers = tiers}, 70, buffer) ==
        " 50% [############            ]  weights 1.0/2.0 MiB  device 380.0 MiB");
}

TEST_CASE("the bar moves within a step, by what it may take, and never to its end") {
  ProgressState state{.total_steps = 2, .running_seconds = 6, .expected_seconds = 12};
  CHECK(bar(state, 80) == " 25% [##########                              ]  step 0/2, 6 s into the next");
  state.running_seconds = 100;
  CHECK(bar(state, 80).starts_with(" 47% ["));
  state.step = 1;
  state.loss = 2;
  state.tokens_per_second = 10;
  CHECK(bar(state, 120).find("step 1/2, 100 s into the next  loss 2.0000") != std::string::npos);
}

TEST_CASE("a terminal gets one line that is drawn again") {
  const ProgressState state = halfway();
  const std::string text = shown_on_terminal([&](Progress& progress) {
    progress.update(state, 0);
    progress.update(state, 0.05);  // too soon
    progress.update(state, 0.2);
  });
  size_t draws = 0;
  for (size_t at = text.find("\r\033[K"); at != std::string::npos; at = text.find("\r\033[K", at + 1)) ++draws;
  CHECK(draws == 2);
  CHECK(text.ends_with("\r\n"));
}

TEST_CASE("while a long step runs the bar of a terminal moves, and it ends with the step") {
  const std::string text = shown_on_terminal([&](Progress& progress) {
    progress.begin_step({.total_steps = 10}, 100, now_seconds());
    std::this_thread::sleep_for(std::chrono::milliseconds(1800));
    progress.clear();
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
  });
  const size_t first = text.find("step 0/10, 1 s into the next");
  REQUIRE(first != std::string::npos);
  CHECK(text.find("into the next", first + 40) != std::string::npos);
  CHECK(text.ends_with("\r\033[K"));
}

TEST_CASE("a small part of a large budget is shown in its own unit") {
  const std::array<TierMemory, 1> tiers = {TierMemory{"device", 26 * kMiB, 20 * kGiB}};
  std::array<char, 200> buffer;
  CHECK(format_progress_line(LoadState{.what = "weights", .bytes = 3 * kMiB, .total_bytes = 3 * kGiB, .tiers = tiers},
                             buffer) == "weights 3.0 MiB/3.00 GiB  device 26.0 MiB/20.00 GiB");
}
