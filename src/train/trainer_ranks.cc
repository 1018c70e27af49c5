// The parts of a trainer that it tells those of other ranks.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "io/checksum.h"
#include "train/alike_ranks.h"
#include "train/rank_text.h"
#include "train/trainer.h"

namespace spillway::train {
namespace {

std::string base_checksum(const BaseIdentity& base) {
  Checksum sum;
  for (const auto& [name, identity] : base) {
    for (const std::string_view text : {std::string_view(name), std::string_view(identity)})
      sum.add(std::as_bytes(std::span(text)));
  }
  return sum.text();
}

// Where passes gather weights, a plan decides where they do so again: returns a checksum of what a rank's plans
// exchange, in their order.
std::string collectives_checksum(const PlannedJob& planned) {
  Checksum sum;
  const auto add = [&](const Program& program) {
    for (const Instruction& one : program.instructions)
      if (one.lane == Lane::kPeer) sum.add(std::as_bytes(std::span(&one.op, 1)));
  };
  add(planned.plan.program);
  for (const JobProgram& program : planned.beside) add(program.plan.program);
  return sum.text();
}

// Returns a checksum of the names and types of all weights that a job trains.
std::string trained_checksum(const Graph& graph) {
  Checksum sum;
  for (const Value& value : graph.values) {
    if (value.kind != ValueKind::kTrainableWeight) continue;
    const std::string text = fmt::format("{} {}\n", value.name, to_string(value.type));
    sum.add(std::as_bytes(std::span(text)));
  }
  return sum.text();
}

}  // namespace

// Runs the forward pass of the group that was taken, and returns what its micro-batches contribute, each as a text.
// Ranks that exchange on the way begin it together, or not at all.
std::string Trainer::contributions(const StepTotals& totals, const Turn& turn) {
  const float scale = job_.graph.objective->scale(totals);
  const int64_t first = turn.first + ranks_.rank() / job_.config.ranks.context;
  const std::span<const double> losses = session_.forward_steps(group_.views(), scale, first, dealt());
  TextWriter text;
  for (size_t i = 0; i < group_.size(); ++i) {
    Contribution mine{.loss = losses[i], .tokens = group_[i][0].tokens()};
    MetricSums sums;
    sums.record(&mine.metrics);
    mine.observed = feed_->observe(observe(job_, session_, group_[i], losses[i] / scale, sums, i));
    text.add_list(to_text(mine));
  }
  return text.take();
}

// Runs the forward pass of the groups that all ranks have taken, and adds what they contribute in the order of the
// micro-batches.
void Trainer::forward_on_ranks(const StepTotals& totals, const Turn& turn, Contribution& step) {
  const auto add = [&](std::string_view text) {
    const Contribution one = contribution_from(text, metric_keys_);
    step.loss += one.loss / static_cast<double>(totals.updates);
    step.tokens += one.tokens;
    for (const auto& [mean, weight] : one.metrics) sums_.add(mean, weight);
    feed_->add_observed(one.observed);
  };
  ranks_.take_turns(
      turn.count, job_.config.ranks.context, [&] { return contributions(totals, turn); }, add);
}

// Returns the time that this rank has spent with the others so far, in agreements and in exchanges of the program.
double Trainer::met_seconds() const {
  return ranks_.met_seconds() + session_.executor().lanes().totals(Lane::kPeer).busy_seconds;
}

// Gives all ranks rank 0's time of the step, and finds the slowest of them: that which spent least of the step with the
// others, as the last to come to an exchange does not wait. Steps end together: a rank with a longer one has begun it
// earlier, and waited for rank 0 to begin, which may have written a checkpoint.
void Trainer::share_pace(StepRecord& record) {
  const double own = met_seconds() - met_seconds_;
  const std::span<const std::string> texts = ranks_.exchange([&] {
    TextWriter text;
    text.add(record.step_seconds);
    text.add(own);
    return text.take();
  });
  std::vector<double> with_others;
  for (const std::string& one : texts) {
    TextReader reader(one);
    const auto seconds = reader.take<double>();
    if (with_others.empty()) record.step_seconds = seconds;
    const double before_rank_0 = std::max(0.0, seconds - record.step_seconds);
    with_others.push_back(std::max(0.0, reader.take<double>() - before_rank_0));
  }
  const auto least = std::min_element(with_others.begin(), with_others.end());
  const auto others = static_cast<double>(std::ssize(with_others) - 1);
  const double sum = std::accumulate(with_others.begin(), with_others.end(), 0.0);
  record.slowest = {static_cast<int>(least - with_others.begin()), (sum - *least) / others - *least};
}

// Runs `body` on rank 0, which may read all persistent values: the others give it their parts.
void Trainer::first_with_parts(const std::function<void()>& body) {
  PartStore* const parts = session_.part_store();
  if (parts == nullptr) return body();
  ranks_.agree([&] { ranks_.is_first() ? parts->lead(body) : parts->follow(); });
}

// Throws InputError if the plan of newly drawn layers has another order of exchanges on some rank.
void Trainer::check_same_plan() {
  if (ranks_.are_several()) check_alike(ranks_, {{"plan", collectives_checksum(session_.planned())}});
}

void Trainer::check_same_on_all_ranks(std::string_view version, const WeightFiles& files) {
  if (!ranks_.are_several()) return;
  nlohmann::ordered_json facts = {{"spillway", version}};
  for (const auto& [key, value] : position_.settings) facts[key] = value;
  facts["datasets"] = fmt::format("{} rows {}{}", position_.rows, position_.rows_checksum, position_.stream_identity);
  facts["base_model"] = base_checksum(position_.base);
  const PlanContext& plan = session_.planned().context;
  facts["trained weights"] = trained_checksum(session_.training().graph);
  const auto identify = [&](std::string_view key, const std::optional<SafetensorsFolder>& folder) {
    if (folder) facts[std::string(key)] = base_checksum(identify_base(*folder));
  };
  identify("lora_model_dir", files.adapter);
  identify("the reference's weights", files.reference);
  identify("value_model_path", files.value);
  for (size_t i = 0; i < files.beside.size(); ++i) identify(fmt::format("reward model {}", i + 1), files.beside[i]);
  facts["zero_stage"] = fmt::format("{} over {} ranks", plan.zero_stage, plan.ranks / plan.copies);
  facts["gradient_reduction"] = fmt::format("hosts of {} ranks", job_.config.ranks.together);
  facts["plan"] = collectives_checksum(session_.planned());
  facts["resume_from_checkpoint"] = fmt::format("step {}", position_.step);
  check_alike(ranks_, facts);
}

}  // namespace spillway::train
