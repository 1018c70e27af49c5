#include "cli/training_run.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/index.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"
#include "cli/rank_reports.h"
#include "cli/report_samples.h"
#include "cli/run_files.h"
#include "cli/run_messages.h"
#include "cli/run_pushes.h"
#include "cli/step_bar.h"
#include "infer/clips/pixels.h"
#include "io/file.h"
#include "job/initial_state.h"
#include "job/tiers.h"
#include "plan/plan_json.h"
#include "report/live_report.h"
#include "report/load_progress.h"
#include "report/report_html.h"
#include "report/report_json.h"
#include "report/round_json.h"
#include "report/run_record.h"
#include "runtime/calibration.h"
#include "runtime/cpu_share.h"
#include "runtime/machine_cache.h"
#include "runtime/process_memory.h"
#include "saved/base_identity.h"
#include "train/online/completion_lines.h"
#include "train/online/generated_rounds.h"
#include "train/online/job_rewards.h"
#include "train/reference_scores.h"
#include "train/trainer.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;
using train::EvaluationRecord;
using train::StepRecord;

// The largest share of the time that probes between the steps may take.
constexpr double kMaxShareOfProbes = 0.002;

// With room for the trace of one update.
ExecutorOptions run_options(ExecutorOptions options, const RunInputs& in) {
  options.traced_micro_steps = in.planned.context.runs();
  options.peers = in.ranks.peers();
  options.device_peers = in.device_peers;
  return options;
}

class TrainingRun {
 public:
  TrainingRun(const RunInputs& in, train::RunStart start, std::unique_ptr<rewards::RewardFunctions> functions,
              train::JobRewards& reward_models)
      : job_(in.job),
        planned_(in.planned),
        data_(in.data),
        config_(in.config),
        machine_(in.machine),
        device_(in.device),
        progress_(in.progress),
        ranks_(in.ranks),
        output_(job_.config.output.output_dir),
        identity_(start.run),
        functions_(std::move(functions)),
        pixels_(job_.model->video() ? infer::read_pixels(job_.config.model.base_model) : std::nullopt),
        initial_(job_),
        pool_(machine_.threads),
        tiers_(job_, planned_, in.device),
        session_(job_, planned_, pool_, run_options(tiers_.options(), in)),
        files_(job_, planned_, session_, in.prints_metrics && ranks_.is_first()),
        trainer_(
            job_, session_, data_, std::move(start), train::identify_base(initial_.base()), listeners(),
            [this, &reward_models](train::TrainingSession& session, int64_t total_steps) {
              reward_models.attach(session, ranks_);
              return std::make_unique<train::GeneratedRounds>(
                  job_, session, functions_.get(), reward_models, ranks_, total_steps,
                  [this](int64_t done, int64_t of) { on_generating(done, of); });
            },
            &ranks_),
        bar_(progress_, memory_of_tiers(planned_), ranks_),
        record_(planned_.plan.program, 0),
        calibration_(std::in_place, planned_.training.graph, planned_.plan.program, machine_),
        page_(output_ / "report.html", [this](std::string_view state, const train::TrainingOutcome& outcome) {
          return report_of(state, outcome);
        }) {
    if (device_.shares_host_memory()) cpu_share_.emplace(pool_);
  }

