#include "cli/exact_eval.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_field.h"
#include "base/log.h"
#include "cli/chat_prompt.h"
#include "cli/commands.h"
#include "infer/evaluation/exact_match.h"
#include "infer/evaluation/share.h"
#include "io/json_lines.h"
#include "io/output_folder.h"
#include "io/step_lines.h"
#include "report/progress.h"
#include "serve/answer_text.h"
#include "text/conversation.h"
#include "text/token_ids.h"
#include "text/tokenizer.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

struct ExactItem {
  infer::Prompt prompt;
  std::vector<std::string> targets, stops;
  std::string where;
};

// Without a pattern nothing is looked for, so that these would do nothing.
void check_belongs_to_extract(const ExactArguments& arguments) {
  if (!arguments.extract.empty()) return;
  const ExactArguments defaults;
  for (const auto& [is_given, name] : {std::pair{arguments.match != defaults.match, "--match"},
                                       {arguments.fallback != defaults.fallback, "--fallback"}}) {
    if (is_given) throw input_error(name, "expected it with --extract, got it alone; give a pattern, or remove it");
  }
}

infer::ExactRules rules_of(const ExactArguments& arguments) {
  check_belongs_to_extract(arguments);
  infer::ExactRules rules{.match = arguments.match,
                          .fallback = arguments.fallback,
                          .strips = arguments.strips,
                          .ignores_case = arguments.ignores_case,
                          .ignores_punctuation = arguments.ignores_punctuation,
                          .ignores_numbers = arguments.ignores_numbers};
  if (!arguments.extract.empty()) rules.extract.emplace(arguments.extract, "--extract");
  for (const std::string& pattern : arguments.ignored) rules.ignored.emplace_back(pattern, "--ignore-regex");
  return rules;
}

