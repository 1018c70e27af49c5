#include "job/fit/fit.h"

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/math.h"
#include "base/ordered_workers.h"
#include "base/parallel.h"
#include "infer/linear_storage.h"
#include "job/plan_beside.h"
#include "job/planned_job.h"
#include "model/model.h"
#include "plan/search.h"
#include "plan/series_planner.h"

namespace spillway {
namespace {

constexpr std::string_view kFull =
    "parameter_offload: auto\ngradient_offload: auto\noptimizer_offload: auto\nlearning_rate: 1e-5\n";
// The methods of a table: adapters, which are planned sooner, come first.
constexpr std::array kTextMethods = {
    FitMethod{"lora", "adapter: lora\nlora_r: 16\nlora_alpha: 32\nlora_target_linear: true\nlearning_rate: 2e-4\n"},
    FitMethod{"qlora",
              "adapter: qlora\nload_in_4bit: true\nlora_r: 16\nlora_alpha: 32\nlora_target_linear: true\n"
              "learning_rate: 2e-4\n"},
    FitMethod{"full", kFull},
};
// The methods of a model whose files hold codes of their own: nothing is quantised, and what is trained is decoded.
constexpr std::array kCodedMethods = {kTextMethods[0], FitMethod{.name = "full", .keys = kFull, .decodes = true}};
constexpr std::array kVideoMethods = {
    FitMethod{"lora", "adapter: lora\nlora_r: 32\nlora_alpha: 32\nlora_target_linear: true\nlearning_rate: 1e-4\n"},
    FitMethod{"full", kFull},
};

// The latents of 81 frames of 480 x 832 pixels: four frames make one after the first. Wan 2.1's VAE makes one row of
// eight, and Wan 2.2's, of 48 channels, of sixteen.
std::array<int64_t, 4> usual_clip(const VideoModel& model) {
  const int64_t pixels = model.out_channels == 48 ? 16 : 8;
  return {model.out_channels, 1 + 80 / 4, 480 / pixels, 832 / pixels};
}

// Returns the micro-batch sizes to try: only the user's if given, else powers of two.
std::vector<int64_t> row_counts(const FitQuestion& question) {
  const auto is_said = [](const config::ConfigOverride& one) {
    return one.key == "micro_batch_size" || one.key == "micro-batch-size";
  };
  if (std::any_of(question.overrides.begin(), question.overrides.end(), is_said)) return {1};
  std::vector<int64_t> counts;
  for (int64_t rows = 1; rows <= question.family.max_rows; rows *= 2) counts.push_back(rows);
  return counts;
}

// The least gain in speed per token for which larger micro-batches are chosen: they take memory that other programs may
// need.
constexpr double kWorthMoreRows = 1.03;

// A method with one micro-batch size, and the plans of its budgets.
class SizedJob {
 public:
  SizedJob(const FitQuestion& question, const FitMethod& method, int64_t rows)
      : machine_(question.machine),
        job_(train::make_job(config::load_config(fit_config(question.model_folder, question.family, method, rows),
                                                 "--model", question.overrides, config::ConfigUse::kTrain)
                                 .config,
                             question.machine)),
        training_(train::build_training_graph(*job_.model, job_.graph)),
        planner_(training_.graph, machine_, train::training_policy(job_, training_),
                 div_ceil(accumulation(), job_.graph.micro_batches)) {
    job_.other_groups.clear();  // the series is of one order
    job_.config.batches.forward_group = 1;
  }

  [[nodiscard]] const Budget& budget() const { return job_.budget; }
  [[nodiscard]] int64_t micro_batch_size() const { return job_.config.batches.micro_batch_size; }

  // Returns what no plan is faster than, within any budget.
  [[nodiscard]] FitRow limit() const {
    return {.micro_batch_size = micro_batch_size(),
            .fits = true,
            .tokens_per_second = tokens() / planner_.computing_seconds()};
  }

  // Returns the forecast of the fastest plan: its speed, or all bytes that are missing.
  [[nodiscard]] FitRow outlook(const Budget& budget) {
    const SeriesPlanner::Outlook outlook = planner_.outlook(budget);
    return {.micro_batch_size = micro_batch_size(),
            .budget = budget,
            .fits = outlook.missing_bytes == 0,
            .tokens_per_second = tokens() / outlook.seconds,
            .missing_bytes = {static_cast<int64_t>(outlook.missing_bytes)}};
  }