  int run() {
    if (trainer_.length().lines > 0 && job_.config.data.batches.packing)
      say_how_full(trainer_.length(), job_.config.batches.sequence_len);
    progress_.set_steps_per_line(job_.config.output.logging_steps.of(trainer_.length().total_steps));
    trainer_.check_same_on_all_ranks(SPILLWAY_VERSION, initial_.files());
    pushes_.open();
    ranks_.agree([&] { load(); });
    // From here on there are results to lose: signals are handled between steps, and all files are completed.
    const FinishFirst finish;
    record_ = RunRecord(planned_.plan.program, trainer_.length().total_steps - trainer_.step());
    bool keeps_report = false;
    ranks_.first([&] {
      keeps_report = is_reported(output_, identity_, trainer_);
      begin_files();
      if (!keeps_report) page_.show(record_.so_far());
    });
    const train::TrainingOutcome outcome = trained();
    peak_rss_ = peak_rss_bytes();
    record_.set_measured_peaks(session_.measured_peak_bytes());
    if (ranks_.are_several()) rank_reports_.take(ranks_, planned_, record_, [&] { return last_report(outcome); });
    const std::string failure = ranks_.of_first([&] {
      files_.finish(outcome.interrupted ? RunEnd::kInterrupted : RunEnd::kDone);
      if (!keeps_report) write_report(outcome);
      return files_.failure();
    });
    update_machine_cache();
    if (outcome.steps > 0) say_what_it_took({planned_, machine_, session_, record_, peak_rss_, output_}, outcome);
    say_goodbye(trainer_, outcome, result_name(), output_);
    if (ranks_.interrupted()) return kInterrupted;
    const bool is_pushed = pushes_.push_result(output_);
    if (ranks_.interrupted()) return kInterrupted;
    if (!failure.empty()) log_line(fmt::format("{}; {} is whole, that file is not", failure, result_name()));
    return is_pushed && failure.empty() ? kDone : kMachineFailed;
  }

 private:
  void begin_files() {
    clear_leftovers(output_);
    write_run(output_, identity_);
    write_file(output_ / "plan.json",
               json_text(plan_json(planned_.training.graph, planned_.plan, planned_.context), 2) + "\n");
    files_.open(output_, identity_, trainer_, config_);
  }

  train::TrainingOutcome trained() {
    try {
      return trainer_.run();
    } catch (const std::runtime_error& error) {
      if (ranks_.is_first()) {
        files_.finish(RunEnd::kFailed);
        page_.show_failure(record_.so_far(), error.what());
      }
      throw;
    }
  }

  // Merges this run's measurements into the current cache, which other runs may have changed since this one began.
  void update_machine_cache() {
    if (!ranks_.is_first()) return;
    if (cpu_share_) {
      cpu_share_->complete();
      if (cpu_share_->is_busy()) return say_was_busy(cpu_share_->value());
    }
    Machine known = cached_machine(device_).value_or(machine_);
    if (calibration_->improve(known)) cache_machine(known, device_);
  }

  void load() {
    LoadProgress store(session_.store(), planned_.training.graph, planned_.plan.program, progress_, bar_.tiers());
    initial_.load(job_, planned_.training, store);
    store.finish();
    if (job_.graph.reference.is_precomputed) score_rows();
    trainer_.load_checkpoint();
  }

  // This must happen while the weights are those of the reference.
  void score_rows() {
    const auto progress = [&](int64_t rows, int64_t of) {
      progress_.count(fmt::format("of {} rows scored by the reference", of), rows, now_seconds());
    };
    const train::ReferenceScoresFile file =
        train::load_reference_scores(job_, planned_, initial_.reference(), session_, data_, ranks_, progress);
    progress_.clear();
    const std::string speed =
        file.was_there
            ? ""
            : fmt::format(", {:.0f} tokens/s", static_cast<double>(file.tokens) / std::max(1e-9, file.seconds));
    log_info("{} the scores of the reference in {}{}", file.was_there ? "read" : "wrote", file.path.string(), speed);
  }

