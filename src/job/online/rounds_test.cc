#include "job/online/rounds.h"

#include <doctest/doctest.h>

#include "config/load.h"

using namespace spillway;

// TRL's PPOTrainer: num_total_batches = ceil(int(num_train_epochs * prompts) / batch_size).
TEST_CASE("PPO has as many rounds as its epochs fill with prompts, the last one rounded up") {
  const auto rounds = [](int64_t prompts, double epochs) {
    const config::Config config = config::load_config(
                                      "base_model: ./m\nlearning_rate: 1e-6\ndatasets: [{path: a.jsonl}]\nrl: "
                                      "ppo\nreward_model_path: ./r\nvalue_model_path: ./v\n"
                                      "micro_batch_size: 8\ngradient_accumulation_steps: 2\n",
                                      "c.yml", {}, config::ConfigUse::kTrain)
                                      .config;
    return train::RoundSchedule(config, prompts).rounds_for(epochs);
  };
  CHECK(rounds(40, 3) == 8);
  CHECK(rounds(40, 1) == 3);
  CHECK(rounds(32, 2) == 4);
  CHECK(rounds(17, 0.5) == 1);
}
