#include "cli/run_files.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/index.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/trackers.h"
#include "io/file.h"
#include "job/tiers.h"
#include "runtime/process_memory.h"

namespace spillway {
namespace {

constexpr int64_t kMaxReportBytes = 256 * kMiB;

}  // namespace

bool is_reported(const std::filesystem::path& output, const train::RunIdentity& identity,
                 const train::Trainer& trainer) {
  const std::filesystem::path file = output / "report.json";
  if (trainer.step() < trainer.length().total_steps || !std::filesystem::exists(file)) return false;
  if (train::read_run(output) != identity) return false;
  try {
    const nlohmann::json report = parse_json(read_file(file, kMaxReportBytes), file.string());
    return report.value("state", "") == "done" && report.value("step_now", int64_t{0}) == trainer.step();
  } catch (const std::exception&) {
    return false;  // it is written anew
  }
}

template <typename File, typename Write>
void RunFiles::write_or_close(std::unique_ptr<File>& file, const Write& write) {
  if (!file) return;
  try {
    write(*file);
  } catch (const std::runtime_error& error) {
    log_warning("{}; the run goes on and writes nothing more there", error.what());
    if (failure_.empty()) failure_ = error.what();
    file.reset();
  }
}

void RunFiles::open(const std::filesystem::path& output, const train::RunIdentity& identity,
                    const train::Trainer& trainer, const config::LoadedConfig& config) {
  const int64_t step = trainer.step();
  if (job_.config.online && job_.config.online->log_completions)
    completions_ = std::make_unique<StepLines>(output / "completions.jsonl", step);
  if (job_.config.video.log_samples) samples_ = std::make_unique<StepLines>(output / "samples.jsonl", step);
  if (job_.config.output.metrics)
    metrics_ = std::make_unique<MetricsWriter>(output / "metrics.jsonl", step, trainer.is_evaluated());
  trackers_ = open_trackers(job_.config.output, config::trackers_of(config), identity, {step, trainer.is_evaluated()},
                            tracked_settings(config, job_, trainer.length()),
                            [](const char* name) -> const char* { return std::getenv(name); });
  if (prints_metrics_)
    print(json_text(nlohmann::ordered_json{
              {"output_dir", output.string()}, {"step", step}, {"total_steps", trainer.length().total_steps}}) +
          "\n");
}

void RunFiles::write_metrics(std::vector<MetricField> line) {
  add_memory(line);
  write_or_close(metrics_, [&](MetricsWriter& metrics) { metrics.write(line); });
  if (!prints_metrics_) return;
  fmt::memory_buffer text;
  append_metrics_line(line, text);
  print({text.data(), text.size()});
}

void RunFiles::print(std::string_view line) {
  const bool is_taken = std::fwrite(line.data(), 1, line.size(), stdout) == line.size() && std::fflush(stdout) == 0;
  if (!is_taken) prints_metrics_ = false;
}

void RunFiles::write(const train::StepRecord& r) {
  const std::pair<std::string_view, double> numbers[] = {
      {"epoch", r.epoch}, {"loss", r.loss}, {"grad_norm", r.grad_norm}, {"learning_rate", r.learning_rate}};
  if (has_metrics()) {
    std::vector<MetricField> line = {{"step", r.step}};
    for (const auto& [key, value] : numbers) line.push_back({std::string(key), value});
    line.push_back({"num_tokens", r.num_tokens});
    line.push_back({"tokens_per_second", r.tokens_per_second});
    line.push_back({"step_seconds", r.step_seconds});
    for (const train::Metric& metric : r.metrics) line.push_back({std::string(metric.key), metric.value});
    write_metrics(std::move(line));
  }
  for (std::unique_ptr<Tracker>& one : trackers_) {
    write_or_close(one, [&](Tracker& tracker) {
      tracker.begin_step(r.step);
      const auto add = [&](std::string_view key, double value) { tracker.add(kTrainingPrefix, key, value); };
      for (const auto& [key, value] : numbers) add(key, value);
      add("num_tokens", static_cast<double>(r.num_tokens));
      add("tokens_per_second", r.tokens_per_second);
      add("step_seconds", r.step_seconds);
      for (const train::Metric& metric : r.metrics) add(metric.key, metric.value);
      tracker.end_step();
    });
  }
}

void RunFiles::write(const train::EvaluationRecord& r) {
  const bool is_of_step = r.weights_step == r.step;
  if (has_metrics()) {
    std::vector<MetricField> line = {{"step", r.step}, {"epoch", r.epoch}};
    if (!is_of_step) line.push_back({"weights_step", r.weights_step});
    for (const train::Metric& metric : r.metrics) line.push_back({fmt::format("eval_{}", metric.key), metric.value});
    write_metrics(std::move(line));
  }
  if (!is_of_step) return;  // a curve has one point a step
  for (std::unique_ptr<Tracker>& one : trackers_) {
    write_or_close(one, [&](Tracker& tracker) {
      tracker.begin_step(r.step);
      for (const train::Metric& metric : r.metrics) tracker.add(kEvaluationPrefix, metric.key, metric.value);
      tracker.end_step();
    });
  }
}

// Adds the memory use since the previous line, in GiB, under FastVideo's names.
void RunFiles::add_memory(std::vector<MetricField>& line) {
  const auto gib = [](int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kGiB); };
  const std::array<int64_t, kTiers> peaks = session_.take_recent_peak_bytes();
  const auto peak = [&](Tier tier) { return gib(nth(peaks, tier)); };
  line.push_back({"memory/peak_gb", peak(Tier::kDevice)});
  line.push_back({"memory/reserved_gb", gib(train::arena_bytes(planned_, Tier::kDevice))});
  line.push_back({"memory/host_peak_gb", peak(Tier::kHost)});
  line.push_back({"memory/disk_peak_gb", peak(Tier::kDisk)});
  line.push_back({"memory/rss_gb", gib(current_rss_bytes())});
}

void RunFiles::write_completions(std::string_view lines) {
  write_or_close(completions_, [&](StepLines& file) { file.write(lines); });
}

void RunFiles::write(const train::SampleSeen& sample) {
  write_or_close(samples_, [&](StepLines& file) { file.write(train::sample_line(sample)); });
}

void RunFiles::sync() {
  const auto sync = [](auto& file) { file.sync(); };
  write_or_close(metrics_, sync);
  write_or_close(completions_, sync);
  write_or_close(samples_, sync);
  for (std::unique_ptr<Tracker>& tracker : trackers_) write_or_close(tracker, sync);
}

void RunFiles::finish(RunEnd end) {
  sync();
  for (std::unique_ptr<Tracker>& one : trackers_) {
    write_or_close(one, [&](Tracker& tracker) {
      tracker.finish(end);
      if (const std::string note = tracker.note(); !note.empty()) log_info("{}", note);
    });
  }
  trackers_.clear();
}

}  // namespace spillway