  train::TrainingListeners listeners() {
    const auto push = [this](const fs::path& folder, int64_t step) { pushes_.push_checkpoint(folder, step); };
    if (!ranks_.is_first()) {
      train::TrainingListeners others{.before_step = [this] { begin_record(); },
                                      .step = [this](const StepRecord& record) { end_record(record); },
                                      .checkpoint = push};
      if (pixels_) others.clips = [](const train::ClipsRecord&) {};  // all ranks sample, as that may gather weights
      return others;
    }
    return {.before_draw =
                [this] { record_.end_program(planned_.training.graph, planned_.plan.program, session_.executor()); },
            .draw = [this](const train::LayerDraw& draw) { on_draw(draw); },
            .before_step =
                [this] {
                  if (cpu_share_) cpu_share_->sample_at_intervals(kMaxShareOfProbes);
                  begin_record();
                  calibration_->begin_step(session_.executor().lanes());
                  begin_step_in_bar();
                },
            .step = [this](const StepRecord& record) { on_step(record); },
            .evaluation = [this](const EvaluationRecord& record) { on_evaluation(record); },
            .samples = [this](const train::SampleRecord& record) { on_samples(record); },
            .round = [this](const train::RoundRecord& record) { on_round(record); },
            .sample = [this](const train::SampleSeen& sample) { on_sample(sample); },
            .clips = pixels_ ? [this](const train::ClipsRecord& record) { add_clips(record_, *pixels_, record); }
                             : std::function<void(const train::ClipsRecord&)>(),
            .before_checkpoint = [this] { files_.sync(); },
            .checkpoint = push,
            .packing = packing_progress(progress_)};
  }

  // All ranks record the times of a step, and keep those of the same one: they are told the same seconds.
  void begin_record() {
    record_.begin_step(session_.executor().lanes());
    session_.start_trace();
  }
  void end_record(const StepRecord& r) {
    session_.stop_trace();
    record_.end_step(r.step, r.loss, r.step_seconds, session_.executor().lanes());
  }

  // The program of training is another one than before.
  void on_draw(const train::LayerDraw& draw) {
    record_.begin_program(planned_.plan.program);
    record_.add_draw(draw);
    calibration_.emplace(planned_.training.graph, planned_.plan.program, machine_);
  }

  void on_step(const StepRecord& r) {
    end_record(r);
    record_.add_step(r);
    for (const train::Metric& metric : r.metrics)
      record_.metrics().of(metric.key, metric.is_share).training.add(r.step, metric.value);
    if (is_full(r)) calibration_->add_step(session_.executor().lanes());
    files_.write(r);
    bar_.end_step(r);
    if (r.step < r.total_steps) page_.show(record_.so_far());
  }

  [[nodiscard]] nlohmann::ordered_json report_of(std::string_view state, const train::TrainingOutcome& outcome) const {
    return run_report(planned_, machine_, session_.executor(), outcome, record_, peak_rss_bytes(), facts(state));
  }

  [[nodiscard]] RunFacts facts(std::string_view state) const {
    RunFacts facts{.state = state,
                   .started = identity_.started,
                   .step = trainer_.step(),
                   .total_steps = trainer_.length().total_steps,
                   .config = config_.source.text};
    if (cpu_share_) facts.cpu_share = cpu_share_->value();
    for (const config::ConfigOverride& one : config_.source.overrides) facts.overrides.emplace_back(one.key, one.value);
    return facts;
  }

  // Shows what steps took so far, or else what was predicted.
  void begin_step_in_bar() {
    const double so_far = record_.so_far().median_step_seconds;
    const double predicted = planned_.context.step_seconds(planned_.plan.simulation);
    bar_.begin_step(trainer_.step(), trainer_.length().total_steps, so_far > 0 ? so_far : predicted);
  }

  // Returns true if the step's streams were about as long as planned; shorter ones take less time.
  [[nodiscard]] bool is_full(const StepRecord& r) const {
    constexpr double kFull = 0.95;
    const int64_t planned = planned_.context.micro_batches_of_all() * planned_.training.graph.tokens();
    return static_cast<double>(r.trained_tokens) >= kFull * static_cast<double>(planned);
  }

  void on_evaluation(const EvaluationRecord& r) {
    files_.write(r);
    const std::string text = evaluation_text(r);
    if (r.weights_step != r.step) {
      log_info("the weights that are kept, of step {}: {}", r.weights_step, text);
      return;  // its curves have that step already
    }
    for (const train::Metric& metric : r.metrics) {
      if (metric.key != "loss") record_.metrics().of(metric.key, metric.is_share).evaluation.add(r.step, metric.value);
    }
    if (r.metrics.front().key == "loss") record_.add_evaluation(r.step, r.metrics.front().value);
    log_info("step {}: {}", r.step, text);
  }

