#include "text/left_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "text/jinja/unicode.h"

namespace spillway::text {
namespace {

using Json = nlohmann::ordered_json;

// A shorter text may stand anywhere, so that finding it says little; one that is shorter than the second may be a word
// of the template's own.
constexpr size_t kTellingBytes = 4, kLongBytes = 32;
// Marks begin with what no template says by chance, and hold only what no filter changes.
constexpr std::string_view kMarkStart = "zq7mark";
constexpr int kMarkDigits = 9;
constexpr size_t kMaxTagBytes = 32;

// Keys of a message that describe it, beside its texts.
constexpr std::array<std::string_view, 9> kMessageKeys = {"role", "from",   "name",  "id",   "tool_call_id",
                                                          "type", "weight", "train", "index"};
// Keys that describe a tool call or a part.
constexpr std::array<std::string_view, 6> kPartKeys = {"type", "id", "index", "cache_control", "train", "weight"};
constexpr std::array<const char*, 3> kPartTexts = {"text", "content", "value"};

bool is_media_type(std::string_view type) {
  constexpr std::array<std::string_view, 5> kWords = {"image", "audio", "video", "file", "document"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return type.find(word) != std::string_view::npos; });
}

bool is_nothing(const Json& value) {
  return value.is_null() || (value.is_structured() && value.empty()) ||
         (value.is_string() && value.get_ref<const std::string&>().empty());
}

std::string_view trimmed(std::string_view text) { return jinja::strip(text, true, true, nullptr); }

template <size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A part with what shows that it is there.
struct Piece {
  size_t message = 0;
  MessagePart part = MessagePart::kText;
  std::string_view text;             // of the messages that were marked, to be looked for first; empty: nothing tells
  std::string_view id;               // of a tool call: some templates write it in place of the name
  size_t first_mark = 0, marks = 0;  // that stand in the place of its texts
  bool shown = false;
};

// Goes through messages, collects their pieces, and makes the same messages with marks in the place of texts. Where
// templates look into a text, at thinking tags or at a tag around all of it, the tags stay. Borrows the messages.
class Marker {
 public:
  explicit Marker(const ChatInput& input) {
    for (const Json& message : input.messages) marked_.push_back(marked_message(message));
    marked_tools_ = input.tools;
    if (!marked_tools_.is_array()) return;
    // Pieces borrow the texts of the input, not those of its copy, which are replaced.
    for (size_t i = 0; i < input.tools.size(); ++i) marked_tools_[i] = marked_tool(input.tools[i]);
  }

  std::vector<Piece> pieces;
  [[nodiscard]] Json& marked() { return marked_; }
  [[nodiscard]] Json& marked_tools() { return marked_tools_; }
  [[nodiscard]] size_t marks() const { return marks_; }

 private:
  std::string mark() { return fmt::format("{}{:0{}}", kMarkStart, marks_++, kMarkDigits); }

  // Everything marked until the next call belongs to this piece.
  void begin(MessagePart part) { pieces.push_back({.message = marked_.size(), .part = part, .first_mark = marks_}); }
  // A piece in which nothing was marked has no text, and so cannot be left out.
  void end() {
    Piece& piece = pieces.back();
    piece.marks = marks_ - piece.first_mark;
    if (piece.marks == 0 && piece.part != MessagePart::kMedia) pieces.pop_back();
  }

  // The text within its piece.
  std::string marked_text(std::string_view text) {
    if (trimmed(text).empty()) return std::string(text);
    Piece& piece = pieces.back();
    if (piece.text.empty()) piece.text = trimmed(text);
    std::string_view open, close;
    if (text.front() == '<') open = text.substr(0, text.find('>') + 1);
    if (text.back() == '>') close = text.substr(text.rfind('<') == std::string_view::npos ? 0 : text.rfind('<'));
    const auto is_tag = [](std::string_view tag) {
      return tag.size() > 2 && tag.size() <= kMaxTagBytes && tag.find_first_of(" \n") == std::string_view::npos;
    };
    if (!is_tag(open) || open.size() == text.size()) open = {};
    if (!is_tag(close) || close.size() == text.size()) close = {};
    return fmt::format("{}{}{}", open, mark(), close);
  }

