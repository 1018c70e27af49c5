#include "cli/cmd_train.h"

#include <algorithm>
#include <csignal>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/local_time.h"
#include "base/log.h"
#include "base/naming_key.h"
#include "base/shared_cpus.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"
#include "cli/ranks/start_ranks.h"
#include "cli/training_run.h"
#include "dist/launch.h"
#include "io/file.h"
#include "io/folder_lock.h"
#include "job/changes_that_fit.h"
#include "job/initial_state.h"
#include "job/measure_job.h"
#include "job/tiers.h"
#include "job/training_data.h"
#include "plan/print.h"
#include "report/progress.h"
#include "runtime/cpu_share.h"
#include "runtime/machine_cache.h"
#include "runtime/process_memory.h"
#include "saved/output.h"

namespace spillway {
namespace {

namespace fs = std::filesystem;

// The folder of a run, created and locked before the data are read, so that an unwritable folder is an error before
// training rather than after. It is removed again if the run leaves nothing in it.
class OutputFolder {
 public:
  OutputFolder(const fs::path& path, SharedOutput shared)
      : path_(path), is_new_(!fs::exists(path)), shared_(std::move(shared)) {
    naming_key("output_dir", [&] {
      create_folders(path);
      lock_.emplace(path);
      shared_.begin();
    });
  }
  ~OutputFolder() {
    const FinishFirst finish(EvenInterrupted{});
    try {
      if (!is_finished_) shared_.abandon();
    } catch (const std::exception&) {  // the record stays that names what was written
    }
    std::error_code not_empty;
    if (is_new_) fs::remove(path_, not_empty);
  }
  OutputFolder(OutputFolder&&) = delete;

  // Records the files that the run left, at its end.
  void finish() {
    const FinishFirst finish(EvenInterrupted{});
    shared_.finish();
    is_finished_ = true;
  }

 private:
  TidyFirst tidy_;
  fs::path path_;
  bool is_new_, is_finished_ = false;
  SharedOutput shared_;
  std::optional<FolderLock> lock_;
};

// Reads the data, with `now` as the time that templates show.
train::TrainingData read_data(const config::Config& config, const train::Job& job, const std::optional<std::tm>& now,
                              Progress& progress) {
  if (job.online) return {};  // the job has its prompts
  if (job.clips) {
    train::TrainingData data;
    data.clips = train::open_clips(config, *job.clips);
    return data;
  }
  progress.say("reading the data");
  return train::load_training_data(
      config.data, config.tokenizer, job.model->text()->vocab_size,
      [&](int64_t records) { progress.count("rows read", records, now_seconds()); }, now);
}

constexpr std::string_view kTrainExamples[] = {
    "spillway train config.yml", "spillway train config.yml --memory.device 6GiB --output_dir ./second-run",
    "spillway train config.yml --auto_resume_from_checkpoints true"};
constexpr CommandFlag kTrainFlags[] = {kRanksFlag, kIsaFlag};
constexpr ConfigCommand kTrainCommand = {"train", "Trains what the config says.", kTrainFlags, kTrainExamples};

}  // namespace

int cmd_train(std::span<const std::string> args) {
  const auto arguments = parse_config_arguments(kTrainCommand, args);
  if (!arguments) return kDone;
  const Launch launch = read_launch();
  share_cpus(launch.local_size);
  const int ranks = ranks_asked_for(*arguments, launch);
  if (ranks > 1 && !launch.is_one_of_several()) return start_ranks(ranks, args, arguments->path);
  if (launch.is_one_of_several())
    throw input_error(launch.launcher,
                      "expected one process, got {}; several ranks are not yet supported: start it alone", launch.size);
  apply_isa_flag(*arguments);
  const config::LoadedConfig loaded = load_config(*arguments, config::ConfigUse::kTrain);
  SharedOutput shared = train::training_output(loaded.config);
  Progress progress({});
  progress.hint("planning");
  const std::shared_ptr<Device> device = open_device(loaded.config.device);
  BusyNotes busy;
  Machine machine = train::machine_of(loaded.config, *device);
  const std::string started = train::first_start(loaded.config.output);
  const std::optional<std::tm> now = time_from_text(started);
  const train::Job job = train::make_job(loaded.config, machine, {.now = now});
  for (const std::string& note : job.notes) log_line(note);
  // Checks that everything can be opened, before anything that takes long.
  (void)train::open_weight_files(job);
  if (!job.online && !job.clips) train::check_data_files(loaded.config.data);
  train::TrainingGraph training = train::build_training_graph(*job.model, job.graph);
  train::measure_job(job, training, machine, *device, measuring_progress(progress));
  std::vector<FrontierPoint> frontier;  // for the report, not for the plan that is printed now
  train::PlannedJob planned = train::plan_job(job, machine, std::move(training), &frontier);
  if (!planned.plan.fits) {
    measure_new_disks(machine, loaded.config.memory.disk_paths, *device);
    progress.hint("looking for what would fit");
    train::add_changes_that_fit(loaded, job, machine, planned);
  }
  progress.clear();
  train::check_fits(planned);
  busy.say();
  log_text(print_plan(planned.training.graph, planned.plan, planned.context));
  OutputFolder output(loaded.config.output.output_dir, std::move(shared));
  // A log whose reader has gone (`| tee` that Ctrl-C ended first) must not end the training.
  std::signal(SIGPIPE, SIG_IGN);
  planned.context.frontier = std::move(frontier);
  train::RunStart start = train::choose_start(loaded.config.output);
  start.run.started = started;
  train::TrainingData data = read_data(loaded.config, job, now, progress);
  release_free_memory();
  planned.context.process_bytes = train::predicted_rss_bytes(job, planned, machine);
  if (data.stream) planned.context.process_bytes += max_bytes(data.stream->options());
  const int status = run_training({.job = job,
                                   .planned = planned,
                                   .data = data,
                                   .source = loaded.source,
                                   .machine = machine,
                                   .device = *device,
                                   .progress = progress},
                                  std::move(start));
  output.finish();
  return status;
}

}  // namespace spillway
