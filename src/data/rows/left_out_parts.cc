#include "data/rows/left_out_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "data/files/record_reader.h"
#include "text/left_out_warnings.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;
using text::LeftOutKind;
using text::MessagePart;

// As to_json() names the kinds.
constexpr std::array<const char*, text::kLeftOutKinds> kKindNames = {
    "system", "developer", "user", "assistant", "tool", "other", "thoughts", "tool_calls", "media", "tools"};

// Images and the like that a record has in columns beside its messages.
int64_t media_in_columns(const Record& record) {
  int64_t count = 0;
  for (const char* name : {"images", "image", "videos", "video", "audios", "audio"}) {
    const auto found = record.fields.find(name);
    if (found == record.fields.end() || found->is_null()) continue;
    count += found->is_array() ? std::ssize(*found) : 1;
  }
  return count;
}

// Returns the number of tools of a column that the type does not read; 0 where it holds something else.
int64_t tools_in_columns(const Record& record, const text::ChatInput& input) {
  const auto found = record.fields.find("tools");
  if (found == record.fields.end() || !input.tools.is_null()) return 0;
  const Json tools = found->is_string() ? parse_json<Json>(found->get_ref<const std::string&>(), record.where) : *found;
  return tools.is_array() ? std::ssize(tools) : 0;
}

bool has_content(const Json& message) {
  return std::any_of(message.items().begin(), message.items().end(), [](const auto& item) {
    return item.key() != "role" && !item.value().is_null() &&
           (item.key() == "content" || item.key() == "tool_calls" || item.key() == "reasoning_content");
  });
}

InputError learned_but_left_out(const Record& record, const Json& messages, const text::LeftOut& part) {
  const std::string message = text::message_name(messages, part.message);
  if (part.part == MessagePart::kMedia)
    return input_error(record.where, "expected text alone in {}, which is learned or answered, got an {}; remove it",
                       message, text::name_of(LeftOutKind::kMedia, 1));
  if (part.part == MessagePart::kToolCall)
    return input_error(
        record.where,
        "expected a chat template that shows the tool calls of {}, which is learned or answered, got one that "
        "leaves them out; choose a chat_template for tools, or remove them",
        message);
  if (!has_content(messages[part.message]))
    return input_error(
        record.where,
        "expected text as the content of {}, which is learned or answered, got none; correct the row, or name the "
        "field that holds it in message_property_mappings (type: chat_template)",
        message);
  const bool is_other = kind_of(part, messages) == LeftOutKind::kOther;
  return input_error(
      record.where,
      "expected a chat template that shows {}, which is learned or answered, got one that leaves {} out; {}",
      part.whole ? message : "all texts of " + message, part.whole ? "it" : "some",
      is_other ? "say with roles (type: chat_template) which role of the template it is, or choose another "
                 "chat_template"
               : "choose another chat_template, or remove it");
}

}  // namespace

void LeftOutParts::add(LeftOutKind kind, int64_t count) {
  if (count == 0) return;
  counts[static_cast<size_t>(kind)] += count;
  rows = 1;
}

void LeftOutParts::add(const LeftOutParts& more) {
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += more.counts[i];
  rows += more.rows;
}

void take_left_out(const Record& record, const text::ChatInput& input, const std::vector<text::LeftOut>& parts,
                   const IsLearned& is_learned, LeftOutParts& counts) {
  const Json& messages = input.messages;
  int64_t media = 0;
  for (const text::LeftOut& part : parts) {
    const bool counts_alone = part.part == MessagePart::kTool || (part.part == MessagePart::kThought && !part.whole);
    if (!counts_alone && is_learned(part.message)) throw learned_but_left_out(record, messages, part);
    if (part.part == MessagePart::kMedia) {
      ++media;
    } else {
      counts.add(kind_of(part, messages), 1);
    }
  }
  // Parts of the contents stand for the media of the columns, where there are both.
  counts.add(LeftOutKind::kMedia, std::max(media, media_in_columns(record)));
  counts.add(LeftOutKind::kTools, tools_in_columns(record, input));
}

std::string left_out_warning(const LeftOutParts& parts, int64_t rows) {
  std::string list;
  int64_t kinds = std::count_if(parts.counts.begin(), parts.counts.end(), [](int64_t count) { return count > 0; });
  for (size_t i = 0; i < parts.counts.size(); ++i) {
    if (parts.counts[i] == 0) continue;
    --kinds;
    list += fmt::format("{} {}{}", parts.counts[i], name_of(static_cast<LeftOutKind>(i), parts.counts[i]),
                        kinds > 1    ? ", "
                        : kinds == 1 ? " and "
                                     : "");
  }
  return fmt::format(
      "the chat template or the type leaves out {} in {} of {} rows: the model does not see them; choose another "
      "chat_template or type, or go on if this is meant",
      list, parts.rows, rows);
}

Json to_json(const LeftOutParts& parts) {
  Json json = {{"rows", parts.rows}};
  for (size_t i = 0; i < parts.counts.size(); ++i) json[kKindNames[i]] = parts.counts[i];
  return json;
}

LeftOutParts left_out_from_json(const Json& json) {
  LeftOutParts parts{.rows = json.at("rows")};
  for (size_t i = 0; i < parts.counts.size(); ++i) parts.counts[i] = json.at(kKindNames[i]);
  return parts;
}

}  // namespace spillway::data
