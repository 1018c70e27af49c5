#include "train/session.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"
#include "base/random.h"
#include "base/sizes.h"
#include "job/draw_planner.h"
#include "plan/verify.h"
#include "runtime/not_finite.h"

namespace spillway::train {
namespace {

int64_t missing_bytes(const Plan& plan) {
  return std::accumulate(plan.missing_bytes.begin(), plan.missing_bytes.end(), int64_t{0});
}

void check_programs(const std::vector<std::string>& violations) {
  SPILLWAY_CHECK(violations.empty(), "the plan's program is wrong: {}", violations.front());
}

// Returns all programs that run in the session's memory, each of them verified.
std::vector<const Program*> checked_programs(const PlannedJob& planned) {
  std::vector<std::pair<const Graph*, const Program*>> all = {{&planned.training.graph, &planned.plan.program}};
  for (const JobProgram& one : planned.beside) all.emplace_back(&one.graph, &one.plan.program);
  std::vector<const Program*> result;
  for (const auto& [graph, program] : all) {
    check_programs(verify(*graph, *program, planned.context.budget));
    for (size_t before = 0; before < result.size(); ++before)
      check_programs(verify_shared_homes(*all[before].first, *result[before], *graph, *program));
    result.push_back(program);
  }
  return result;
}

MemoryNeeds needs_of(const PlannedJob& planned) {
  MemoryNeeds needs;
  for (const Program* program : checked_programs(planned)) needs.add(*program);
  if (planned.draws) needs.add(planned.draws->needs());
  return needs;
}

template <typename T>
void set_scalar(const TensorView& view, T value) {
  *view.as<T>() = value;
}

using Streams = std::span<const infer::Batch>;

void fill(Executor& executor, const Graph& graph, const MicroBatchValues& values, Streams streams, float scale,
          const StreamShare& share, size_t in_group) {
  for (const BatchColumn& column : values.columns)
    share.fill(graph.value(column.value), column, nth(streams, column.stream), in_group, values.tokens,
               executor.home(column.value));
  if (values.scale != kNone) set_scalar(executor.home(values.scale), scale);
}

// Fills a micro-batch that has no rows.
void fill_empty(Executor& executor, const Graph& graph, const MicroBatchValues& values, float scale) {
  for (const BatchColumn& column : values.columns)
    infer::clear_column(graph.value(column.value), executor.home(column.value));
  if (values.scale != kNone) set_scalar(executor.home(values.scale), scale);
}

int64_t tokens_of(Streams streams, int stream) { return streams.empty() ? 0 : nth(streams, stream).tokens; }

// Returns the tokens of each stream of the micro-batches of a group, of which the first `count` have rows.
template <typename StreamsOf>
std::vector<StreamShare::Lengths> stream_lengths(size_t group, size_t count, const StreamsOf& streams_of) {
  std::vector<StreamShare::Lengths> lengths(group);
  for (size_t i = 0; i < count; ++i) {
    const Streams streams = streams_of(i);
    SPILLWAY_CHECK(streams.size() <= lengths[i].size(), "{} streams", streams.size());
    for (size_t stream = 0; stream < streams.size(); ++stream) lengths[i][stream] = streams[stream].tokens;
  }
  return lengths;
}

// Fills the micro-batches of a group, of which the first `count` have rows: streams_of(i) returns the streams of one.
template <typename StreamsOf>
void fill_group(Executor& executor, const Graph& graph, std::span<const MicroBatchValues> group, size_t count,
                const StreamsOf& streams_of, float scale, StreamShare& share) {
  SPILLWAY_CHECK(count <= group.size(), "{} micro-batches in a graph of {}", count, group.size());
  if (share.is_shared()) share.agree(stream_lengths(group.size(), count, streams_of));
  for (size_t i = 0; i < group.size(); ++i)
    i < count ? fill(executor, graph, group[i], streams_of(i), scale, share, i)
              : fill_empty(executor, graph, group[i], scale);
}

int64_t rows_of(Streams streams) { return streams.empty() ? 0 : streams[0].rows; }

// Each sets the rows of the axes of a group; streams_of(i) is empty for a micro-batch without rows.
template <typename StreamsOf>
void set_tokens(Executor& executor, std::span<const MicroBatchValues> group, const StreamsOf& streams_of, int stream,
                const StreamShare& share) {
  for (size_t i = 0; i < group.size(); ++i)
    executor.set_rows(group[i].tokens, share.rows(i, stream, tokens_of(streams_of(i), stream)));
}
template <typename StreamsOf>
void set_rows(Executor& executor, const Objective& objective, std::span<const MicroBatchValues> group,
              const StreamsOf& streams_of) {
  if (objective.sequences_per_row() == 0) return;
  for (size_t i = 0; i < group.size(); ++i) executor.set_rows(group[i].rows, rows_of(streams_of(i)));
}

// Returns what gives the streams of each micro-batch that a plan computes, none behind those of `group`.
auto streams_in(std::span<const BatchStreams> group) {
  return [group](size_t i) { return i < group.size() ? group[i].list() : Streams(); };
}

double number(const TensorView& view) {
  return view.dtype == DType::kI32 ? static_cast<double>(*view.as<int32_t>()) : *view.as<float>();
}

// Traces what an executor runs during the lifetime of this object; null: traces nothing.
class Traced {
 public:
  explicit Traced(Executor* executor) : executor_(executor) {
    if (executor_ != nullptr) executor_->start_trace();
  }
  ~Traced() {
    if (executor_ != nullptr) executor_->stop_trace();
  }
  Traced(Traced&&) = delete;

