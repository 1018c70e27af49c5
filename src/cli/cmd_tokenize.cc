#include "cli/cmd_tokenize.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/checked_text.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "io/file.h"
#include "io/json_lines.h"
#include "text/chat_template.h"
#include "text/conversation.h"
#include "text/tokenizer.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxInputBytes = int64_t{1} << 30;

struct TokenizeOptions {
  std::string model, text, file, lines, messages;
  bool json = false, json_lines = false, no_special = false, skip_special = false;
};

// One JSON string a line in, one {"ids", "text"} a line out.
void tokenize_lines(const text::Tokenizer& tokenizer, const TokenizeOptions& options) {
  each_line(options.lines, [&](std::string_view text, const std::string& where) {
    const auto line = parse_json<Json>(text, where);
    if (!line.is_string()) {
      throw input_error(where, "expected a JSON string, got something else; write one text a line, in quotes");
    }
    const std::vector<int32_t> ids = tokenizer.encode(line.get_ref<const std::string&>(), !options.no_special);
    fmt::print("{}\n", json_text(Json{{"ids", ids}, {"text", tokenizer.decode(ids, options.skip_special)}}));
  });
}

// 1 for each token that overlaps a {% generation %} block.
std::vector<int> assistant_mask(const text::Tokenizer& tokenizer, const text::ChatTemplate::Rendered& rendered,
                                const std::vector<int32_t>& ids) {
  std::vector<int> mask;
  size_t span = 0;
  for (const auto& [begin, end] : tokenizer.locate(rendered.text, ids)) {
    while (span < rendered.generation_spans.size() && rendered.generation_spans[span].second <= begin) ++span;
    mask.push_back(span < rendered.generation_spans.size() && end > rendered.generation_spans[span].first ? 1 : 0);
  }
  return mask;
}

Json tokenized_messages(const text::Tokenizer& tokenizer, const text::ChatTemplates& chats,
                        const text::ChatInput& input, std::string_view where, text::LeftOutWarnings& warnings) {
  const text::ChatTemplate& chat = chats.for_tools(input.tools);
  const text::ChatTemplate::Rendered rendered = text::render_chat(chat, input);
  warnings.warn(chat, input, rendered.text, where);
  const std::vector<int32_t> ids = tokenizer.encode(rendered.text, false);
  Json result = {{"ids", ids}, {"tokens", Json::array()}, {"text", rendered.text}};
  for (const int32_t id : ids) result["tokens"].push_back(tokenizer.id_to_token(id));
  if (chat.marks_generation()) result["assistant_mask"] = assistant_mask(tokenizer, rendered, ids);
  return result;
}

void tokenize_messages(const text::Tokenizer& tokenizer, const TokenizeOptions& options) {
  const text::ChatInput input =
      text::chat_input(parse_json<Json>(read_file(options.messages, kMaxInputBytes), options.messages), tokenizer,
                       false, options.messages);
  text::LeftOutWarnings warnings;
  const Json result = tokenized_messages(tokenizer, text::chat_templates_of(tokenizer, options.model), input,
                                         options.messages, warnings);
  fmt::print("{}\n", options.json ? json_text(result, 2) : result["text"].get_ref<const std::string&>());
}

// One conversation a line in; a line out for each, with an error where the template refuses it.
void tokenize_message_lines(const text::Tokenizer& tokenizer, const TokenizeOptions& options) {
  const text::ChatTemplates chats = text::chat_templates_of(tokenizer, options.model);
  text::LeftOutWarnings warnings;
  int64_t count = 0, refused = 0;
  each_line(options.messages, [&](std::string_view line, const std::string& where) {
    const text::ChatInput input = text::chat_input(parse_json<Json>(line, where), tokenizer, false, where);
    ++count;
    try {
      fmt::print("{}\n", json_text(tokenized_messages(tokenizer, chats, input, where, warnings)));
    } catch (const InputError& error) {
      ++refused;
      fmt::print("{}\n", json_text(Json{{"error", error.what()}}));
    }
  });
  if (refused > 0) {
    throw input_error(options.messages,
                      "expected conversations that the template takes, got {} of {} that it refuses; "
                      "see their lines",
                      refused, count);
  }
}

void tokenize_text(const text::Tokenizer& tokenizer, const TokenizeOptions& options) {
  const std::string text = options.file.empty() ? options.text : read_file(options.file, kMaxInputBytes);
  check_text(text, options.file.empty() ? "--text" : options.file);
  const std::vector<int32_t> ids = tokenizer.encode(text, !options.no_special);
  std::vector<std::string> tokens;
  for (const int32_t id : ids) tokens.push_back(tokenizer.id_to_token(id));
  if (options.json) {
    const std::string decoded = tokenizer.decode(ids, options.skip_special);
    fmt::print("{}\n", json_text(Json{{"ids", ids}, {"tokens", tokens}, {"text", decoded}}, 2));
    return;
  }
  for (size_t i = 0; i < ids.size(); ++i) fmt::print("{:>7}  {}\n", ids[i], json_text(Json(tokens[i])));
}

}  // namespace

int cmd_tokenize(std::span<const std::string> args) {
  TokenizeOptions options;
  CommandLine line("spillway tokenize", "Shows the tokens of a text, as a model's tokenizer.json makes them.");
  line.model(options.model, "the model folder, of which tokenizer.json is enough", hub::FolderUse::kTokenizer);
  line.section("Exactly one of");
  line.option("--text TEXT", options.text, "this text");
  line.option("--file FILE", options.file, "the text of a file");
  line.option("--messages FILE.json", options.messages,
              "a conversation: a list of messages, or an object with them; with --json-lines one on each line");
  line.option("--lines FILE.jsonl", options.lines, "many texts, one JSON string a line; with --json-lines");
  line.exactly_one_of({"--text", "--file", "--messages", "--lines"});
  line.section("Special tokens");
  line.flag("--no-special", options.no_special, "add none, such as BOS");
  line.flag("--skip-special", options.skip_special, "leave them out of the decoded text");
  line.section("Output");
  line.flag("--json", options.json, R"(print {"ids", "tokens", "text"})");
  line.flag("--json-lines", options.json_lines, R"(print {"ids", "text"} for each line)");
  line.example("spillway tokenize ./model --text 'Hello world'");
  line.example("spillway tokenize ./model --messages chat.json --json");
  if (!line.parse(args)) return kDone;
  if (options.json_lines ? options.lines.empty() && options.messages.empty() : !options.lines.empty()) {
    throw input_error("--json-lines",
                      "expected it with --lines, or with --messages, got one without the other; give both");
  }

  const text::Tokenizer tokenizer = text::Tokenizer::load(options.model);
  if (!options.lines.empty()) {
    tokenize_lines(tokenizer, options);
  } else if (options.json_lines) {
    tokenize_message_lines(tokenizer, options);
  } else if (!options.messages.empty()) {
    tokenize_messages(tokenizer, options);
  } else {
    tokenize_text(tokenizer, options);
  }
  return kDone;
}

}  // namespace spillway
