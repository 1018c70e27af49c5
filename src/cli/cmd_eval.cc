#include "cli/cmd_eval.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "backend/device.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/index.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/config_arguments.h"
#include "cli/exact_eval.h"
#include "cli/generation_arguments.h"
#include "infer/evaluation/choices.h"
#include "infer/scoring/token_scorer.h"
#include "job/training_data.h"
#include "report/progress.h"
#include "text/token_ids.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

struct EvalOptions {
  ModelArguments model;
  std::string config, choices;
  bool json = false, training = false, special = false, plain = false;
};

// Enough for efficient matrix products.
constexpr int64_t kBatchTokens = 2048;

// Keeps the scorer and what it runs on.
class Scoring {
 public:
  Scoring(const EvalOptions& options, infer::InferenceModel model, int64_t tokens, int64_t sequences,
          int64_t sequence_len)
      : device_(open_device(options.model.device)), pool_(available_cpus()) {
    const infer::TokenScorerOptions scoring{.tokens = tokens,
                                            .max_sequences = sequences,
                                            .sequence_len = sequence_len,
                                            .budget = options.model.budget(*device_, "score shorter texts")};
    scorer_.emplace(std::move(model), scoring, pool_, *device_);
  }
  [[nodiscard]] infer::TokenScorer& scorer() { return *scorer_; }

 private:
  std::shared_ptr<Device> device_;
  ThreadPool pool_;
  std::optional<infer::TokenScorer> scorer_;
};

// Texts of a data set.

struct Totals {
  int64_t rows = 0, tokens = 0, targets = 0;
  double log_prob = 0, likeliest = 0, seconds = 0;
};

config::Config read_config(const EvalOptions& options) {
  const ConfigArguments arguments{
      .path = options.config, .overrides = {{"base_model", options.model.model}}, .flags = {}};
  config::Config config = load_config(arguments, config::ConfigUse::kTrain).config;
  if (config.preference || config.online)
    throw input_error(options.config,
                      "expected a config of text, got one of {}; evaluation of preferences and "
                      "rewards is part of `spillway train`",
                      config.preference ? config.preference->name : config.online->name);
  if (config.data.stream)
    throw input_error(options.config, "expected rows that are read as a whole, got streaming; set streaming: false");
  // --adapter decides, except for LoftQ's bits, in which the base of its layers is stored.
  const std::optional<int64_t> bits = config.adapter ? config.adapter->loftq_bits : std::nullopt;
  config.adapter.reset();
  if (bits) config.adapter.emplace().loftq_bits = bits;
  return config;
}

// Scores the validation rows; if there are none, or the user asks for them, the training rows.
Totals score_rows(const EvalOptions& options, const config::Config& config, Progress& progress) {
  infer::InferenceModel model = infer::read_inference_model(options.model.model, options.model.adapter, &config);
  train::check_data_files(config.data);
  progress.say("reading the data");
  const train::TrainingData data =
      train::load_training_data(config.data, config.tokenizer, model.model->text()->vocab_size);
  const bool trains = options.training || data.validation.empty();
  if (trains && !options.training)
    log_info("no rows for validation (val_set_size, test_datasets): these are the rows of training");
  const data::RowTable& rows = trains ? data.training : data.validation;
  data::BatchOptions batches = config.data.evaluation_batches;
  batches.order = data::RowOrder::kFile;
  batches.drops_last = false;
  if (trains) batches.sequence_len = config.data.batches.sequence_len;
  const data::EpochPlan plan = plan_epoch(rows, batches, 0);
  const int64_t tokens = batches.rows * batches.sequence_len;
  Scoring scoring(options, std::move(model), tokens, std::max<int64_t>(1, tokens), batches.sequence_len);
  Totals totals{.rows = rows.size()};
  const double start = now_seconds();
  const int64_t together = scoring.scorer().together();
  for (int64_t first = 0; first < plan.micro_batches(); first += together) {
    std::vector<data::MicroBatch> group(static_cast<size_t>(std::min(together, plan.micro_batches() - first)));
    for (size_t i = 0; i < group.size(); ++i)
      fill_micro_batch(group[i], rows, plan.micro_batch(first + static_cast<int64_t>(i)));
    for (const infer::TokenScores& scores : scoring.scorer().score(group)) {
      for (const float one : scores.log_probs) totals.log_prob += one;
      for (const float one : scores.are_likeliest) totals.likeliest += one;
    }
    for (const data::MicroBatch& batch : group) {
      totals.tokens += batch.tokens();
      totals.targets += batch.targets;
    }
    progress.count(fmt::format("of {} batches", plan.micro_batches()), first + std::ssize(group), now_seconds());
  }
  totals.seconds = now_seconds() - start;
  if (totals.targets == 0) throw input_error("datasets", "expected tokens to predict, got none; add rows");
  return totals;
}