  [[nodiscard]] FitRow row(const Budget& budget) {
    job_.budget = budget;
    const train::PlannedJob planned = train::plan_job(
        job_, machine_, training_, [&](const Budget& of_training) { return planner_.plan(of_training); });
    const PlanContext& context = planned.context;
    const double seconds = context.step_seconds(planned.plan.simulation);
    const int64_t tokens = training_.graph.tokens() * context.micro_batches();
    FitRow row{.micro_batch_size = micro_batch_size(),
               .budget = budget,
               .fits = planned.plan.fits && train::shortage_beside(planned).empty(),
               .step_seconds = seconds,
               .tokens_per_second = static_cast<double>(tokens) / seconds,
               .title = job_.title};
    for (size_t i = 0; i < kBudgetedTiers; ++i) {
      row.peak_bytes[i] = train::peak_bytes(planned, static_cast<Tier>(i));
      row.missing_bytes[i] = planned.plan.missing_bytes[i];
    }
    return row;
  }

 private:
  [[nodiscard]] double tokens() const { return static_cast<double>(training_.graph.tokens() * accumulation()); }
  [[nodiscard]] int64_t accumulation() const { return job_.config.batches.gradient_accumulation_steps; }

  const Machine& machine_;
  train::Job job_;
  train::TrainingGraph training_;
  SeriesPlanner planner_;
};

// Returns true if `row` is to be shown in place of `other`, which has another micro-batch size or less memory.
bool is_better(const FitRow& row, const FitRow& other) {
  if (row.fits != other.fits) return row.fits;
  if (!row.fits) return row.missing_bytes < other.missing_bytes;
  if (row.micro_batch_size < other.micro_batch_size)
    return kWorthMoreRows * row.tokens_per_second > other.tokens_per_second;
  return row.tokens_per_second >= kWorthMoreRows * other.tokens_per_second;
}

PlanCost cost_of(const FitRow& row) {
  const auto& [device, host, disk] = row.peak_bytes;
  return {1 / row.tokens_per_second, host + disk};  // of a token, since not all steps have as many
}

// Returns true if the plan that `less` memory has is to be shown for more memory, too, in the place of the one found
// there. More rows have to be worth it there as well, and other plans are compared as the planner compares them.
bool is_preferred_in_more(const FitRow& less, const FitRow& more) {
  if (!more.fits || less.micro_batch_size > more.micro_batch_size) return is_better(less, more);
  const PlanCost cost = cost_of(less), other = cost_of(more);
  return is_preferred(cost, other, std::min(cost.seconds, other.seconds));
}

// Returns the row of the micro-batch size that is to be shown for a budget. Only those are forecast, and then planned,
// that may still be better than all others: the most promising first.
FitRow best_row(std::span<const std::unique_ptr<SizedJob>> sizes, const Budget& budget, const OnFitPlan& on_plan) {
  struct Open {
    SizedJob* size;
    FitRow promise;
    bool is_forecast = false;
  };
  std::vector<Open> open;
  for (const auto& size : sizes) open.push_back({size.get(), size->limit()});
  const auto is_more_promising = [](const Open& a, const Open& b) { return is_better(a.promise, b.promise); };
  std::optional<FitRow> best;
  while (!open.empty()) {
    const auto next = std::min_element(open.begin(), open.end(), is_more_promising);
    if (best && !is_better(next->promise, *best)) break;
    if (!next->is_forecast) {
      next->promise = next->size->outlook(budget);
      next->is_forecast = true;
      continue;
    }
    on_plan(next->promise);
    const FitRow row = next->size->row(budget);
    if (!best || is_better(row, *best)) best = row;
    open.erase(next);
  }
  return *best;
}

// Returns a row for each share of the device memory, or a single one if the whole is too small.
std::vector<FitRow> rows_of(const FitQuestion& question, const FitMethod& method, const OnFitPlan& on_plan) {
  std::vector<std::unique_ptr<SizedJob>> sizes;
  for (const int64_t rows : row_counts(question)) sizes.push_back(std::make_unique<SizedJob>(question, method, rows));
  const auto on_size = [&](FitRow tried) {
    tried.method = method.name;
    on_plan(tried);
  };
  std::vector<FitRow> rows;
  const Budget whole = sizes.front()->budget();
  for (const double share : kFitShares) {
    Budget budget = whole;
    if (budget.device) budget.device = static_cast<int64_t>(static_cast<double>(*budget.device) * share);
    // The fastest plan stays the fastest with less memory if it fits there.
    const bool fits_here = !rows.empty() && rows.back().fits && rows.back().peak_bytes[0] <= *budget.device;
    rows.push_back(fits_here ? FitRow(rows.back()) : best_row(sizes, budget, on_size));
    rows.back().budget = budget;
    rows.back().method = method.name;
    if (!budget.device || !rows.front().fits) break;
  }
  // The fastest plan for less memory is no slower with more.
  for (size_t i = rows.size(); i > 1; --i) {
    FitRow &more = rows[i - 2], less = rows[i - 1];
    if (!less.fits || !is_preferred_in_more(less, more)) continue;
    less.budget = more.budget;
    more = std::move(less);
  }
  return rows;
}

}  // namespace

FitFamily fit_family(const std::string& model_folder) {
  const ModelPtr model = read_model(model_folder);
  if (const VideoModel* const video = model->video())
    return {.rows = fmt::format("datasets:\n"
                                "  - path: latents\n"
                                "    type: video_latents\n"
                                "clip_shape: [{}]\n",
                                fmt::join(usual_clip(*video), ", ")),
            .rows_per_step = 4,
            .max_rows = 1,  // a clip keeps every product busy
            .unit = "patches",
            .methods = kVideoMethods};
  const ParameterTable parameters = parameters_of(*model);
  const bool is_coded = std::any_of(parameters.begin(), parameters.end(),
                                    [](const Parameter& p) { return infer::is_of_files(p.source.storage->name()); });
  return {.rows =
              "datasets:\n"
              "  - path: data.jsonl\n"
              "    type: chat_template\n"
              "sequence_len: 2048\n"
              "sample_packing: true\n",
          .rows_per_step = 8,
          .max_rows = 8,
          .unit = "tokens",
          .methods = is_coded ? std::span<const FitMethod>(kCodedMethods) : kTextMethods};
}

std::string fit_config(std::string_view base_model, const FitFamily& family, const FitMethod& method,
                       int64_t micro_batch_size) {
  return fmt::format(
      "base_model: {}\n"
      "{}"
      "micro_batch_size: {}\n"
      "gradient_accumulation_steps: {}\n"
      "num_epochs: 1\n"
      "{}{}"
      "lr_scheduler: cosine\n"
      "warmup_ratio: 0.03\n"
      "bf16: true\n"
      "memory:\n"
      "  disk: 80%\n"
      "output_dir: out\n",
      base_model, family.rows, micro_batch_size, family.rows_per_step / micro_batch_size,
      method.decodes ? "dequantize: true\n" : "", method.keys);
}

std::vector<FitRow> fit_rows(const FitQuestion& question, std::span<const FitMethod> methods, const OnFitPlan& on_plan,
                             const OnFitRow& on_row) {
  struct Answer {
    const FitMethod* method;
    std::vector<FitRow> rows;
    std::exception_ptr error;
  };
  const auto threads = static_cast<int>(std::min<size_t>(static_cast<size_t>(available_cpus()), methods.size()));
  OrderedWorkers<Answer> workers(threads, [&](Answer& answer) {
    try {
      answer.rows = rows_of(question, *answer.method, on_plan);
    } catch (...) {
      answer.error = std::current_exception();
    }
  });
  for (const FitMethod& method : methods) workers.push(std::make_unique<Answer>(Answer{&method, {}, {}}));
  std::vector<FitRow> all;
  while (!workers.empty()) {
    const std::unique_ptr<Answer> answer = workers.pop();
    if (answer->error) std::rethrow_exception(answer->error);
    for (const FitRow& row : answer->rows) on_row(all.emplace_back(row));
  }
  return all;
}

const FitRow* fastest(std::span<const FitRow> rows) {
  const FitRow* best = nullptr;
  double seconds = std::numeric_limits<double>::infinity();
  for (const FitRow& row : rows)
    if (row.fits) seconds = std::min(seconds, cost_of(row).seconds);
  for (const FitRow& row : rows) {
    if (row.fits && (best == nullptr || is_preferred(cost_of(row), cost_of(*best), seconds))) best = &row;
  }
  return best;
}

}  // namespace spillway
