#include "runtime/cpu_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace spillway {
namespace {

// The length of a probe: longer than a turn of the scheduler, which is about three milliseconds.
constexpr double kProbeSeconds = 4e-3;
constexpr int kMinSamples = 5;

CpuTime probe_real_cpus(ThreadPool& pool) { return probe_cpus(pool); }

std::atomic<CpuProbe> probe_of_samples{probe_real_cpus};
BusyNotes* notes = nullptr;  // of the command that runs

}  // namespace

CpuTime probe_cpus(ThreadPool& pool, const CpuClocks& clocks) {
  const double begin = clocks.wall();
  std::atomic<double> had{0}, wanted{0};
  pool.parallel_for(pool.threads(), 1, [&](int64_t, int64_t, int) {
    const double cpu_begin = clocks.cpu();
    double now = clocks.wall();
    while (now < begin + kProbeSeconds) now = clocks.wall();
    had += clocks.cpu() - cpu_begin;
    wanted += now - begin;
  });
  return {had, wanted};
}

void CpuShare::sample() {
  const CpuTime time = probe_of_samples.load()(pool_);
  sum_.had_seconds += time.had_seconds;
  sum_.wanted_seconds += time.wanted_seconds;
  last_seconds_ = now_seconds();
  ++samples_;
}

void CpuShare::sample_at_intervals(double max_share) {
  if (now_seconds() - last_seconds_ >= (1 / max_share - 1) * kProbeSeconds) sample();
}

void CpuShare::complete() {
  while (samples_ < kMinSamples) sample();
}

double CpuShare::value() const {
  if (sum_.wanted_seconds <= 0) return 1;
  const double allowed = std::min(1.0, cpu_quota() / pool_.threads());
  return std::min(1.0, sum_.had_seconds / (allowed * sum_.wanted_seconds));
}

bool is_worth_measuring_again(double then, double now) {
  constexpr double kClearly = 0.15;  // more than one probe differs from the next
  return then < kMinCpuShare && now >= std::min(kMinCpuShare, then + kClearly);
}

void say_busy(std::string_view what, double cpu_share) {
  const std::string consequence = fmt::format("; {} will be measured again when it is not", what);
  std::string line = fmt::format("the machine is busy: threads have {:.0f} % of the CPU time that they want{}",
                                 100 * cpu_share, consequence);
  if (notes == nullptr) return log_warning("{}", line);
  // Says it once if a measurement has several parts.
  const auto& said = notes->lines_;
  const bool is_said =
      std::any_of(said.begin(), said.end(), [&](const std::string& one) { return one.ends_with(consequence); });
  if (!is_said) notes->lines_.push_back(std::move(line));
}

BusyNotes::BusyNotes() {
  SPILLWAY_CHECK(notes == nullptr, "two BusyNotes");
  notes = this;
}

BusyNotes::~BusyNotes() { notes = nullptr; }

void BusyNotes::say() {
  for (const std::string& line : std::exchange(lines_, {})) log_warning("{}", line);
}

void set_cpu_probe(CpuProbe probe) { probe_of_samples = probe != nullptr ? probe : probe_real_cpus; }

}  // namespace spillway