  // A text as a piece of its own, or as two where it holds a thought.
  std::string marked_content(std::string_view text) {
    constexpr std::string_view kOpen = "<think>", kClose = "</think>";
    const size_t close = text.find(kClose);
    if (close == std::string_view::npos) return marked_piece(MessagePart::kText, text);
    const size_t open = text.substr(0, close).find(kOpen);
    const size_t begin = open == std::string_view::npos ? 0 : open + kOpen.size();
    std::string result;
    if (open != std::string_view::npos) result = marked_piece(MessagePart::kText, text.substr(0, open)) + "<think>\n";
    result += marked_piece(MessagePart::kThought, text.substr(begin, close - begin));
    return result + "\n</think>\n\n" + marked_piece(MessagePart::kText, text.substr(close + kClose.size()));
  }
  std::string marked_piece(MessagePart part, std::string_view text) {
    begin(part);
    std::string result = marked_text(text);
    end();
    return result;
  }

  // A value whose texts all belong to the present piece.
  template <size_t N>
  Json marked_leaves(const Json& value, const std::array<std::string_view, N>& without) {
    if (value.is_string()) return marked_text(value.get_ref<const std::string&>());
    if (!value.is_structured()) return value;
    Json result = value.is_object() ? Json::object() : Json::array();
    if (value.is_array()) {
      for (const Json& item : value) result.push_back(marked_leaves(item, without));
      return result;
    }
    Json::object_t& members = result.get_ref<Json::object_t&>();
    for (const auto& [key, item] : value.items())
      members.push_back({key, is_one_of(without, key) ? item : marked_leaves(item, without)});
    return result;
  }

  // Puts a mark in the place of a part's first value that does not describe it.
  void mark_value(Json& part) {
    if (!part.is_object()) part = mark();
    for (auto item = part.begin(); part.is_object() && item != part.end(); ++item) {
      if (is_one_of(kPartKeys, item.key()) || is_nothing(*item)) continue;
      *item = mark();
      return;
    }
  }

  Json marked_part(const Json& part) {
    if (part.is_string()) return marked_content(part.get_ref<const std::string&>());
    Json result = part;
    const std::optional<MessagePart> kind = part_without_text(part);
    if (!kind) {
      if (!part.is_object()) return part;
      for (const char* key : kPartTexts) {
        const auto text = part.find(key);
        if (text == part.end() || !text->is_string()) continue;
        result[key] = marked_content(text->get_ref<const std::string&>());
        break;
      }
      return result;
    }
    begin(*kind);
    if (*kind != MessagePart::kMedia) {
      result = marked_leaves(part, kPartKeys);
      if (marks_ == pieces.back().first_mark) mark_value(result);  // numbers alone
    }
    end();
    return result;
  }

  Json marked_contents(const Json& content) {
    if (content.is_string()) return marked_content(content.get_ref<const std::string&>());
    if (content.is_array()) {
      Json result = Json::array();
      for (const Json& part : content) result.push_back(marked_part(part));
      return result;
    }
    begin(MessagePart::kText);
    Json result = marked_leaves(content, kPartKeys);
    end();
    return result;
  }

  // Arguments as JSON text stay JSON text.
  Json marked_arguments(const Json& arguments) {
    if (!arguments.is_string()) return marked_leaves(arguments, std::array<std::string_view, 0>{});
    const auto parsed = Json::parse(arguments.get_ref<const std::string&>(), nullptr, false);
    if (!parsed.is_object()) return marked_text(arguments.get_ref<const std::string&>());
    if (parsed.empty()) return arguments;
    return json_text(Json{{"argument", mark()}});
  }