 private:
  Executor* executor_;
};

// Returns the largest of all executors by tier, given what says the peak of one.
template <typename Training, typename PeakOf>
std::array<int64_t, kTiers> largest_peaks(Training& training, std::span<const std::unique_ptr<Executor>> beside,
                                          const PeakOf& peak_of) {
  std::array<int64_t, kTiers> peaks{};
  for (size_t i = 0; i < peaks.size(); ++i) {
    const auto tier = static_cast<Tier>(i);
    peaks[i] = peak_of(training, tier);
    for (const std::unique_ptr<Executor>& executor : beside)
      if (executor) peaks[i] = std::max(peaks[i], peak_of(*executor, tier));
  }
  return peaks;
}

// Returns true if a result has a number for each of a micro-batch's tokens, or several.
bool is_of_tokens(const Graph& graph, size_t result, const MicroBatchValues& values) {
  return graph.value(graph.results[result]).type.axis == values.tokens;
}

// Copies the results, which are only valid until the end of their section.
void copy_results(const Executor& executor, size_t first, std::span<std::vector<double>> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    const TensorView from = executor.result(first + i);
    const auto copy = [&](const auto* numbers) { to[i].assign(numbers, numbers + from.elems()); };
    from.dtype == DType::kI32 ? copy(from.as<int32_t>()) : copy(from.as<float>());
  }
}

}  // namespace

BatchStreams::BatchStreams(std::span<const data::MicroBatch> streams) : count_(streams.size()) {
  SPILLWAY_CHECK(count_ <= kMax, "{} streams", count_);
  std::transform(streams.begin(), streams.end(), batches_.begin(), infer::batch_of);
}

BatchStreams::BatchStreams(std::span<const infer::Batch> streams) : count_(streams.size()) {
  SPILLWAY_CHECK(count_ <= kMax, "{} streams", count_);
  std::copy(streams.begin(), streams.end(), batches_.begin());
}

TrainingSession::TrainingSession(const Job& job, PlannedJob& planned, ThreadPool& pool, const ExecutorOptions& options)
    : job_(job),
      planned_(planned),
      pool_(pool),
      seed_(static_cast<uint64_t>(job.config.seed)),
      options_(options),
      memory_(needs_of(planned), planned.plan.program, pool, options.tiers),
      share_(options.peers, job.graph.model.context_ranks),
      beside_(planned.beside.size()) {
  start_training();
}

void TrainingSession::draw(const LayerDraw& draw) {
  if (draw.numbers == draw_.numbers) {
    draw_ = draw;
    return;
  }
  Budget room;
  room.device = arena_bytes(planned_, Tier::kDevice);
  room.host = arena_bytes(planned_, Tier::kHost);
  room.disk = arena_bytes(planned_, Tier::kDisk);
  PlannedDraw next = planned_.draws->plan(draw.numbers, room);
  if (!next.plan.fits)
    throw input_error("lisa_n_layers", "expected memory for {}, got {} less than needed; {}", layers_text(draw.numbers),
                      format_bytes_up(missing_bytes(next.plan)),
                      "raise memory.device, then go on from the last checkpoint");
  check_programs(verify(next.training.graph, next.plan.program, room));
  check_programs(
      verify_shared_homes(planned_.training.graph, planned_.plan.program, next.training.graph, next.plan.program));
  peaks_before_ = measured_peak_bytes();
  parts_.reset();
  executor_.reset();
  planned_.training = std::move(next.training);
  planned_.plan = std::move(next.plan);
  start_training();
  draw_ = draw;
}

