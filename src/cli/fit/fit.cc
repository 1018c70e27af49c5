#include "cli/fit/fit.h"

#include <algorithm>

#include "train/job.h"

namespace spillway {
namespace {

// Of how many rows micro-batches are tried: what the user says, else powers of two.
std::vector<int64_t> row_counts(const FitQuestion& question) {
  const auto is_said = [](const config::ConfigOverride& one) {
    return one.key == "micro_batch_size" || one.key == "micro-batch-size";
  };
  if (std::any_of(question.overrides.begin(), question.overrides.end(), is_said)) return {1};
  std::vector<int64_t> counts;
  for (int64_t rows = 1; rows <= kMostFitRows; rows *= 2) counts.push_back(rows);
  return counts;
}

// More rows have to make a step faster a token by this share: they take memory that other programs may want.
constexpr double kWorthMoreRows = 1.03;

void set_speed(double step_seconds, double tokens, FitRow& row) {
  row.step_seconds = step_seconds;
  row.tokens_per_second = tokens / step_seconds;
}

// For each share of the device memory the fastest plan of this job; one row where the whole is too little.
std::vector<FitRow> rows_of(const train::Job& job, const Machine& machine) {
  std::vector<FrontierPoint> frontier;
  const train::PlannedJob planned =
      train::plan_job(job, machine, train::build_training_graph(*job.model, job.graph), &frontier);
  const PlanContext& context = planned.context;
  const auto tokens = static_cast<double>(planned.training.graph.tokens() * context.micro_batches());
  FitRow whole{.micro_batch_size = job.config.batches.micro_batch_size,
               .budget = job.budget,
               .fits = planned.plan.fits && train::shortage_beside(planned).empty(),
               .title = job.title};
  set_speed(context.step_seconds(planned.plan.simulation), tokens, whole);
  for (size_t i = 0; i < kBudgetedTiers; ++i) {
    whole.peak_bytes[i] = train::peak_bytes(planned, static_cast<Tier>(i));
    whole.missing_bytes[i] = planned.plan.missing_bytes[i];
  }
  std::vector<FitRow> rows = {whole};
  for (size_t i = 1; whole.fits && job.budget.device && i < kFitShares.size(); ++i) {
    FitRow row = whole;
    row.budget.device = static_cast<int64_t>(static_cast<double>(*job.budget.device) * kFitShares[i]);
    row.fits = whole.peak_bytes[0] <= *row.budget.device;
    for (const FrontierPoint& point : frontier) {
      const double seconds = context.step_seconds(point);
      if (point.bytes[0] > *row.budget.device || (row.fits && seconds >= row.step_seconds)) continue;
      row.fits = true;
      set_speed(seconds, tokens, row);
      std::copy_n(point.bytes.begin(), kBudgetedTiers, row.peak_bytes.begin());
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::string fit_config(std::string_view base_model, const FitMethod& method, int64_t micro_batch_size) {
  return fmt::format(
      "base_model: {}\n"
      "datasets:\n"
      "  - path: data.jsonl\n"
      "    type: chat_template\n"
      "sequence_len: 2048\n"
      "sample_packing: true\n"
      "micro_batch_size: {}\n"
      "gradient_accumulation_steps: {}\n"
      "num_epochs: 1\n"
      "{}"
      "lr_scheduler: cosine\n"
      "warmup_ratio: 0.03\n"
      "bf16: true\n"
      "memory:\n"
      "  disk: 80%\n"
      "output_dir: out\n",
      base_model, micro_batch_size, kMostFitRows / micro_batch_size, method.keys);
}

std::vector<FitRow> fit_rows(const FitQuestion& question, const FitMethod& method,
                             const std::function<void(int64_t)>& on_rows) {
  std::vector<FitRow> best;
  for (const int64_t count : row_counts(question)) {
    on_rows(count);
    const config::LoadedConfig loaded = config::load_config(fit_config(question.model_folder, method, count), "--model",
                                                            question.overrides, config::ConfigUse::kTrain);
    std::vector<FitRow> rows = rows_of(train::make_job(loaded.config, question.machine), question.machine);
    bool is_better = best.empty();
    if (is_better) best = rows;
    for (size_t i = 0; i < std::min(best.size(), rows.size()); ++i) {
      if (!rows[i].fits || rows[i].tokens_per_second < kWorthMoreRows * best[i].tokens_per_second) continue;
      best[i] = rows[i];
      is_better = true;
    }
    if (!is_better || !rows.front().fits) break;
  }
  for (FitRow& row : best) row.method = method.name;
  return best;
}

const FitRow* fastest(std::span<const FitRow> rows) {
  const FitRow* best = nullptr;
  for (const FitRow& row : rows) {
    if (row.fits && (best == nullptr || row.tokens_per_second > best->tokens_per_second)) best = &row;
  }
  return best;
}

}  // namespace spillway
