// Prints where every byte of a job would live on this machine, and how long a step would take.
// usage: plan_a_job CONFIG.yml
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <utility>

#include "backend/device.h"
#include "config/load.h"
#include "job/measure_job.h"
#include "job/planned_job.h"
#include "job/tiers.h"
#include "plan/print.h"

int main(int argc, char** argv) try {
  using namespace spillway;
  if (argc != 2) {
    fmt::print(stderr, "usage: plan_a_job CONFIG.yml\n");
    return 2;
  }
  const config::Config config = config::load_config_file(argv[1], {}, config::ConfigUse::kTrain).config;
  const std::shared_ptr<Device> device = open_device(config.device);
  Machine machine = train::machine_of(config, *device);

  const train::Job job = train::make_job(config, machine);
  train::TrainingGraph training = train::build_training_graph(*job.model, job.graph);
  train::measure_job(job, training, machine, *device);
  const train::PlannedJob planned = train::plan_job(job, machine, std::move(training));

  fmt::print("{}", print_plan(planned.training.graph, planned.plan, planned.context));
  return planned.plan.fits ? 0 : 1;
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 2;
}