void TrainingSession::start_training() {
  const TrainingGraph& t = planned_.training;
  executor_ = std::make_unique<Executor>(t.graph, planned_.plan.program, memory_, options_);
  if (options_.peers != nullptr) parts_.emplace(executor_->values(), t.graph, t.parts, *options_.peers);
}

// The load-balancing loss is a mean over the micro-batches of an update, as in TRL.
void TrainingSession::begin_step(double learning_rate, int64_t step, int64_t micro_batches) {
  step_ = step;
  learning_rate_ = learning_rate;
  router_loss_weight_ = static_cast<float>(job_.graph.model.router_aux_loss_coef / static_cast<double>(micro_batches));
}

// Other programs of the job may have run in the same memory meanwhile.
void TrainingSession::set_step_values() {
  set_scalar(home(training().learning_rate), static_cast<float>(learning_rate_));
  for (const OtherRate& other : training().other_rates)
    set_scalar(home(other.value), static_cast<float>(learning_rate_ * other.ratio));
  set_scalar(home(training().step), static_cast<int32_t>(step_ + 1));
  for (size_t i = 0; i < training().layer_steps.size(); ++i) {
    const int64_t before = draw_.steps_before.empty() ? 0 : draw_.steps_before[i];
    set_scalar(home(training().layer_steps[i]), static_cast<int32_t>(before + step_ - draw_.first_step + 1));
  }
}

// Runs the passes and the forward section. streams_of(i) returns the streams of micro-batch i of the group, none if it
// has no rows. REQUIRES: the content of the streams is in place.
template <typename StreamsOf>
void TrainingSession::run_forward(Executor& executor, const Graph& graph, const AppendedObjective& objective,
                                  std::span<const MicroBatchValues> group, const StreamsOf& streams_of,
                                  SectionId section) {
  set_rows(executor, *objective.objective, group, streams_of);
  for (const PassSection& pass : objective.passes) {
    set_tokens(executor, group, streams_of, pass.stream, share_);
    executor.run(pass.section);
  }
  set_tokens(executor, group, streams_of, 0, share_);
  executor.run(section);
  losses_.clear();
  model_metrics_ = objective.model_metrics;
  observed_.resize(objective.observed * group.size());
  for (size_t i = 0; i < group.size(); ++i) {
    losses_.push_back(number(executor.result(group[i].loss_result)));
    copy_results(executor, group[i].loss_result + 1,
                 std::span(observed_).subspan(i * objective.observed, objective.observed));
  }
  if (share_.is_shared()) share_results(graph, objective, group);
}

// Makes losses and observed numbers those of whole micro-batches. A model's metrics, behind what the objective
// observes, are so on each rank.
void TrainingSession::share_results(const Graph& graph, const AppendedObjective& objective,
                                    std::span<const MicroBatchValues> group) {
  const bool adds_up = objective.objective->is_sum_of_tokens();
  StreamShare::Lists sums, rows;
  if (adds_up) sums.push_back(&losses_);
  for (size_t i = 0; i < group.size(); ++i) {
    for (size_t j = 0; j + objective.model_metrics.size() < objective.observed; ++j) {
      std::vector<double>& numbers = observed_[i * objective.observed + j];
      if (is_of_tokens(graph, group[i].loss_result + 1 + j, group[i])) {
        rows.push_back(&numbers);
      } else if (adds_up) {
        sums.push_back(&numbers);
      }
    }
  }
  share_.add_up(sums);
  share_.collect(rows);
}

std::span<const std::vector<double>> TrainingSession::observed(size_t in_group) const {
  const size_t count = observed_.size() / std::max<size_t>(1, losses_.size());
  return std::span(observed_).subspan(in_group * count, count);
}

std::span<const double> TrainingSession::micro_steps(std::span<const BatchStreams> group, float scale, int64_t first) {
  const std::span<const double> losses = forward_steps(group, scale, first);
  backward_step();
  return losses;
}

