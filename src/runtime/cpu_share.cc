#include "runtime/cpu_share.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <span>

#include "base/error.h"
#include "base/log.h"

namespace spillway {
namespace {

// The length of a probe: longer than a turn of the scheduler, which is about three milliseconds.
constexpr double kProbeSeconds = 4e-3;
constexpr int kMinSamples = 5;

CpuTime probe_real_cpus(ThreadPool& pool) { return probe_cpus(pool); }

std::atomic<CpuProbe> probe_of_samples{probe_real_cpus};
thread_local BusyNotes* notes = nullptr;  // of the command that runs, a rank of which may be a thread

// REQUIRES: `provisional` is not empty.
void warn_of_busy(std::span<const std::string> provisional, double cpu_share) {
  const auto last = provisional.last(1);
  const auto others = provisional.first(provisional.size() - 1);
  log_warning(
      "the machine is busy: threads have {:.0f} % of the CPU time that they want; {}{}{} will be measured again "
      "when it is not",
      100 * cpu_share, fmt::join(others, ", "), others.empty() ? "" : " and ", last.front());
}

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
  if (notes == nullptr) return warn_of_busy(std::vector{std::string(what)}, cpu_share);
  notes->cpu_share_ = std::min(notes->cpu_share_, cpu_share);
  std::vector<std::string>& all = notes->provisional_;
  if (std::find(all.begin(), all.end(), what) == all.end()) all.emplace_back(what);
}

void say_was_busy(double cpu_share) {
  if (notes != nullptr && notes->is_said_) return;
  log_warning(
      "the machine was busy: threads had {:.0f} % of the CPU time that they wanted; what the steps took is not kept "
      "for later plans",
      100 * cpu_share);
}

BusyNotes::BusyNotes() {
  SPILLWAY_CHECK(notes == nullptr, "two BusyNotes");
  notes = this;
}

BusyNotes::~BusyNotes() { notes = nullptr; }

void BusyNotes::say() {
  if (is_said_ || provisional_.empty()) return;
  is_said_ = true;
  warn_of_busy(provisional_, cpu_share_);
}

void set_cpu_probe(CpuProbe probe) { probe_of_samples = probe != nullptr ? probe : probe_real_cpus; }

}  // namespace spillway
