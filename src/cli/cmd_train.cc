#include "cli/cmd_train.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"
#include "io/file.h"
#include "io/folder_lock.h"
#include "plan/plan_json.h"
#include "plan/print.h"
#include "report/calibration.h"
#include "report/load_progress.h"
#include "report/metrics.h"
#include "report/progress.h"
#include "report/report_html.h"
#include "report/report_json.h"
#include "report/run_record.h"
#include "runtime/machine_cache.h"
#include "runtime/process_memory.h"
#include "train/measure_job.h"
#include "train/nearest.h"
#include "train/tiers.h"
#include "train/trainer.h"
#include "train/training_data.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using train::EvaluationRecord;
using train::StepRecord;

std::vector<TierMemory> memory_of_tiers(const train::PlannedJob& planned) {
  const Budget& budget = planned.context.budget;
  std::vector<TierMemory> tiers;
  for (size_t i = 0; i < kBudgetedTiers; ++i) {
    const auto tier = static_cast<Tier>(i);
    const int64_t peak = planned.plan.peaks[i].bytes;
    if (peak > 0) tiers.push_back({name_of(tier), peak, budget.of(tier).value_or(0)});
  }
  return tiers;
}

// With room for the trace of one step.
ExecutorOptions traced(ExecutorOptions options, const train::PlannedJob& planned) {
  options.traced_micro_steps = planned.context.accumulation;
  return options;
}

// The folder of a run, made and held before the data are read: that nothing can be written there is better known then
// than when a model has been trained. Where the run leaves nothing, it is gone again.
class OutputFolder {
 public:
  explicit OutputFolder(const fs::path& path) : path_(path), is_new_(!fs::exists(path)) {
    create_folders(path);
    lock_.emplace(path);
  }
  ~OutputFolder() {
    std::error_code not_empty;
    if (is_new_) fs::remove(path_, not_empty);
  }
  OutputFolder(OutputFolder&&) = delete;

 private:
  fs::path path_;
  bool is_new_;
  std::optional<FolderLock> lock_;
};

// One run of a planned job, from loading to the report.
class TrainingRun {
 public:
  TrainingRun(const train::Job& job, const train::PlannedJob& planned, const train::TrainingData& data,
              const Machine& machine, Device& device, Progress& progress)
      : job_(job),
        planned_(planned),
        machine_(machine),
        device_(device),
        progress_(progress),
        output_(job.config.output_dir),
        initial_(job),
        pool_(machine.threads),
        tiers_(job, planned, device),
        session_(job, planned, pool_, traced(tiers_.options(), planned)),
        trainer_(job, session_, data, listeners()),
        tier_memory_(memory_of_tiers(planned)),
        record_(planned.plan.program, 0),
        calibration_(planned.training.graph, planned.plan.program, machine) {}

  int run() {
    if (trainer_.length().lines > 0 && train::batch_options(job_.config).packing) say_how_full();
    load();
    clear_leftovers(output_);
    write_file(output_ / "plan.json",
               json_text(plan_json(planned_.training.graph, planned_.plan, planned_.context), 2) + "\n");
    if (job_.config.metrics) metrics_ = std::make_unique<MetricsWriter>(output_ / "metrics.jsonl", trainer_.step());
    record_ = RunRecord(planned_.plan.program, trainer_.length().total_steps - trainer_.step());
    const train::TrainingOutcome outcome = trainer_.run();
    if (metrics_) metrics_->sync();
    write_report(outcome);
    teach();
    say_goodbye(outcome);
    return outcome.interrupted ? kInterrupted : kDone;
  }

 private:
  // Adds what this run found out to what is known by now: other runs may have taught since this one began.
  void teach() const {
    Machine known = cached_machine(device_).value_or(machine_);
    if (calibration_.improve(known)) cache_machine(known, device_);
  }