int eval_config(const EvalOptions& options) {
  Progress progress({});
  const Totals totals = score_rows(options, read_config(options), progress);
  progress.clear();
  const auto targets = static_cast<double>(totals.targets);
  const double loss = -totals.log_prob / targets, accuracy = totals.likeliest / targets;
  const double rate = static_cast<double>(totals.tokens) / std::max(1e-9, totals.seconds);
  if (options.json) {
    fmt::print("{}\n", json_text(Json{{"rows", totals.rows},
                                      {"tokens", totals.tokens},
                                      {"targets", totals.targets},
                                      {"loss", loss},
                                      {"perplexity", std::exp(loss)},
                                      {"mean_token_accuracy", accuracy},
                                      {"seconds", totals.seconds},
                                      {"tokens_per_second", rate}},
                                 2));
  } else {
    fmt::print(
        "rows            {}\ntokens          {}, {} of them predicted\nloss            {:.6f}\n"
        "perplexity      {:.4f}\ntoken accuracy  {:.2f} %\nspeed           {:.0f} tokens/s\n",
        totals.rows, totals.tokens, totals.targets, loss, std::exp(loss), 100 * accuracy, rate);
  }
  return kDone;
}

// Choices.

// Scores texts in their order, as many in a batch as there is room for.
class TextScorer {
 public:
  TextScorer(infer::TokenScorer& scorer, int64_t most_tokens) : scorer_(scorer), most_tokens_(most_tokens) {}

  // `add(log_prob, is_greedy)` is called for each text, in order.
  template <typename Add>
  void score(const infer::ScoredText& text, const Add& add) {
    const int64_t length = std::ssize(text.ids) - 1;
    const bool is_full = batches_.empty() || std::ssize(batches_.back().ids) + length > most_tokens_;
    if (is_full && std::ssize(batches_) == scorer_.together()) flush(add);
    if (is_full) batches_.emplace_back().seq_offsets.push_back(0);
    data::MicroBatch& batch = batches_.back();
    for (int64_t i = 0; i < length; ++i) {
      const bool is_label = i + 1 >= text.context;
      batch.ids.push_back(nth(text.ids, i));
      batch.labels.push_back(is_label ? nth(text.ids, i + 1) : data::kIgnoredLabel);
      batch.positions.push_back(static_cast<int32_t>(i));
    }
    batch.seq_offsets.push_back(static_cast<int32_t>(batch.ids.size()));
  }

  template <typename Add>
  void flush(const Add& add) {
    if (batches_.empty()) return;
    const std::span<const infer::TokenScores> scores = scorer_.score(batches_);
    for (size_t i = 0; i < batches_.size(); ++i) add_texts(batches_[i], scores[i], add);
    batches_.clear();
  }

 private:
  template <typename Add>
  static void add_texts(const data::MicroBatch& batch, const infer::TokenScores& scores, const Add& add) {
    for (size_t sequence = 0; sequence + 1 < batch.seq_offsets.size(); ++sequence) {
      double sum = 0;
      bool is_greedy = true;
      for (int32_t i = batch.seq_offsets[sequence]; i < batch.seq_offsets[sequence + 1]; ++i) {
        if (nth(batch.labels, i) == data::kIgnoredLabel) continue;
        sum += nth(scores.log_probs, i);
        is_greedy = is_greedy && nth(scores.are_likeliest, i) != 0;
      }
      add(sum, is_greedy);
    }
  }

  infer::TokenScorer& scorer_;
  int64_t most_tokens_;
  std::vector<data::MicroBatch> batches_;  // of the next run; the last one has room for more
};

