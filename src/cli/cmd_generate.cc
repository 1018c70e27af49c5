#include "cli/cmd_generate.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/json_field.h"
#include "base/log.h"
#include "cli/chat_prompt.h"
#include "cli/checked_text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/generation_arguments.h"
#include "config/nearest_key.h"
#include "io/file.h"
#include "io/json_lines.h"
#include "text/grammar/json_schema.h"
#include "text/grammar/token_grammar.h"
#include "text/token_ids.h"
#include "text/tokenizer.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

struct GenerateOptions {
  ModelArguments model;
  std::string prompt, messages, lines, json_schema;
  bool json = false, json_lines = false, logprobs = false;
  SamplingArguments choice;
};

void check_ids(const std::vector<int32_t>& ids, std::string_view where) {
  if (ids.empty()) throw input_error(where, "expected a prompt of at least one token, got none; write something");
}

// Throws InputError for a field that is likely to mean an option. Others, such as prompt_id, are columns of the user's.
void check_names(const JsonField& line, const std::string& where) {
  constexpr std::string_view kOptions[] = {
      "max_new_tokens",   "temperature",      "top_p", "top_k", "min_p", "repetition_penalty",
      "presence_penalty", "frequency_penalty"};
  for (const auto& [name, field] : line.members()) {
    const std::string_view meant = config::nearest_key(name, kOptions);
    if (!meant.empty() && meant != name)
      throw input_error(where, "expected names of options, got '{}'; write '{}', or remove it", name, meant);
  }
}

std::optional<double> number_of(const JsonField& field, double least, double most) {
  return field.is_null() ? std::nullopt : std::optional(field.real(least, most));
}

// An object a line: `prompt` or `messages`, and what differs from the options.
std::vector<infer::Prompt> read_lines(const GenerateOptions& options, const text::Tokenizer& tokenizer) {
  std::optional<text::ChatTemplates> chats;
  text::LeftOutWarnings warnings;
  std::vector<infer::Prompt> prompts;
  each_line(options.lines, [&](std::string_view text, const std::string& where) {
    if (text.empty()) return;
    const JsonDocument document(text, where);
    const JsonField line = document.root();
    if (line.has("prompt") == line.has("messages"))
      throw input_error(where, "expected either 'prompt' or 'messages', got {}; give one of them",
                        line.has("prompt") ? "both" : "neither");
    check_names(line, where);
    infer::Prompt prompt;
    if (line.has("prompt")) {
      prompt.ids = tokenizer.encode(line["prompt"].string(), true);
    } else {
      if (!chats) chats.emplace(text::chat_templates_of(tokenizer, options.model.model));
      prompt.ids = tokenizer.encode(render_prompt(text, *chats, tokenizer, where, warnings), false);
    }
    const infer::Sampling& sampling = options.choice.sampling;
    prompt.sampling = {
        .max_new_tokens = line["max_new_tokens"].integer_or(sampling.max_new_tokens, 1, kMaxNewTokens),
        .temperature = line["temperature"].real_or(sampling.temperature, 0, kMaxTemperature),
        .top_p = line["top_p"].real_or(sampling.top_p, 0, 1),
        .top_k = line["top_k"].integer_or(sampling.top_k, 0, kMaxTopK),
        .min_p = line["min_p"].real_or(sampling.min_p, 0, 1),
        .seed = static_cast<uint64_t>(line["seed"].integer_or(static_cast<int64_t>(sampling.seed), 0, INT64_MAX))};
    prompt.repetition =
        number_of(line["repetition_penalty"], infer::kMinRepetitionPenalty, infer::kMaxRepetitionPenalty);
    prompt.frequency = number_of(line["frequency_penalty"], -infer::kMaxAnswerPenalty, infer::kMaxAnswerPenalty);
    prompt.presence = number_of(line["presence_penalty"], -infer::kMaxAnswerPenalty, infer::kMaxAnswerPenalty);
    check_ids(prompt.ids, where);
    prompts.push_back(std::move(prompt));
  });
  return prompts;
}

std::vector<infer::Prompt> read_prompts(const GenerateOptions& options, const text::Tokenizer& tokenizer) {
  std::vector<infer::Prompt> prompts;
  if (!options.lines.empty()) {
    prompts = read_lines(options, tokenizer);
  } else if (options.messages.empty()) {
    check_text(options.prompt, "--prompt");
    prompts.push_back({tokenizer.encode(options.prompt, true), options.choice.sampling});
  } else {
    for (const std::string& text : render_prompts(options.messages, options.json_lines, tokenizer, options.model.model))
      prompts.push_back({tokenizer.encode(text, false), options.choice.sampling});
  }
  for (const infer::Prompt& prompt : prompts) check_ids(prompt.ids, "spillway generate");
  return prompts;
}

Json generated_json(const GenerateOptions& options, const text::Tokenizer& tokenizer,
                    const std::vector<int32_t>& prompt, const infer::Generated& result) {
  Json json = {{"text", tokenizer.decode(result.ids, true)},
               {"ids", result.ids},
               {"prompt_ids", prompt},
               {"finish_reason", result.stopped ? "stop" : "length"}};
  if (options.logprobs) json["logprobs"] = result.logprobs;
  return json;
}