  void on_generating(int64_t done, int64_t of) {
    progress_.count(fmt::format("of {} completions generated", of), done, now_seconds());
  }

  void on_round(const train::RoundRecord& r) {
    progress_.clear();
    log_info("round {}: reward {:.3f} (deviation {:.3f}), {:.1f} tokens a completion, {:.0f} tokens/s", r.round->number,
             r.reward, r.reward_std, r.length,
             static_cast<double>(r.answer->generated_tokens) / std::max(1e-9, r.answer->generation_seconds));
    if (files_.has_completions()) files_.write_completions(train::completion_lines(job_, functions_->names(), r));
    GenerationTotals& totals = record_.generation();
    ++totals.rounds;
    totals.tokens += r.answer->generated_tokens;
    totals.seconds += r.answer->generation_seconds;
    totals.reward_seconds += r.answer->reward_seconds;
    totals.bytes_streamed = session_.generation_bytes_streamed();
    add_round(totals, planned_, session_.profiles(), r.program_seconds);
    add_completions(record_, job_, r, trainer_.length().total_steps);
  }

  void on_sample(const train::SampleSeen& sample) {
    record_.loss_by_timestep().add(static_cast<double>(sample.timestep), sample.loss);
    files_.write(sample);
  }

  void on_samples(const train::SampleRecord& r) {
    for (const train::SampleAnswer& answer : r.answers) {
      record_.add_sample({r.step, answer.prompt, answer.text});
      log_info("step {}: {} {}", r.step, quote(answer.prompt), quote(answer.text));
    }
  }

  [[nodiscard]] nlohmann::ordered_json last_report(const train::TrainingOutcome& outcome) const {
    return run_report(planned_, machine_, session_.executor(), outcome, record_, peak_rss_,
                      facts(outcome.interrupted ? "interrupted" : "done"));
  }

  void write_report(const train::TrainingOutcome& outcome) {
    nlohmann::ordered_json report = last_report(outcome);
    if (ranks_.are_several()) rank_reports_.add_to(report, planned_);
    write_file(output_ / "report.json", print_report(report));
    write_file(output_ / "report.html", report_html(report));
  }

  [[nodiscard]] std::string_view result_name() const {
    return job_.graph.model.lora && !job_.graph.model.lora->restarts ? "the adapter" : "the model";
  }

  const train::Job& job_;
  train::PlannedJob& planned_;
  train::TrainingData& data_;
  const config::LoadedConfig& config_;
  const Machine& machine_;
  const Device& device_;
  Progress& progress_;
  train::Ranks& ranks_;
  fs::path output_;
  train::RunIdentity identity_;
  std::unique_ptr<rewards::RewardFunctions> functions_;  // rank 0's, of a job that generates
  // Only for models whose latents are pixels. Models with a VAE are not sampled: their latents cannot be shown.
  std::optional<infer::Pixels> pixels_;
  train::InitialState initial_;
  ThreadPool pool_;
  train::JobTiers tiers_;
  train::TrainingSession session_;
  RunFiles files_;
  train::Trainer trainer_;
  StepBar bar_;
  RunRecord record_;
  std::optional<Calibration> calibration_;  // of the program of training
  std::optional<CpuShare> cpu_share_;       // where the compute lane is on the CPU
  int64_t peak_rss_ = 0;
  RankReports rank_reports_;
  LivePage page_;
  RunPushes pushes_{ranks_, job_, result_name()};
};

}  // namespace

int run_training(const RunInputs& inputs, train::RunStart start) {
  // This comes before memory is filled and weights are read, so that a misspelt module ends the run at once.
  std::unique_ptr<rewards::RewardFunctions> functions;
  train::JobRewards reward_models(inputs.job);
  if (const auto& settings = inputs.job.config.rewards)
    inputs.ranks.first(
        [&] { functions = std::make_unique<rewards::RewardFunctions>(*settings, reward_models.factory()); });
  std::optional<TrainingRun> run;
  inputs.ranks.agree([&] { run.emplace(inputs, std::move(start), std::move(functions), reward_models); });
  return run->run();
}

}  // namespace spillway
