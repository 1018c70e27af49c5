// Trains what a config says, without the program around it: no report, no metrics file, one line per step.
// usage: train_a_model CONFIG.yml
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <utility>

#include "backend/device.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/parallel.h"
#include "config/load.h"
#include "job/initial_state.h"
#include "job/measure_job.h"
#include "job/planned_job.h"
#include "job/tiers.h"
#include "job/training_data.h"
#include "plan/shortage.h"
#include "saved/base_identity.h"
#include "saved/run_start.h"
#include "train/session.h"
#include "train/trainer.h"

namespace {

using namespace spillway;

void train_job(const config::Config& config) {
  const std::shared_ptr<Device> device = open_device(config.device);
  Machine machine = train::machine_of(config, *device);
  const train::Job job = train::make_job(config, machine);
  train::TrainingGraph training = train::build_training_graph(*job.model, job.graph);
  train::measure_job(job, training, machine, *device);
  train::PlannedJob planned = train::plan_job(job, machine, std::move(training));
  if (!planned.plan.fits) throw InputError(shortage_message(planned.plan, planned.context));

  const train::TrainingData data =
      train::load_training_data(config.data, config.tokenizer, job.model->text()->vocab_size);
  const train::InitialState initial(job);
  ThreadPool pool(machine.threads);
  const train::JobTiers tiers(job, planned, *device);
  train::TrainingSession session(job, planned, pool, tiers.options());
  train::Trainer trainer(job, session, data, train::choose_start(config.output), train::identify_base(initial.base()),
                         {.step = [](const train::StepRecord& step) {
                           fmt::print("step {}: loss {:.4f}, {:.0f} tokens/s\n", step.step, step.loss,
                                      step.tokens_per_second);
                         }});
  initial.load(job, planned.training, session.store());
  trainer.load_checkpoint();
  const FinishFirst finish;  // an interrupt ends the run between two steps
  std::filesystem::create_directories(config.output.output_dir);
  trainer.run();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    fmt::print(stderr, "usage: train_a_model CONFIG.yml\n");
    return 2;
  }
  train_job(config::load_config_file(argv[1], {}, config::ConfigUse::kTrain).config);
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 2;
}
