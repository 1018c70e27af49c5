#include "text/tokenizer/post_processor.h"

#include <string>
#include <utility>

namespace spillway::text {
namespace {

constexpr size_t kMaxTemplates = 16;

int32_t read_id(const JsonField& field, int64_t id_limit) {
  return static_cast<int32_t>(field.integer(0, id_limit - 1));
}

// Reads ["<s>", 1].
int32_t read_template_token(const JsonField& field, int64_t id_limit) {
  const std::vector<JsonField> pair = field.elements();
  if (pair.size() != 2) throw field.bad("a token and its id", "compare with the published file");
  return read_id(pair[1], id_limit);
}

}  // namespace

void PostProcessor::read(const JsonField& field, int64_t id_limit) {
  if (field.is_null()) return;
  if (templates_.size() >= kMaxTemplates) throw field.bad("at most 16 processors", "remove some");
  const std::string& type = field["type"].string();
  if (type == "Sequence") {
    for (const JsonField& step : field["processors"].elements()) read(step, id_limit);
  } else if (type == "TemplateProcessing") {
    templates_.push_back(read_template(field, id_limit));
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    const int32_t first = read_template_token(field["cls"], id_limit),
                  last = read_template_token(field["sep"], id_limit);
    templates_.push_back({first, std::nullopt, last});
  } else if (type != "ByteLevel") {  // ByteLevel only trims offsets
    throw field["type"].bad("TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing or Sequence",
                            "use a model with such a tokenizer");
  }
}

PostProcessor::Template PostProcessor::read_template(const JsonField& field, int64_t id_limit) {
  Template result;
  bool has_text = false;
  for (const JsonField& piece : field["single"].elements()) {
    if (piece["SpecialToken"].is_null()) {
      const JsonField sequence = piece["Sequence"]["id"];
      if (sequence.string() != "A" || has_text)
        throw sequence.bad("the text A, once", "compare with the published file");
      result.push_back(std::nullopt);
      has_text = true;
      continue;
    }
    const JsonField name = piece["SpecialToken"]["id"];
    const JsonField token = field["special_tokens"][name.string()];
    if (token.is_null()) throw name.bad("a token that special_tokens lists", "add it there");
    for (const JsonField& id : token["ids"].elements()) result.push_back(read_id(id, id_limit));
  }
  if (!has_text) throw field["single"].bad("a template with the text A", "compare with the published file");
  return result;
}

std::vector<int32_t> PostProcessor::apply(std::vector<int32_t> ids, bool add_special_tokens) const {
  if (!add_special_tokens) return ids;
  for (const Template& pieces : templates_) {
    std::vector<int32_t> result;
    result.reserve(ids.size() + pieces.size());
    for (const std::optional<int32_t>& piece : pieces) {
      if (piece)
        result.push_back(*piece);
      else
        result.insert(result.end(), ids.begin(), ids.end());
    }
    ids = std::move(result);
  }
  return ids;
}

}  // namespace spillway::text