  // A call: {"id", "type", "function": {"name", "arguments"}}, or name and arguments without what is around them.
  Json marked_call(const Json& call) {
    begin(MessagePart::kToolCall);
    Json result = call;
    Json& function = result.is_object() && result.contains("function") ? result["function"] : result;
    const auto id = call.is_object() ? call.find("id") : call.end();
    if (id != call.end() && id->is_string()) pieces.back().id = id->get_ref<const std::string&>();
    if (!function.is_object()) {
      result = marked_leaves(call, kPartKeys);
    } else {
      const Json& given = call.contains("function") ? call["function"] : call;
      const auto name = given.find("name"), arguments = given.find("arguments");
      if (name != given.end()) function["name"] = marked_leaves(*name, kPartKeys);
      if (arguments != given.end()) function["arguments"] = marked_arguments(*arguments);
    }
    end();
    return result;
  }

  // A tool: {"type", "function": {"name", "description", "parameters"}}, or what is in `function` alone. Templates go
  // through the parameters by their types, so that these stay.
  Json marked_tool(const Json& tool) {
    begin(MessagePart::kTool);
    Json result = tool;
    Json& function = result.is_object() && result.contains("function") ? result["function"] : result;
    const Json& given = tool.is_object() && tool.contains("function") ? tool["function"] : tool;
    for (const char* key : {"description", "name"}) {
      if (given.is_object() && has(given, key)) function[key] = marked_leaves(given[key], kPartKeys);
    }
    end();
    return result;
  }

  static bool has(const Json& message, const char* key) {
    const auto found = message.find(key);
    return found != message.end() && !found->is_null();
  }

  void mark_reasoning(const Json& message, Json& result) {
    begin(MessagePart::kThought);
    for (const char* key : kReasoningKeys) {
      if (has(message, key)) result[key] = marked_leaves(message[key], kPartKeys);
    }
    end();
  }

  Json marked_message(const Json& message) {
    if (!message.is_object()) return message;
    Json result = message;
    mark_reasoning(message, result);
    bool any =
        std::any_of(kReasoningKeys.begin(), kReasoningKeys.end(), [&](const char* key) { return has(message, key); });
    if (has(message, "content")) {
      result["content"] = marked_contents(message["content"]);
      any = true;
    }
    if (has(message, "tool_calls") && message["tool_calls"].is_array()) {
      Json calls = Json::array();
      for (const Json& call : message["tool_calls"]) calls.push_back(marked_call(call));
      result["tool_calls"] = std::move(calls);
      any |= !message["tool_calls"].empty();
    }
    if (has(message, "function_call")) {
      result["function_call"] = marked_call(message["function_call"]);
      any = true;
    }
    if (any) return result;
    // A text under a name that no template reads.
    begin(MessagePart::kText);
    result = marked_leaves(message, kMessageKeys);
    end();
    return result;
  }

