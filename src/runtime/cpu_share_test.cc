#include "runtime/cpu_share.h"

#include <doctest/doctest.h>

#include "tests/support/captured.h"
#include "tests/support/cpu_share.h"

using namespace spillway;
using spillway::testing::FixedCpuShare;

namespace {

// Clocks that advance only when they are read, for a thread that has a CPU during so many of 20 readings.
double wall_seconds = 0, cpu_seconds = 0;
int cpu_readings = 0;

double read_wall() {
  constexpr double kReading = 1e-4;
  static int reading = 0;
  if (reading++ % 20 < cpu_readings) cpu_seconds += kReading;
  return wall_seconds += kReading;
}

double read_cpu() { return cpu_seconds; }

}  // namespace

TEST_CASE("a probe tells the CPU time that a thread had from the wall time in which it wanted it") {
  ThreadPool pool(1);
  for (const int readings : {20, 17, 10, 0}) {
    cpu_readings = readings;
    const CpuTime time = probe_cpus(pool, {read_wall, read_cpu});
    CHECK(time.wanted_seconds == doctest::Approx(4e-3).epsilon(0.05));
    CHECK(time.had_seconds / time.wanted_seconds == doctest::Approx(readings / 20.0).epsilon(0.06));
  }
}

TEST_CASE("each thread of a pool wants a CPU in a probe, also one that comes too late to have it") {
  ThreadPool pool(3);
  const CpuTime time = probe_cpus(pool);
  CHECK(time.wanted_seconds >= 3 * 4e-3);
  CHECK(time.had_seconds > 0);
  CHECK(time.had_seconds <= 1.01 * time.wanted_seconds);
}

TEST_CASE("a machine is busy where threads have less than 85 % of the CPU time that they want") {
  ThreadPool pool(1);
  CpuShare none(pool);
  CHECK_FALSE(none.is_busy());
  for (const double share : {1.0, 0.86, 0.84, 0.1}) {
    const FixedCpuShare fixed(share);
    CpuShare measured(pool);
    measured.complete();
    CHECK(measured.value() == doctest::Approx(share));
    CHECK(measured.is_busy() == (share < 0.85));
  }
}

TEST_CASE("that the machine is busy is held back until the command is known to go on") {
  for (const bool goes_on : {false, true}) {
    const Captured captured = capture([&] {
      BusyNotes notes;
      say_busy("one thing", 0.5);
      if (goes_on) notes.say();
      return 0;
    });
    const bool is_said =
        captured.err.find("have 50 % of the CPU time that they want; one thing will") != std::string::npos;
    CHECK(is_said == goes_on);
    CHECK(captured.err.empty() == !goes_on);
  }
}

TEST_CASE("a command says once that the machine is busy, whatever it measures, and whatever its run finds out later") {
  const Captured captured = capture([&] {
    BusyNotes notes;
    say_busy("one thing", 0.5);
    say_busy("another", 0.4);
    say_busy("one thing", 0.6);
    say_busy("a third", 0.7);
    notes.say();
    say_busy("a fourth", 0.3);
    notes.say();
    say_was_busy(0.2);
    return 0;
  });
  CHECK(captured.err ==
        "warning: the machine is busy: threads have 40 % of the CPU time that they want; one thing, another and a "
        "third will be measured again when it is not\n");
  const Captured later = capture([&] {
    BusyNotes notes;
    notes.say();
    say_was_busy(0.2);
    return 0;
  });
  CHECK(later.err.starts_with("warning: the machine was busy: threads had 20 % of the CPU time that they wanted; "));
}
