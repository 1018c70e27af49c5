#include "serve/tool_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"

namespace spillway::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kHermesOpen = "<tool_call>", kHermesClose = "</tool_call>", kPythonTag = "<|python_tag|>",
                           kMistralCalls = "[TOOL_CALLS]", kMistralArguments = "[ARGS]", kBlank = " \t\r\n";

size_t first_of_text(std::string_view text, size_t from = 0) {
  return std::min(text.find_first_not_of(kBlank, from), text.size());
}

// Returns the end of the object or list that begins at `begin`; npos if it is not complete.
size_t end_of_json(std::string_view text, size_t begin) {
  int depth = 0;
  bool is_in_string = false;
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (is_in_string) {
      if (c == '\\') ++i;
      is_in_string = c != '"';
    } else if (c == '"') {
      is_in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

std::optional<Json> parsed(std::string_view text) {
  try {
    Json json = parse_json<Json>(text, "answer");
    if (!json.is_discarded()) return json;
  } catch (const InputError&) {  // nested too deeply
  }
  return std::nullopt;
}

// Returns the call of an object with a name, and arguments as an object or as its text; none of anything else.
std::optional<ToolCall> call_of(const std::optional<Json>& json) {
  if (!json || !json->is_object() || !json->contains("name") || !json->at("name").is_string()) return std::nullopt;
  Json arguments = Json::object();
  for (const char* name : {"arguments", "parameters"}) {
    if (json->contains(name)) arguments = json->at(name);
  }
  if (arguments.is_string()) arguments = parsed(arguments.get<std::string>()).value_or(nullptr);
  if (!arguments.is_object()) return std::nullopt;
  return ToolCall{json->at("name"), json_text(arguments)};
}

}  // namespace

ToolFormat tool_format_of(std::string_view chat_template) {
  const auto has = [&](std::string_view text) { return chat_template.find(text) != std::string_view::npos; };
  if (has(kMistralCalls)) return ToolFormat::kMistral;
  if (has(kHermesOpen)) return has("<function=") || has("<arg_key>") ? ToolFormat::kNone : ToolFormat::kHermes;
  const bool is_llama = has(kPythonTag) || (has("ipython") && has("\"parameters\": "));
  return is_llama ? ToolFormat::kLlama3 : ToolFormat::kNone;
}

std::vector<std::string> marks_of(ToolFormat format) {
  switch (format) {
    case ToolFormat::kNone:
      return {};
    case ToolFormat::kHermes:
      return {std::string(kHermesOpen), std::string(kHermesClose)};
    case ToolFormat::kLlama3:
      return {std::string(kPythonTag)};
    case ToolFormat::kMistral:
      return {std::string(kMistralCalls), std::string(kMistralArguments)};
  }
  return {};
}

std::vector<int32_t> special_marks(const text::Tokenizer& tokenizer, ToolFormat format) {
  std::vector<int32_t> ids;
  for (const std::string& mark : marks_of(format)) {
    const std::optional<int32_t> id = tokenizer.token_to_id(mark);
    if (id && tokenizer.is_special(*id)) ids.push_back(*id);
  }
  return ids;
}

const Json& function_of(const Json& tool) {
  return tool.is_object() && tool.contains("function") ? tool["function"] : tool;
}

std::string function_name(const Json& tool) {
  const Json& function = function_of(tool);
  const bool has_name = function.is_object() && function.contains("name") && function["name"].is_string();
  return has_name ? function["name"].get<std::string>() : std::string();
}

namespace {

// Returns the schema of a function's arguments: any object where it has none.
Json arguments_schema(const Json& tool) {
  const Json& function = function_of(tool);
  const bool has_schema = function.contains("parameters") && !function["parameters"].empty();
  return has_schema ? function["parameters"] : Json{{"type", "object"}};
}

}  // namespace

text::FramedDocuments forced_calls(ToolFormat format, std::string_view chat_template, const std::vector<Json>& tools,
                                   bool is_one, std::string_view where) {
  text::FramedDocuments calls{.is_one = is_one};
  const bool is_named = format == ToolFormat::kMistral && chat_template.find(kMistralArguments) != std::string::npos;
  switch (format) {
    case ToolFormat::kNone:
      break;
    case ToolFormat::kHermes:
      calls.separator = "\n";
      break;
    case ToolFormat::kLlama3:
      calls.separator = "; ";
      break;
    case ToolFormat::kMistral:
      if (!is_named) {
        const std::string spaced = fmt::format("{} [", kMistralCalls);
        const bool has_space = chat_template.find(spaced) != std::string_view::npos;
        calls.open = has_space ? spaced : fmt::format("{}[", kMistralCalls);
        calls.separator = ", ";
        calls.close = "]";
      }
      break;
  }
  const std::string_view arguments = format == ToolFormat::kLlama3 ? "parameters" : "arguments";
  for (const Json& tool : tools) {
    const std::string name = function_name(tool), quoted = json_text(Json(name));
    const std::string object = fmt::format("{{\"name\": {}, \"{}\": ", quoted, arguments);
    text::FramedDocuments::Alternative& one = calls.alternatives.emplace_back();
    one.schema = arguments_schema(tool);
    one.where = fmt::format("{}: {}", where, name);
    if (is_named) {
      one.before = fmt::format("{}{}{}", kMistralCalls, name, kMistralArguments);
    } else if (format == ToolFormat::kHermes) {
      one.before = fmt::format("{}\n{}", kHermesOpen, object);
      one.after = fmt::format("}}\n{}", kHermesClose);
    } else {
      one.before = object;
      one.after = "}";
    }
  }
  return calls;
}

ToolCallReader::Read ToolCallReader::push(std::string_view text) {
  held_ += text;
  return read(false);
}

ToolCallReader::Read ToolCallReader::finish() { return read(true); }

ToolCallReader::Read ToolCallReader::read(bool is_end) {
  Read read;
  for (Step step = Step::kDone; step == Step::kDone && !held_.empty();) {
    switch (format_) {
      case ToolFormat::kNone:
        tell(held_.size(), read);
        break;
      case ToolFormat::kHermes:
        step = read_hermes(is_end, read);
        break;
      case ToolFormat::kLlama3:
        step = read_llama3(is_end, read);
        break;
      case ToolFormat::kMistral:
        step = read_mistral(is_end, read);
        break;
    }
  }
  return read;
}

// Passes the first bytes on as text.
void ToolCallReader::tell(size_t bytes, Read& read) {
  const size_t from = after_call_ ? std::min(first_of_text(held_), bytes) : 0;
  read.content.append(held_, from, bytes - from);
  if (from < bytes) after_call_ = false;
  held_.erase(0, bytes);
}

// Reads the text before the mark, or all but what may become white space before it and its beginning. Waits where the
// mark is not there.
ToolCallReader::Step ToolCallReader::read_text_before(std::string_view mark, bool is_end, Read& read) {
  size_t end = held_.find(mark);
  const bool is_there = end != std::string::npos;
  if (!is_there) {
    end = held_.size();
    for (size_t length = std::min(held_.size(), mark.size() - 1); length > 0 && !is_end; --length) {
      if (!held_.ends_with(mark.substr(0, length))) continue;
      end -= length;
      break;
    }
  }
  size_t told = end;
  if (is_there || !is_end) {
    while (told > 0 && kBlank.find(held_[told - 1]) != std::string_view::npos) --told;
  }
  tell(told, read);
  if (is_there) held_.erase(0, end - told);
  return is_there ? Step::kDone : Step::kWaits;
}

ToolCallReader::Step ToolCallReader::read_hermes(bool is_end, Read& read) {
  if (read_text_before(kHermesOpen, is_end, read) == Step::kWaits) return Step::kWaits;
  const std::string_view inner = std::string_view(held_).substr(kHermesOpen.size());
  // A closing mark may stand in a string of the arguments. At the end, it may be missing.
  size_t first_close = std::string_view::npos;
  for (size_t from = 0; from <= inner.size();) {
    const size_t close = inner.find(kHermesClose, from);
    if (close == std::string_view::npos && !is_end) return Step::kWaits;
    const size_t end = std::min(close, inner.size());
    first_close = std::min(first_close, end);
    if (std::optional<ToolCall> call = call_of(parsed(inner.substr(0, end)))) {
      read.calls.push_back(std::move(*call));
      after_call_ = true;
      held_.erase(0, std::min(kHermesOpen.size() + end + kHermesClose.size(), held_.size()));
      return Step::kDone;
    }
    from = end + 1;
  }
  tell(std::min(kHermesOpen.size() + first_close + kHermesClose.size(), held_.size()), read);
  return Step::kDone;
}

ToolCallReader::Step ToolCallReader::read_llama3(bool is_end, Read& read) {
  if (is_text_) {
    tell(held_.size(), read);
    return Step::kDone;
  }
  size_t begin = first_of_text(held_);
  const std::string_view rest = std::string_view(held_).substr(begin);
  if (!is_end && rest.size() < kPythonTag.size() && kPythonTag.starts_with(rest)) return Step::kWaits;
  if (rest.starts_with(kPythonTag)) begin = first_of_text(held_, begin + kPythonTag.size());
  if (after_call_ && rest.starts_with(';')) begin = first_of_text(held_, begin + 1);
  if (begin == held_.size() && !is_end) return Step::kWaits;
  const size_t end = begin < held_.size() && held_[begin] == '{' ? end_of_json(held_, begin) : std::string::npos;
  if (end == std::string::npos && begin < held_.size() && held_[begin] == '{' && !is_end) return Step::kWaits;
  if (end != std::string::npos) {
    std::optional<ToolCall> call = call_of(parsed(std::string_view(held_).substr(begin, end - begin)));
    if (call && tools_.contains(call->name)) {
      read.calls.push_back(std::move(*call));
      after_call_ = true;
      held_.erase(0, end);
      return Step::kDone;
    }
  }
  is_text_ = true;
  return Step::kDone;
}

ToolCallReader::Step ToolCallReader::read_mistral(bool is_end, Read& read) {
  if (read_text_before(kMistralCalls, is_end, read) == Step::kWaits) return Step::kWaits;
  const size_t name = first_of_text(held_, kMistralCalls.size());
  const bool is_list = name < held_.size() && held_[name] == '[';
  const size_t begin = is_list ? name : held_.find('{', name);
  const size_t end = begin < held_.size() ? end_of_json(held_, begin) : std::string::npos;
  if (end == std::string::npos && !is_end) return Step::kWaits;
  const std::optional<Json> json =
      end == std::string::npos ? std::nullopt : parsed(std::string_view(held_).substr(begin, end - begin));
  std::vector<ToolCall> calls;
  bool is_known = json.has_value();
  if (is_list && is_known) {
    for (const Json& one : *json) {
      std::optional<ToolCall> call = call_of(one);
      is_known = is_known && call.has_value();
      if (call) calls.push_back(std::move(*call));
    }
  } else if (is_known) {
    std::string_view called = std::string_view(held_).substr(name, begin - name);
    called = called.substr(0, std::min(called.find('['), called.find_last_not_of(kBlank) + 1));
    is_known = !called.empty();
    calls.push_back({std::string(called), json_text(*json)});
  }
  if (!is_known) {
    tell(end == std::string::npos ? held_.size() : end, read);
    return Step::kDone;
  }
  read.calls.insert(read.calls.end(), calls.begin(), calls.end());
  after_call_ = true;
  held_.erase(0, end);
  return Step::kDone;
}

}  // namespace spillway::serve