  Json marked_ = Json::array(), marked_tools_;
  size_t marks_ = 0;
};

// memmem() takes linear time, where std::string_view::find may not.
size_t find_from(std::string_view text, std::string_view wanted, size_t from) {
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

// Returns true if the text is not likely to stand in what the template writes by itself, or for a role.
bool is_telling(std::string_view text, const ChatTemplate& chat_template, const Json& message) {
  if (text.size() >= kLongBytes) return true;
  if (text.size() < kTellingBytes || chat_template.source().find(text) != std::string::npos) return false;
  const auto role = message.find("role");
  return role == message.end() || !role->is_string() ||
         role->get_ref<const std::string&>().find(text) == std::string::npos;
}

// Returns true if the texts of all messages stand in `text` one after the other, those of the tools anywhere, and none
// by chance.
bool all_in_order(const std::vector<Piece>& pieces, const ChatTemplate& chat_template, const Json& messages,
                  std::string_view text) {
  size_t at = 0;
  for (const Piece& piece : pieces) {
    if (piece.part == MessagePart::kMedia) continue;
    const bool is_tool = piece.part == MessagePart::kTool;
    if (is_tool ? piece.text.size() < kLongBytes : !is_telling(piece.text, chat_template, messages[piece.message]))
      return false;
    const size_t found = find_from(text, piece.text, is_tool ? 0 : at);
    if (found == std::string_view::npos) return false;
    if (!is_tool) at = found + piece.text.size();
  }
  return true;
}

// Returns, for each mark, whether it stands in the text.
std::vector<bool> marks_in(std::string_view text, size_t count) {
  std::vector<bool> found(count, false);
  for (size_t at = text.find(kMarkStart); at != std::string_view::npos; at = text.find(kMarkStart, at + 1)) {
    size_t number = 0, digits = 0;
    for (const char c : text.substr(at + kMarkStart.size(), kMarkDigits)) {
      if (c < '0' || c > '9') break;
      number = number * 10 + static_cast<size_t>(c - '0');
      ++digits;
    }
    if (digits == kMarkDigits && number < count) found[number] = true;
  }
  return found;
}

void find_shown(std::vector<Piece>& pieces, const ChatTemplate& chat_template, const ChatInput& input, Marker& marker,
                const std::optional<std::tm>& now) {
  ChatInput changed = input;
  changed.messages = std::move(marker.marked());
  changed.tools = std::move(marker.marked_tools());
  changed.continue_final_message = false;
  std::string text;
  try {
    text = render_chat(chat_template, changed, now).text;
  } catch (const InputError&) {
    // The template reads the texts themselves; what it makes of them cannot be told.
    for (Piece& piece : pieces) piece.shown = piece.part != MessagePart::kMedia;
    return;
  }
  const std::vector<bool> found = marks_in(text, marker.marks());
  for (Piece& piece : pieces) {
    const auto first = found.begin() + static_cast<std::ptrdiff_t>(piece.first_mark);
    piece.shown = std::find(first, first + static_cast<std::ptrdiff_t>(piece.marks), true) !=
                      first + static_cast<std::ptrdiff_t>(piece.marks) ||
                  (!piece.id.empty() && text.find(piece.id) != std::string::npos);
  }
}

}  // namespace

std::optional<MessagePart> part_without_text(const Json& part) {
  if (!part.is_object()) return is_nothing(part) || part.is_string() ? std::nullopt : std::optional(MessagePart::kText);
  for (const char* key : kPartTexts) {
    const auto text = part.find(key);
    if (text != part.end() && text->is_string() && !is_nothing(*text)) return std::nullopt;
  }
  const auto type = part.find("type");
  const std::string name = type != part.end() && type->is_string() ? type->get<std::string>() : std::string();
  if (is_media_type(name)) return MessagePart::kMedia;
  const bool holds_any = std::any_of(part.items().begin(), part.items().end(), [](const auto& item) {
    return !is_one_of(kPartKeys, item.key()) && !is_nothing(item.value());
  });
  if (!holds_any) return std::nullopt;
  if (name == "thinking" || name == "reasoning") return MessagePart::kThought;
  return name == "tool_use" || name == "tool_call" || name == "function_call" ? MessagePart::kToolCall
                                                                              : MessagePart::kText;
}

std::vector<LeftOut> left_out(const ChatTemplate& chat_template, const ChatInput& input, std::string_view text,
                              const std::optional<std::tm>& now) {
  Marker marker(input);
  std::vector<Piece>& pieces = marker.pieces;
  if (all_in_order(pieces, chat_template, input.messages, text)) {
    for (Piece& piece : pieces) piece.shown = piece.part != MessagePart::kMedia;
  } else {
    find_shown(pieces, chat_template, input, marker, now);
  }
  std::vector<bool> is_shown(input.messages.size() + 1, false);
  for (const Piece& piece : pieces) {
    if (piece.shown) is_shown[piece.message] = true;
  }
  std::vector<LeftOut> result;
  for (const Piece& piece : pieces) {
    if (!piece.shown) result.push_back({piece.message, piece.part, !is_shown[piece.message]});
  }
  return result;
}

}  // namespace spillway::text
