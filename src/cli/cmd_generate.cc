#include "cli/cmd_generate.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "backend/device.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/chat_prompt.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "text/tokenizer.h"
#include "train/generator.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model, adapter, prompt, messages, device = "auto";
  bool json = false, json_lines = false, logprobs = false;
  train::Sampling sampling;
};

// An adapter may have brought tokens and a chat template along.
std::filesystem::path tokenizer_folder(const Options& options) {
  const bool brings_one = !options.adapter.empty() &&
                          std::filesystem::is_regular_file(std::filesystem::path(options.adapter) / "tokenizer.json");
  return brings_one ? options.adapter : options.model;
}

// The token ids of each prompt to answer.
std::vector<std::vector<int32_t>> read_prompts(const Options& options, const text::Tokenizer& tokenizer) {
  std::vector<std::vector<int32_t>> prompts;
  if (options.messages.empty()) {
    prompts.push_back(tokenizer.encode(options.prompt, true));
  } else {
    for (const std::string& text : render_prompts(options.messages, options.json_lines, tokenizer, options.model)) {
      prompts.push_back(tokenizer.encode(text, false));
    }
  }
  for (const std::vector<int32_t>& prompt : prompts) {
    if (prompt.empty())
      throw input_error("spillway generate", "expected a prompt of at least one token, got none; write something");
  }
  return prompts;
}

Json to_json(const Options& options, const text::Tokenizer& tokenizer, const std::vector<int32_t>& prompt,
             const train::Generated& result) {
  Json json = {{"text", tokenizer.decode(result.ids, true)},
               {"ids", result.ids},
               {"prompt_ids", prompt},
               {"finish_reason", result.stopped ? "stop" : "length"}};
  if (options.logprobs) json["logprobs"] = result.logprobs;
  return json;
}

// Answers one prompt and writes the result; a terminal sees the text as it grows.
void answer(const Options& options, const text::Tokenizer& tokenizer, train::Generator& generator,
            const std::vector<int32_t>& prompt) {
  text::Tokenizer::StreamDecoder decoder(tokenizer, true);
  const bool streams = !options.json && !options.json_lines;
  const auto on_token = [&](int32_t id) {
    if (!streams) return;
    fmt::print("{}", decoder.push(id));
    if (isatty(STDOUT_FILENO)) std::fflush(stdout);
  };
  const train::Generated result = generator.generate(prompt, tokenizer.stop_ids(), options.sampling, on_token);
  if (streams) {
    fmt::print("{}\n", decoder.finish());
  } else {
    fmt::print("{}\n", json_text(to_json(options, tokenizer, prompt, result), options.json ? 2 : -1));
    std::fflush(stdout);
  }
}

void check_tokens(const std::vector<std::vector<int32_t>>& prompts, int64_t vocab_size, const std::string& model) {
  for (const std::vector<int32_t>& prompt : prompts) {
    const int32_t largest = *std::max_element(prompt.begin(), prompt.end());
    if (largest < vocab_size) continue;
    throw input_error(model,
                      "expected token ids below vocab_size {}, got {}; use the tokenizer that belongs to the model",
                      vocab_size, largest);
  }
}

}  // namespace

int cmd_generate(std::span<const std::string> args) {
  Options options;
  CommandLine line("spillway generate", "Continues a text, or answers a conversation.");
  line.required("MODEL", options.model, "the model folder");
  line.option("--adapter FOLDER", options.adapter, "a PEFT adapter for it");
  line.option("--device NAME", options.device,
              "where it computes: auto (a GPU where there is one), cpu, cuda or cuda:N");
  line.section("Exactly one of");
  line.option("--prompt TEXT", options.prompt, "the text to continue");
  line.option("--messages FILE.json", options.messages, "a list of messages, or an object with messages, tools, ...");
  line.exactly_one_of({"--prompt", "--messages"});
  line.section("Sampling");
  line.option("--max-new-tokens N", options.sampling.max_new_tokens, "stop after so many", 1, 1 << 20);
  line.option("--temperature T", options.sampling.temperature, "0 takes the most likely token", 0.0, 100.0);
  line.option("--top-p P", options.sampling.top_p, "only from the most likely tokens that together reach P", 0.0, 1.0);
  line.option("--top-k K", options.sampling.top_k, "only from the K most likely tokens; 0 from all", 0, 1 << 30);
  line.option("--seed N", options.sampling.seed, "another one samples another text");
  line.section("Output");
  line.flag("--json", options.json, "print one JSON document");
  line.flag("--json-lines", options.json_lines,
            "--messages holds one conversation a line; print one JSON document for each");
  line.flag("--logprobs", options.logprobs, "with --json: the log-probability of each token");
  line.example("spillway generate ./base --adapter ./model-out --prompt 'The capital of France is'");
  line.example("spillway generate ./model --messages chat.json --temperature 0.7 --top-p 0.9");
  if (!line.parse(args)) return kDone;

  const text::Tokenizer tokenizer = text::Tokenizer::load(tokenizer_folder(options));
  const std::vector<std::vector<int32_t>> prompts = read_prompts(options, tokenizer);
  size_t longest = 0;
  for (const std::vector<int32_t>& prompt : prompts) longest = std::max(longest, prompt.size());
  ThreadPool pool(available_cpus());
  const std::shared_ptr<Device> device = open_device(options.device);
  train::Generator generator(options.model, options.adapter,
                             static_cast<int64_t>(longest) + options.sampling.max_new_tokens, pool, *device);
  check_tokens(prompts, generator.config().vocab_size, options.model);
  for (const std::vector<int32_t>& prompt : prompts) answer(options, tokenizer, generator, prompt);
  return kDone;
}

}  // namespace spillway