// The group may have fewer micro-batches than the graph has room for: the others have no rows.
std::span<const double> TrainingSession::forward_steps(std::span<const BatchStreams> group, float scale, int64_t first,
                                                       int64_t apart) {
  const TrainingGraph& t = training();
  set_step_values();
  fill_group(*executor_, t.graph, t.group, group.size(), streams_in(group), scale, share_);
  for (int64_t i = 0; i < std::ssize(t.group); ++i) {
    const MicroBatchValues& values = nth(t.group, i);
    if (values.router_loss_weight != kNone) set_scalar(home(values.router_loss_weight), router_loss_weight_);
    if (values.fake_quantises != kNone) {
      const bool quantises = step_ >= job_.graph.model.fake_quantisation->after_steps;
      set_scalar(home(values.fake_quantises), int64_t{quantises});
    }
    if (values.dropout_seed == kNone) continue;
    // The seed has 62 bits, since a negative one switches dropout off.
    const auto bits = philox(seed_, static_cast<uint64_t>(step_), static_cast<uint64_t>(first + i * apart));
    set_scalar(home(values.dropout_seed), static_cast<int64_t>(((uint64_t{bits[0]} << 32) | bits[1]) >> 2));
  }
  run_forward(*executor_, t.graph, t.objective, t.group, streams_in(group), t.forward);
  return std::span(losses_).first(group.size());
}

std::string TrainingSession::find_not_finite(std::span<const BatchStreams> group, float scale, int64_t first) {
  if (options_.peers != nullptr) return "";
  const TrainingGraph& t = training();
  NotFinite found;
  ExecutorOptions options = options_;
  options.lanes = look_for_not_finite(found);
  std::unique_ptr<Executor> usual =
      std::exchange(executor_, std::make_unique<Executor>(t.graph, planned_.plan.program, memory_, options));
  (void)forward_steps(group, scale, first);
  executor_ = std::move(usual);
  return found.text(t.graph);
}

void TrainingSession::backward_step(int64_t micro_batches) {
  if (options_.peers != nullptr) {
    const int64_t together = job_.graph.model.context_ranks, apart = options_.peers->size() / together;
    for (const MicroBatchValues& values : training().group) {
      const int64_t contributors = std::clamp<int64_t>(micro_batches, 0, apart) * together;
      executor_->set_contributors(narrow<int>(contributors), values.tokens);
      micro_batches -= apart;
    }
  }
  executor_->run(training().backward);
}

double TrainingSession::update() {
  executor_->run(training().update);
  return number(executor_->result(training().norm_result));
}

double TrainingSession::evaluate(std::span<const infer::Batch> streams) {
  const BatchStreams one(streams);
  return evaluate_group({&one, 1}).front();
}

std::span<const double> TrainingSession::evaluate_group(std::span<const BatchStreams> group) {
  const JobProgram& program = *planned_.find(JobProgram::Kind::kEvaluation);
  Executor& executor = started(program);
  fill_group(executor, program.graph, program.group, group.size(), streams_in(group), 1.0f, share_);
  run_forward(executor, program.graph, program.objective, program.group, streams_in(group),
              static_cast<SectionId>(program.graph.sections.size() - 1));
  return std::span(losses_).first(group.size());
}

Executor& TrainingSession::started(const JobProgram& program) {
  std::unique_ptr<Executor>& executor = nth(beside_, &program - planned_.beside.data());
  if (!executor) executor = std::make_unique<Executor>(program.graph, program.plan.program, memory_, options_);
  return *executor;
}

void TrainingSession::score(std::span<const BatchStreams> group) {
  const JobProgram& program = *planned_.find(JobProgram::Kind::kScoring);
  Executor& executor = started(program);
  const Traced traced(&executor);
  const auto streams_of = streams_in(group);
  fill_group(executor, program.graph, program.group, group.size(), streams_of, 1.0f, share_);
  set_rows(executor, *program.objective.objective, program.group, streams_of);
  scores_.resize(program.graph.results.size());
  size_t next = 0;
  StreamShare::Lists of_tokens;
  for (const PassSection& pass : program.objective.passes) {
    set_tokens(executor, program.group, streams_of, pass.stream, share_);
    executor.run(pass.section);
    for (const MicroBatchValues& values : program.group) {
      const size_t first = values.loss_result + next;
      copy_results(executor, first, std::span(scores_).subspan(first, pass.scores));
      for (size_t i = first; i < first + pass.scores; ++i)
        if (is_of_tokens(program.graph, i, values)) of_tokens.push_back(&scores_[i]);
    }
    next += pass.scores;
  }
  share_.collect(of_tokens);
}

