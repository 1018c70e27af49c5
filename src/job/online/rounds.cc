#include "job/online/rounds.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/random.h"
#include "base/sizes.h"

namespace spillway::train {
namespace {

// Streams of random numbers, one for each purpose and number of an epoch or a round.
enum Purpose : uint64_t { kPrompts = 0x70, kCompletions = 0x71 };

std::vector<int64_t> permutation(int64_t count, uint64_t seed, Purpose purpose, int64_t number) {
  auto order = make_vector<int64_t>(count);
  std::iota(order.begin(), order.end(), 0);
  RandomStream random(seed, (uint64_t{purpose} << 48) + static_cast<uint64_t>(number));
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(static_cast<uint32_t>(i))]);
  return order;
}

}  // namespace

RoundSchedule::RoundSchedule(const config::Config& config, int64_t prompts)
    : prompts_(prompts),
      group_(config.online->num_generations),
      round_size_(config.online->round_size(config.batches.micro_batch_size)),
      shuffles_(config.online->reshuffles() ? config.online->num_iterations : 1),
      slices_(config.online->steps_per_generation * shuffles_),
      iterations_(config.online->num_iterations / shuffles_),
      accumulation_(config.batches.gradient_accumulation_steps * config.online->updates_per_step()),
      rounds_per_epoch_(prompts / (round_size_ / group_)),
      seed_(static_cast<uint64_t>(config.seed)),
      is_paired_(config.online->completions_per_row() > 1),
      is_shuffled_(config.data.batches.order != data::RowOrder::kFile) {
  if (rounds_per_epoch_ == 0)
    throw input_error("datasets",
                      "expected at least {} prompts, those of a round of {} completions, got {}; add rows, or lower "
                      "micro_batch_size or {}",
                      round_size_ / group_, round_size_, prompts,
                      config.online->reshuffles() ? "num_mini_batches" : "steps_per_generation");
}

RoundSchedule::Range RoundSchedule::micro_batches_of(int64_t step) const {
  const int64_t steps = epoch().steps(), begin = step / steps * micro_batches_per_epoch();
  const int64_t first = begin + step % steps * accumulation_;
  return {first, std::min(first + accumulation_, begin + micro_batches_per_epoch())};
}

std::vector<int64_t> RoundSchedule::prompts_of(int64_t round) const {
  const int64_t epoch = epoch_of(round), first = round % rounds_per_epoch_ * (round_size_ / group_);
  auto order = make_vector<int64_t>(prompts_);
  std::iota(order.begin(), order.end(), 0);
  if (is_shuffled_) order = permutation(prompts_, seed_, kPrompts, epoch);
  std::vector<int64_t> result;
  for (int64_t i = 0; i < round_size_; ++i) result.push_back(nth(order, first + i / group_));
  return result;
}

std::vector<int64_t> RoundSchedule::training_order(int64_t round) const {
  auto order = make_vector<int64_t>(round_size_);
  std::iota(order.begin(), order.end(), 0);
  if (is_paired_) return order;
  order.clear();
  for (int64_t i = 0; i < shuffles_; ++i) {
    const std::vector<int64_t> next = permutation(round_size_, seed_, kCompletions, round * shuffles_ + i);
    order.insert(order.end(), next.begin(), next.end());
  }
  return order;
}

}  // namespace spillway::train