std::vector<infer::ChoiceScores> score_choices(infer::TokenScorer& scorer, int64_t tokens,
                                               const std::vector<infer::ChoiceItem>& items, Progress& progress) {
  std::vector<infer::ChoiceScores> scores(items.size());
  size_t item = 0;
  const auto add = [&](double log_prob, bool is_greedy) {
    while (scores[item].log_probs.size() == items[item].texts.size()) ++item;
    scores[item].log_probs.push_back(log_prob);
    scores[item].are_greedy.push_back(is_greedy);
    progress.count(fmt::format("of {} items", items.size()), static_cast<int64_t>(item), now_seconds());
  };
  TextScorer texts(scorer, tokens);
  for (const infer::ChoiceItem& one : items) {
    for (const infer::ScoredText& text : one.texts) texts.score(text, add);
  }
  texts.flush(add);
  return scores;
}

int eval_choices(const EvalOptions& options) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(options.model.tokenizer_folder());
  infer::InferenceModel model = infer::read_inference_model(options.model.model, options.model.adapter);
  const TextModel& text = *model.model->text();
  const std::vector<infer::ChoiceItem> items = infer::read_choices(
      options.choices, tokenizer, {.most_tokens = text.max_position_embeddings, .adds_special_tokens = !options.plain});
  int64_t longest = 0, all = 0;
  for (const infer::ChoiceItem& item : items) {
    for (const infer::ScoredText& one : item.texts) {
      text::check_token_ids(one.ids, text.vocab_size, options.model.model);
      longest = std::max(longest, std::ssize(one.ids) - 1);
      all += std::ssize(one.ids) - 1;
    }
  }
  const int64_t tokens = std::max(longest, std::min(all, kBatchTokens));
  Progress progress({});
  Scoring scoring(options, std::move(model), tokens, tokens, longest);
  const Json result = infer::choices_json(items, score_choices(scoring.scorer(), tokens, items, progress));
  progress.clear();
  if (options.json) {
    fmt::print("{}\n", json_text(result, 2));
    return kDone;
  }
  fmt::print("items      {}\n", items.size());
  for (const char* name : {"acc", "acc_norm", "acc_bytes"}) {
    const Json& deviation = result[std::string(name) + "_stderr"];
    fmt::print("{:<10} {:.4f}{}\n", name, result[name].get<double>(),
               deviation.is_null() ? "" : fmt::format(" +- {:.4f}", deviation.get<double>()));
  }
  return kDone;
}

}  // namespace

int cmd_eval(std::span<const std::string> args) {
  EvalOptions options;
  ExactArguments exact;
  CommandLine line("spillway eval", "Says how well a model predicts data, chooses, or answers questions.");
  options.model.add_to(line);
  line.section("Exactly one of");
  line.option("--config CONFIG.yml", options.config,
              "loss, perplexity and token accuracy over the rows that its training would validate with");
  line.option("--choices FILE.jsonl", options.choices,
              "accuracy of choices by log-likelihood: objects with context, choices and gold");
  line.option("--exact FILE.jsonl", exact.file,
              "share of answers that equal a target: objects with prompt or messages, and target");
  line.exactly_one_of({"--config", "--choices", "--exact"});
  line.section("What is scored");
  line.flag("--training-rows", options.training, "with --config: the rows that are trained on");
  line.flag("--no-special", options.plain, "with --choices: without the special tokens that the tokenizer adds");
  line.flag("--special", options.special, "with --choices: with them, which is the default");
  exact.add_to(line);
  line.section("Output");
  line.flag("--json", options.json, "print one JSON document");
  line.example("spillway eval ./base --adapter ./model-out --config config.yml");
  line.example("spillway eval ./model --choices questions.jsonl --json");
  line.example("spillway eval ./model --exact sums.jsonl --extract '-?[0-9]+' --match -1");
  if (!line.parse(args)) return kDone;
  if (options.training && options.config.empty())
    throw input_error("--training-rows", "expected it with --config, got it alone; remove it");
  for (const auto& [name, is_given] : {std::pair("--special", options.special), {"--no-special", options.plain}})
    if (is_given && options.choices.empty())
      throw input_error(name, "expected it with --choices, got it alone; remove it");
  if (options.special && options.plain)
    throw input_error("--special", "expected it without --no-special, got both; remove one");
  if (exact.file.empty() && !exact.given().empty())
    throw input_error(exact.given(), "expected it with --exact, got it alone; remove it");
  if (!exact.file.empty()) return eval_exact(options.model, exact, options.json);
  return options.config.empty() ? eval_choices(options) : eval_config(options);
}

}  // namespace spillway