std::span<const std::vector<double>> TrainingSession::scores(size_t in_group) const {
  const auto count = scores_.size() / planned_.find(JobProgram::Kind::kScoring)->group.size();
  return std::span(scores_).subspan(in_group * count, count);
}

bool TrainingSession::generation_gathers() const {
  const auto& decode = planned_.find(JobProgram::Kind::kDecode)->plan.program.instructions;
  return std::any_of(decode.begin(), decode.end(), [](const Instruction& one) { return one.lane == Lane::kPeer; });
}

std::vector<infer::Generated> TrainingSession::generate(std::span<const infer::Prompt> prompts,
                                                        const infer::GenerationOptions& options,
                                                        const std::function<bool(bool)>& any_rank) {
  using Kind = JobProgram::Kind;
  const JobProgram &decoding = *planned_.find(Kind::kDecode), &prompting = *planned_.find(Kind::kPrompt);
  const JobProgram* const gathering = planned_.find(Kind::kGather);
  Executor &decode = started(decoding), &prompt = started(prompting);
  Executor* const gather = gathering != nullptr ? &started(*gathering) : nullptr;
  const Traced traced_decode(&decode), traced_prompt(&prompt), traced_gather(gather);
  if (gather != nullptr) gather->run(0);
  return infer::generate({{decoding.graph, decoding.cached, decode},
                          {prompting.graph, prompting.cached, prompt},
                          decoding.choice,
                          pool_,
                          any_rank},
                         prompts, options);
}

std::vector<std::vector<float>> TrainingSession::score_texts(size_t model, std::span<const data::MicroBatch> batches) {
  const JobProgram& program = *planned_.find(JobProgram::Kind::kReward, model);
  Executor& executor = started(program);
  const Traced traced(&executor);
  std::vector<BatchStreams> group;
  for (const data::MicroBatch& batch : batches) group.emplace_back(std::span(&batch, 1));
  StreamShare whole(nullptr, 1);  // ranks share no texts
  fill_group(executor, program.graph, program.group, group.size(), streams_in(group), 1.0f, whole);
  set_tokens(executor, program.group, streams_in(group), 0, whole);
  executor.run(0);
  std::vector<std::vector<float>> scores;
  for (size_t i = 0; i < batches.size(); ++i) {
    const auto* const of_tokens = executor.result(program.group[i].loss_result).as<float>();
    scores.emplace_back(of_tokens, of_tokens + batches[i].tokens());
  }
  return scores;
}

std::vector<const LaneProfile*> TrainingSession::profiles() const {
  std::vector<const LaneProfile*> result;
  for (const std::unique_ptr<Executor>& executor : beside_) result.push_back(executor ? &executor->lanes() : nullptr);
  return result;
}

std::array<int64_t, kTiers> TrainingSession::measured_peak_bytes() const {
  std::array<int64_t, kTiers> peaks = largest_peaks(
      *executor_, beside_, [](const Executor& executor, Tier tier) { return executor.measured_peak_bytes(tier); });
  for (size_t i = 0; i < kTiers; ++i) peaks[i] = std::max(peaks[i], peaks_before_[i]);
  return peaks;
}

std::array<int64_t, kTiers> TrainingSession::take_recent_peak_bytes() {
  return largest_peaks(*executor_, beside_,
                       [](Executor& executor, Tier tier) { return executor.take_recent_peak_bytes(tier); });
}

int64_t TrainingSession::generation_bytes_streamed() const {
  int64_t bytes = 0;
  for (size_t i = 0; i < beside_.size(); ++i) {
    if (!beside_[i] || !planned_.beside[i].generates()) continue;
    const LaneProfile& lanes = beside_[i]->lanes();
    bytes += std::max({lanes.totals(Lane::kHostToDevice).bytes, lanes.totals(Lane::kDiskRead).bytes,
                       lanes.totals(Lane::kPeer).bytes});
  }
  return bytes;
}

std::vector<infer::Generated> TrainingSession::sample(std::span<const int32_t> ends) {
  std::vector<int32_t> stops = job_.samples.tokenizer->stop_ids();
  stops.insert(stops.end(), ends.begin(), ends.end());
  return generate(job_.samples.prompts,
                  {.stop_ids = std::move(stops), .penalties = infer::penalties_of(*job_.model->text())});
}

}  // namespace spillway::train