// A text, a whole number, or a list of them.
std::vector<std::string> texts(const JsonField& field, std::string_view what) {
  const auto text = [&](const JsonField& one) {
    if (one.is_string()) return one.string();
    if (!one.is_null() && !one.is_object() && !one.is_array())
      return std::to_string(one.integer(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
    throw one.bad(what, "write it as one");
  };
  if (!field.is_array()) return {text(field)};
  std::vector<std::string> all;
  for (const JsonField& one : field.elements()) all.push_back(text(one));
  return all;
}

class ItemReader {
 public:
  ItemReader(const ExactArguments& arguments, const text::Tokenizer& tokenizer, const ModelArguments& model,
             const TextModel& text)
      : arguments_(arguments), tokenizer_(tokenizer), model_(model), text_(text) {}

  std::vector<ExactItem> read() {
    std::vector<ExactItem> items;
    each_line(arguments_.file, [&](std::string_view text, const std::string& where) {
      if (text.find_first_not_of(" \t\r") != std::string_view::npos) items.push_back(item(text, where));
    });
    if (items.empty()) throw input_error(arguments_.file, "expected an item a line, got none; write some");
    if (cut_ > 0)
      log_warning(
          "{} prompts are longer than the {} tokens that the model reads, less those of the answer: they lose "
          "their beginning",
          cut_, text_.max_position_embeddings);
    return items;
  }

 private:
  ExactItem item(std::string_view text, const std::string& where) {
    const JsonDocument document(text, where);
    const JsonField line = document.root();
    if (line.has("prompt") == line.has("messages"))
      throw input_error(where, "expected either 'prompt' or 'messages', got {}; give one of them",
                        line.has("prompt") ? "both" : "neither");
    ExactItem item{.where = where};
    const JsonField target = member(line, {"target", "targets"});
    item.targets = texts(target, "a text, or a list of texts");
    if (item.targets.empty()) throw target.bad("at least one text", "write what is right");
    const JsonField stop = member(line, {"stop", "until"});
    item.stops = stop.is_null() ? arguments_.stops : texts(stop, "a text, or a list of texts");
    for (const std::string& one : item.stops) {
      if (one.empty())
        throw input_error(stop.is_null() ? "--stop" : stop.where(), "expected texts, got an empty one; remove it");
    }
    item.prompt.sampling.temperature = 0;
    item.prompt.sampling.max_new_tokens =
        member(line, {"max_new_tokens", "max_gen_toks"}).integer_or(arguments_.max_new_tokens, 1, kMaxNewTokens);
    item.prompt.ids = line.has("prompt")
                          ? encoded(line["prompt"].string())
                          : tokenizer_.encode(render_prompt(text, chats(), tokenizer_, where, warnings_), false);
    fit(item);
    return item;
  }

  // A prompt that begins with the token that begins texts gets no second one.
  std::vector<int32_t> encoded(const std::string& prompt) const {
    const std::string bos = tokenizer_.bos_token();
    return tokenizer_.encode(prompt, bos.empty() || !prompt.starts_with(bos));
  }

  const text::ChatTemplates& chats() {
    if (!chats_) chats_.emplace(text::chat_templates_of(tokenizer_, model_.model));
    return *chats_;
  }

  // A prompt that leaves no room for the answer loses its beginning.
  void fit(ExactItem& item) {
    std::vector<int32_t>& ids = item.prompt.ids;
    if (ids.empty())
      throw input_error(item.where, "expected a prompt of at least one token, got none; write something");
    text::check_token_ids(ids, text_.vocab_size, model_.model);
    if (text_.max_position_embeddings <= 0) return;
    const int64_t room = text_.max_position_embeddings - item.prompt.sampling.max_new_tokens;
    if (room <= 0)
      throw input_error(item.where,
                        "expected max_new_tokens below the {} tokens that the model reads, got {}; lower it",
                        text_.max_position_embeddings, item.prompt.sampling.max_new_tokens);
    if (std::ssize(ids) <= room) return;
    ids.erase(ids.begin(), ids.end() - room);
    ++cut_;
  }

  const ExactArguments& arguments_;
  const text::Tokenizer& tokenizer_;
  const ModelArguments& model_;
  const TextModel& text_;
  std::optional<text::ChatTemplates> chats_;
  text::LeftOutWarnings warnings_;
  int64_t cut_ = 0;
};

// Generates the answers, and decides for each whether it is right.
class ExactRun {
 public:
  ExactRun(const std::vector<ExactItem>& items, const infer::ExactRules& rules, const text::Tokenizer& tokenizer)
      : items_(items), rules_(rules), tokenizer_(tokenizer) {
    for (const ExactItem& item : items) growing_.emplace_back(tokenizer, item.stops, false);
  }

  // `seen` gets the object of each answer, in order.
  template <typename Seen>
  void answer(infer::Generator& generator, const Seen& seen) {
    std::vector<infer::Prompt> prompts;
    for (const ExactItem& item : items_) prompts.push_back(item.prompt);
    const double start = now_seconds();
    (void)generator.generate(prompts,
                             {.stop_ids = tokenizer_.stop_ids(),
                              .on_answer = [&](size_t i, const infer::Generated& answer) { seen(judged(i, answer)); },
                              .ends_with =
                                  [&](size_t i, int32_t id) {
                                    (void)growing_[i].push(id);
                                    return growing_[i].stopped();
                                  }});
    seconds_ = now_seconds() - start;
  }

  [[nodiscard]] Json summary() const {
    Json json = {{"items", items_.size()}};
    infer::add_share(json, "exact_match", right_, items_.size());
    json["generated_tokens"] = tokens_;
    json["seconds"] = seconds_;
    json["tokens_per_second"] = static_cast<double>(tokens_) / std::max(1e-9, seconds_);
    return json;
  }

 private:
  Json judged(size_t i, const infer::Generated& answer) {
    const ExactItem& item = items_[i];
    const std::string text = infer::cut_at_stops(tokenizer_.decode(answer.ids, true), item.stops);
    const std::string compared = infer::extracted(rules_, text);
    const bool is_right = infer::matches_one(rules_, compared, item.targets);
    right_ += is_right;
    tokens_ += std::ssize(answer.ids);
    return {{"text", text},
            {"extracted", compared},
            {"targets", item.targets},
            {"exact_match", is_right},
            {"finish_reason", answer.stopped ? "stop" : "length"}};
  }

  const std::vector<ExactItem>& items_;
  const infer::ExactRules& rules_;
  const text::Tokenizer& tokenizer_;
  std::vector<serve::AnswerText> growing_;
  int64_t right_ = 0, tokens_ = 0;
  double seconds_ = 0;
};

}  // namespace

void ExactArguments::add_to(CommandLine& line) {
  line.section("Answers, with --exact");
  line.option("--max-new-tokens N", max_new_tokens, "stop after so many, where an item does not say", 1, kMaxNewTokens);
  line.options("--stop TEXT", stops, "an answer ends before it, where an item does not say");
  line.option("--extract REGEX", extract, "compare what it matches (its group) instead of the whole answer");
  line.option("--match N", match, "with --extract: which match, from 0, or from the end: -1",
              std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  line.option("--fallback TEXT", fallback, "with --extract: compare it where nothing matches");
  line.flag("--strip", strips, "without the white space around answers");
  line.options("--ignore-regex REGEX", ignored, "leave what it matches out of answers and targets");
  line.flag("--ignore-case", ignores_case, "compare in lower case");
  line.flag("--ignore-punctuation", ignores_punctuation, "without ASCII punctuation");
  line.flag("--ignore-numbers", ignores_numbers, "without the digits 0 to 9");
  line.option("--out FILE.jsonl", out, "a new file, for each answer as it comes");
}

std::string ExactArguments::given() const {
  const ExactArguments defaults;
  for (const auto& [is_given, name] : {std::pair{max_new_tokens != defaults.max_new_tokens, "--max-new-tokens"},
                                       {!stops.empty(), "--stop"},
                                       {!extract.empty(), "--extract"},
                                       {match != 0, "--match"},
                                       {fallback != defaults.fallback, "--fallback"},
                                       {strips, "--strip"},
                                       {!ignored.empty(), "--ignore-regex"},
                                       {ignores_case, "--ignore-case"},
                                       {ignores_punctuation, "--ignore-punctuation"},
                                       {ignores_numbers, "--ignore-numbers"},
                                       {!out.empty(), "--out"}}) {
    if (is_given) return name;
  }
  return {};
}

int eval_exact(const ModelArguments& model, const ExactArguments& arguments, bool json) {
  const infer::ExactRules rules = rules_of(arguments);
  if (!arguments.out.empty()) check_new_file("--out", arguments.out);
  const text::Tokenizer tokenizer = text::Tokenizer::load(model.tokenizer_folder());
  const ModelPtr read = read_model(model.model);
  const std::vector<ExactItem> items = ItemReader(arguments, tokenizer, model, text_of(*read, model.model)).read();
  std::vector<int64_t> lengths;
  int64_t longest = 0;
  for (const ExactItem& item : items) {
    lengths.push_back(item.prompt.sequence_tokens());
    longest = std::max(longest, item.prompt.sampling.max_new_tokens);
  }
  const SamplingArguments greedy;  // with the model's own penalties, as transformers has them
  LoadedModel loaded(model, greedy, infer::generation_sizes(std::move(lengths), infer::kMaxSequences, longest));
  std::unique_ptr<StepLines> lines;
  if (!arguments.out.empty()) lines = std::make_unique<StepLines>(arguments.out, 0);
  Progress progress({});
  Json answers = Json::array();
  ExactRun run(items, rules, tokenizer);
  run.answer(loaded.generator(), [&](Json answer) {
    if (lines) lines->write(json_text(answer) + "\n");
    answers.push_back(std::move(answer));
    progress.count(fmt::format("of {} items", items.size()), std::ssize(answers), now_seconds());
  });
  progress.clear();
  Json summary = run.summary();
  if (json) {
    summary["answers"] = std::move(answers);
    fmt::print("{}\n", json_text(summary, 2));
    return kDone;
  }
  const Json& deviation = summary["exact_match_stderr"];
  fmt::print("items        {}\nexact match  {:.4f}{}\nspeed        {:.0f} tokens/s\n", items.size(),
             summary["exact_match"].get<double>(),
             deviation.is_null() ? "" : fmt::format(" +- {:.4f}", deviation.get<double>()),
             summary["tokens_per_second"].get<double>());
  return kDone;
}

}  // namespace spillway