  void load() {
    LoadProgress store(session_.store(), planned_.training.graph, planned_.plan.program, progress_, tier_memory_);
    initial_.load(job_, planned_.training, store);
    store.finish();
    fs::path checkpoint = job_.config.resume_from_checkpoint;
    if (checkpoint.empty() && job_.config.auto_resume_from_checkpoints) {
      checkpoint = train::last_checkpoint(output_).value_or(fs::path());
    }
    if (checkpoint.empty()) return;
    trainer_.resume(checkpoint);
    log_info("going on from {} (step {} of {})", checkpoint.string(), trainer_.step(), trainer_.length().total_steps);
  }

  void say_how_full() const {
    const train::TrainingLength& epoch = trainer_.length();
    const int64_t room = epoch.lines * job_.config.sequence_len;
    log_info("packed into {} lines of {} tokens, {:.1f} % full", epoch.lines, job_.config.sequence_len,
             100 * static_cast<double>(epoch.tokens) / static_cast<double>(room));
  }

  train::TrainingListeners listeners() {
    return {.before_step =
                [this] {
                  record_.begin_step(session_.executor().lanes());
                  session_.start_trace();
                  calibration_.begin_step(session_.executor().lanes());
                },
            .step = [this](const StepRecord& record) { on_step(record); },
            .evaluation = [this](const EvaluationRecord& record) { on_evaluation(record); },
            .before_checkpoint =
                [this] {
                  if (metrics_) metrics_->sync();
                },
            .packing = packing_progress(progress_)};
  }

  void on_step(const StepRecord& r) {
    session_.stop_trace();
    record_.end_step(r.step, r.loss, r.step_seconds, session_.executor().lanes());
    if (is_full(r)) calibration_.add_step(session_.executor().lanes());
    if (metrics_) {
      metrics_->write({{"step", r.step},
                       {"epoch", r.epoch},
                       {"loss", r.loss},
                       {"grad_norm", r.grad_norm},
                       {"learning_rate", r.learning_rate},
                       {"num_tokens", r.num_tokens},
                       {"tokens_per_second", r.tokens_per_second},
                       {"step_seconds", r.step_seconds}});
    }
    progress_.update({.step = r.step,
                      .total_steps = r.total_steps,
                      .loss = r.loss,
                      .tokens_per_second = r.tokens_per_second,
                      .tiers = tier_memory_},
                     now_seconds());
  }

  // Whether its streams were about as long as planned; shorter ones take less.
  bool is_full(const StepRecord& r) {
    constexpr double kFull = 0.95;
    const int64_t tokens = r.num_tokens - std::exchange(tokens_before_, r.num_tokens);
    const int64_t planned = planned_.context.accumulation * planned_.training.graph.tokens;
    return static_cast<double>(tokens) >= kFull * static_cast<double>(planned);
  }

  void on_evaluation(const EvaluationRecord& r) {
    if (metrics_) metrics_->write({{"step", r.step}, {"epoch", r.epoch}, {"eval_loss", r.loss}});
    record_.add_evaluation(r.step, r.loss);
    log_info("step {}: eval_loss {:.4f}", r.step, r.loss);
  }

  void write_report(const train::TrainingOutcome& outcome) {
    peak_rss_ = peak_rss_bytes();
    const nlohmann::ordered_json report =
        run_report(planned_, machine_, session_.executor(), outcome, record_, peak_rss_);
    write_file(output_ / "report.json", print_report(report));
    write_file(output_ / "report.html", report_html(report));
  }

  void say_goodbye(const train::TrainingOutcome& outcome) const {
    const Executor& executor = session_.executor();
    for (int i = 0; i < kBudgetedTiers; ++i) {
      const auto tier = static_cast<Tier>(i);
      const int64_t planned = planned_.plan.peaks[static_cast<size_t>(i)].bytes;
      if (planned == 0) continue;
      log_info("{} {} planned, {} measured", name_of(tier), format_bytes(planned),
               format_bytes(executor.measured_peak_bytes(tier)));
    }
    log_info("{} outside the arenas; {:.0f} tokens/s; pictures in {}",
             format_bytes(outside_arenas_bytes(planned_.plan.program, machine_, peak_rss_)),
             static_cast<double>(outcome.tokens) / std::max(1e-9, outcome.step_seconds_sum),
             (output_ / "report.html").string());
    if (const int64_t libraries = executor.device().library_bytes(); libraries > 0)
      log_info("{} of device memory in libraries", format_bytes(libraries));
    if (outcome.interrupted) {
      log_info("interrupted after step {}; go on with auto_resume_from_checkpoints: true", trainer_.step());
    } else {
      log_info("{} in {}", job_.graph.decoder.lora ? "the adapter is" : "the model is", output_.string());
    }
  }

