#include "cli/cmd_train.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"
#include "io/file.h"
#include "plan/print.h"
#include "report/metrics.h"
#include "report/progress.h"
#include "report/run_report.h"
#include "runtime/measure.h"
#include "runtime/memory.h"
#include "train/measure_job.h"
#include "train/tiers.h"
#include "train/trainer.h"
#include "train/training_data.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using train::EvaluationRecord;
using train::StepRecord;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One run of a planned job, from loading to the report.
class TrainingRun {
 public:
  TrainingRun(const train::Job& job, const train::PlannedJob& planned, const train::TrainingData& data,
              const Machine& machine)
      : job_(job),
        planned_(planned),
        output_(job.config.output_dir),
        initial_(job),
        pool_(machine.threads),
        tiers_(job, planned),
        session_(job, planned, pool_, tiers_.options()),
        trainer_(job, session_, data, listeners()),
        progress_({.steps_per_line = std::max<int64_t>(1, static_cast<int64_t>(job.config.logging_steps))}) {
    const Budget& budget = planned.context.budget;
    tier_ = {"device", planned.plan.peaks[0].bytes, budget.device.value_or(0)};
  }

  int run() {
    load();
    create_folders(output_);
    clear_leftovers(output_);
    write_file(output_ / "plan.json",
               plan_json(planned_.training.graph, planned_.plan, planned_.context).dump(2) + "\n");
    if (job_.config.metrics) metrics_ = std::make_unique<MetricsWriter>(output_ / "metrics.jsonl", trainer_.step());
    const train::TrainingOutcome outcome = trainer_.run();
    if (metrics_) metrics_->sync();
    const nlohmann::ordered_json report = run_report(planned_, session_, outcome);
    write_file(output_ / "report.json", report.dump(2) + "\n");
    say_goodbye(outcome, report);
    return outcome.interrupted ? kInterrupted : kDone;
  }

 private:
  void load() {
    initial_.load(job_, planned_.training, session_.store());
    fs::path checkpoint = job_.config.resume_from_checkpoint;
    if (checkpoint.empty() && job_.config.auto_resume_from_checkpoints) {
      checkpoint = train::last_checkpoint(output_).value_or(fs::path());
    }
    if (checkpoint.empty()) return;
    trainer_.resume(checkpoint);
    log_info("going on from {} (step {} of {})", checkpoint.string(), trainer_.step(), trainer_.length().total_steps);
  }

  train::TrainingListeners listeners() {
    return {.step = [this](const StepRecord& record) { on_step(record); },
            .evaluation = [this](const EvaluationRecord& record) { on_evaluation(record); },
            .before_checkpoint =
                [this] {
                  if (metrics_) metrics_->sync();
                }};
  }

  void on_step(const StepRecord& r) {
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
                      .tiers = {&tier_, 1}},
                     now_seconds());
  }

  void on_evaluation(const EvaluationRecord& r) {
    if (metrics_) metrics_->write({{"step", r.step}, {"epoch", r.epoch}, {"eval_loss", r.loss}});
    log_info("step {}: eval_loss {:.4f}", r.step, r.loss);
  }

  void say_goodbye(const train::TrainingOutcome& outcome, const nlohmann::ordered_json& report) const {
    log_info("device {} planned, {} measured; {} outside the arena; {:.0f} tokens/s",
             format_bytes(planned_.plan.peaks[0].bytes),
             format_bytes(session_.executor().measured_peak_bytes(Tier::kDevice)),
             format_bytes(report["process"]["outside_arenas_bytes"].get<int64_t>()),
             report["tokens_per_second"].get<double>());
    if (outcome.interrupted) {
      log_info("interrupted after step {}; go on with auto_resume_from_checkpoints: true", trainer_.step());
    } else {
      log_info("{} in {}", job_.graph.decoder.lora ? "the adapter is" : "the model is", output_.string());
    }
  }

  const train::Job& job_;
  const train::PlannedJob& planned_;
  fs::path output_;
  train::InitialState initial_;
  ThreadPool pool_;
  train::JobTiers tiers_;
  train::TrainingSession session_;
  train::Trainer trainer_;
  Progress progress_;
  TierMemory tier_;
  std::unique_ptr<MetricsWriter> metrics_;
};

}  // namespace

int cmd_train(std::span<const std::string> args) {
  const auto arguments = parse_config_arguments("train", "Trains what the config says.", {}, args);
  if (!arguments) return kDone;
  const train::LoadedConfig loaded = load_config(*arguments, train::ConfigUse::kTrain);
  Machine machine = this_machine(train::disk_paths(loaded.config).front());
  const train::Job job = train::make_job(loaded.config, machine);
  train::measure_job(job, machine);
  const train::PlannedJob planned = train::plan_job(job, machine, 0);
  if (!planned.plan.fits) throw InputError(shortage_message(planned.plan, planned.context));
  fmt::print(stderr, "{}\n", print_plan(planned.training.graph, planned.plan, planned.context));
  const train::TrainingData data = train::load_training_data(loaded.config, job.model);
  release_free_memory();
  return TrainingRun(job, planned, data, machine).run();
}

}  // namespace spillway