// Returns the grammar of --json-schema; null without it.
std::shared_ptr<text::TokenGrammar> grammar_of(const GenerateOptions& options, const text::Tokenizer& tokenizer) {
  if (options.json_schema.empty()) return nullptr;
  constexpr int64_t kMaxBytes = 8 << 20;
  const auto schema = parse_json<Json>(read_file(options.json_schema, kMaxBytes), options.json_schema);
  if (schema.is_discarded())
    throw input_error(options.json_schema, "expected a JSON schema, got text that is not JSON; correct the file");
  return text::token_grammar(tokenizer, text::json_schema_grammar(schema, options.json_schema), "--json-schema");
}

void print_json(const GenerateOptions& options, const text::Tokenizer& tokenizer, infer::Generator& generator,
                std::span<const infer::Prompt> prompts, std::shared_ptr<text::TokenGrammar> grammar) {
  const auto print = [&](size_t i, const infer::Generated& answer) {
    fmt::print("{}\n", json_text(generated_json(options, tokenizer, prompts[i].ids, answer), options.json ? 2 : -1));
    std::fflush(stdout);
  };
  (void)generator.generate(prompts, {.stop_ids = tokenizer.stop_ids(),
                                     .logprobs = options.logprobs,
                                     .grammar = std::move(grammar),
                                     .on_answer = print});
}

// At a terminal, shows the text as it grows.
void print_text(const text::Tokenizer& tokenizer, infer::Generator& generator, const infer::Prompt& prompt,
                std::shared_ptr<text::TokenGrammar> grammar) {
  text::Tokenizer::StreamDecoder decoder(tokenizer, true);
  const auto print = [&](size_t, int32_t id) {
    fmt::print("{}", decoder.push(id));
    if (isatty(STDOUT_FILENO)) std::fflush(stdout);
  };
  (void)generator.generate({&prompt, 1},
                           {.stop_ids = tokenizer.stop_ids(), .grammar = std::move(grammar), .on_token = print});
  fmt::print("{}\n", decoder.finish());
}

// Warns of a prompt that reaches positions behind those that the model was made for.
void warn_of_context(std::span<const infer::Prompt> prompts, int64_t context) {
  for (const infer::Prompt& prompt : prompts) {
    if (context <= 0 || prompt.sequence_tokens() <= context) continue;
    log_warning(
        "a prompt of {} tokens and --max-new-tokens {} are beyond max_position_embeddings, {}: no position behind "
        "that was trained",
        prompt.ids.size(), prompt.sampling.max_new_tokens, context);
    return;
  }
}

}  // namespace

int cmd_generate(std::span<const std::string> args) {
  GenerateOptions options;
  CommandLine line("spillway generate", "Continues a text, or answers a conversation.");
  options.model.add_to(line);
  line.section("Exactly one of");
  line.option("--prompt TEXT", options.prompt, "the text to continue");
  line.option("--messages FILE.json", options.messages, "a list of messages, or an object with messages, tools, ...");
  line.option("--lines FILE.jsonl", options.lines,
              "many prompts: objects with prompt or messages, and what differs from the options; with --json-lines");
  line.exactly_one_of({"--prompt", "--messages", "--lines"});
  options.choice.add_to(line);
  line.section("Output");
  line.option("--json-schema FILE.json", options.json_schema,
              "each answer is a JSON document that is valid under this schema");
  line.flag("--json", options.json, "print one JSON document");
  line.flag("--json-lines", options.json_lines,
            "a file of prompts holds one a line; print one JSON document for each, as if it were alone");
  line.flag("--logprobs", options.logprobs, "with --json: the log-probability of each token");
  line.example("spillway generate ./base --adapter ./model-out --prompt 'The capital of France is'");
  line.example("spillway generate ./model --lines prompts.jsonl --json-lines");
  line.example("spillway generate ./model --messages chat.json --temperature 0.7 --top-p 0.9");
  line.example("spillway generate ./model --messages chat.json --json-schema person.json");
  if (!line.parse(args)) return kDone;

  if (!options.lines.empty() && !options.json_lines)
    throw input_error("--lines", "expected it with --json-lines, got it alone; give both");

  const text::Tokenizer tokenizer = text::Tokenizer::load(options.model.tokenizer_folder());
  const std::vector<infer::Prompt> prompts = read_prompts(options, tokenizer);
  std::shared_ptr<text::TokenGrammar> grammar = grammar_of(options, tokenizer);
  if (prompts.empty()) return kDone;
  std::vector<int64_t> lengths;
  int64_t longest = 0;
  for (const infer::Prompt& prompt : prompts) {
    lengths.push_back(prompt.sequence_tokens());
    longest = std::max(longest, prompt.sampling.max_new_tokens);
  }
  LoadedModel loaded(options.model, options.choice,
                     infer::generation_sizes(std::move(lengths), infer::kMaxSequences, longest));
  infer::Generator& generator = loaded.generator();
  for (const infer::Prompt& prompt : prompts)
    text::check_token_ids(prompt.ids, generator.text().vocab_size, options.model.model);
  warn_of_context(prompts, generator.text().max_position_embeddings);
  if (options.json || options.json_lines) {
    print_json(options, tokenizer, generator, prompts, std::move(grammar));
  } else {
    print_text(tokenizer, generator, prompts.front(), std::move(grammar));
  }
  return kDone;
}

}  // namespace spillway