  const train::Job& job_;
  const train::PlannedJob& planned_;
  const Machine& machine_;
  const Device& device_;
  Progress& progress_;
  fs::path output_;
  train::InitialState initial_;
  ThreadPool pool_;
  train::JobTiers tiers_;
  train::TrainingSession session_;
  train::Trainer trainer_;
  std::vector<TierMemory> tier_memory_;
  RunRecord record_;
  Calibration calibration_;
  int64_t tokens_before_ = 0, peak_rss_ = 0;
  std::unique_ptr<MetricsWriter> metrics_;
};

// Reads the data. The plans that the report compares are made meanwhile, on a thread of their own (afterwards where the
// system refuses it), and the first step waits for both. So does an error in the data, but for files that are not
// there.
train::TrainingData read_data(const train::Config& config, const train::Job& job, const Machine& machine,
                              train::PlannedJob& planned, Progress& progress) {
  train::check_data_files(config);
  std::future<void> compared = std::async(std::launch::async | std::launch::deferred,
                                          [&] { train::add_frontier(job, machine, train::kFrontierPoints, planned); });
  progress.say("reading the data");
  train::TrainingData data = train::load_training_data(
      config, job.model, [&](int64_t records) { progress.count("rows read", records, now_seconds()); });
  if (compared.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    progress.say("comparing plans for the report");
  compared.get();
  return data;
}

constexpr std::string_view kExamples[] = {"spillway train config.yml",
                                          "spillway train config.yml --memory.device 6GiB --output_dir ./second-run",
                                          "spillway train config.yml --auto_resume_from_checkpoints true"};
constexpr ConfigCommand kCommand = {"train", "Trains what the config says.", {}, kExamples};

}  // namespace

int cmd_train(std::span<const std::string> args) {
  const auto arguments = parse_config_arguments(kCommand, args);
  if (!arguments) return kDone;
  const train::LoadedConfig loaded = load_config(*arguments, train::ConfigUse::kTrain);
  Progress progress({.steps_per_line = std::max<int64_t>(1, static_cast<int64_t>(loaded.config.logging_steps))});
  progress.hint("planning");
  const std::shared_ptr<Device> device = open_device(loaded.config.device);
  Machine machine = train::machine_of(loaded.config, *device);
  const train::Job job = train::make_job(loaded.config, machine);
  for (const std::string& note : job.notes) log_line(note);
  train::TrainingGraph training = train::build_training_graph(job.model, job.graph);
  train::measure_job(job, training, machine, *device);
  train::PlannedJob planned = train::plan_job(job, machine, std::move(training));
  if (!planned.plan.fits) {
    measure_new_disks(machine, train::disk_paths(loaded.config), *device);
    progress.hint("looking for what would fit");
    train::add_nearest_changes(loaded, job, machine, planned);
  }
  progress.clear();
  if (!planned.plan.fits) throw InputError(shortage_message(planned.plan, planned.context));
  log_line(print_plan(planned.training.graph, planned.plan, planned.context));
  const OutputFolder output(loaded.config.output_dir);
  // A log that nobody reads any more (`| tee` that Ctrl-C ended first) is no reason to lose what was learnt.
  std::signal(SIGPIPE, SIG_IGN);
  const train::TrainingData data = read_data(loaded.config, job, machine, planned, progress);
  release_free_memory();
  planned.context.process_bytes = train::predicted_rss_bytes(job, planned, machine);
  if (data.stream) planned.context.process_bytes += most_bytes(data.stream->options());
  return TrainingRun(job, planned, data, machine, *device, progress).run();
}

}  // namespace spillway
