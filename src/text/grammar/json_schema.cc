#include "text/grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "text/grammar/json_bounds.h"
#include "text/grammar/json_formats.h"
#include "text/grammar/json_patterns.h"
#include "text/grammar/json_rules.h"
#include "text/grammar/schema_reader.h"

namespace spillway::text {
namespace {

constexpr int64_t kMaxNodes = 200'000;

class SchemaCompiler {
 public:
  // Returns the rule of a schema's documents. Borrows both for the compiler's life.
  RuleId add(const SchemaJson& schema, std::string_view where) {
    schema_.emplace(schema, where);
    const RuleId document = rule_of(schema_->root());
    while (!open_.empty()) {
      const auto [rule, place] = std::move(open_.back());
      open_.pop_back();
      grammar_.define(rule, part_of(place));
      if (grammar_.node_count() > kMaxNodes)
        throw schema_->bad(place, "a schema of less work", "one that is too large", "lower its limits");
    }
    return document;
  }

  ByteGrammar finish(const SchemaJson& schema, std::string_view where) {
    const RuleId document = add(schema, where), root = grammar_.add_rule();
    grammar_.define(root, grammar_.sequence({grammar_.call(rules_.space()), grammar_.call(document)}));
    grammar_.finish(root, where);
    return std::move(grammar_);
  }

  ByteGrammar finish(const FramedDocuments& documents) {
    std::vector<GrammarPart> alternatives;
    for (const FramedDocuments::Alternative& one : documents.alternatives)
      alternatives.push_back(grammar_.sequence(
          {grammar_.text(one.before), grammar_.call(add(one.schema, one.where)), grammar_.text(one.after)}));
    const RuleId document = grammar_.add_rule(), next = grammar_.add_rule(), root = grammar_.add_rule();
    grammar_.define(document, grammar_.any_of(alternatives));
    grammar_.define(next, grammar_.sequence({grammar_.text(documents.separator), grammar_.call(document)}));
    grammar_.define(
        root, grammar_.sequence({grammar_.text(documents.open), grammar_.call(rules_.space()), grammar_.call(document),
                                 grammar_.repeated(next, 0, documents.is_one ? 0 : ByteGrammar::kUnbounded),
                                 grammar_.text(documents.close)}));
    grammar_.finish(root, documents.alternatives.front().where);
    return std::move(grammar_);
  }

 private:
  // A schema is defined later, so that neither references nor nesting make calls of calls.
  RuleId rule_of(const SchemaPlace& place) {
    const auto [found, is_new] = rule_of_.emplace(place.json, -1);
    if (!is_new) return found->second;
    found->second = grammar_.add_rule();
    open_.emplace_back(found->second, place);
    return found->second;
  }
  GrammarPart call(const SchemaPlace& place) { return grammar_.call(rule_of(place)); }

  GrammarPart part_of(const SchemaPlace& place) {
    const SchemaJson& json = *place.json;
    if (json.is_boolean()) return json.get<bool>() ? grammar_.call(rules_.value()) : grammar_.any_of({});
    if (!json.is_object()) throw schema_->bad(place, "a schema (an object, true or false)", "correct it");
    schema_->check_keywords(place);
    for (const char* keyword : kAloneKeywords) {
      if (place.has(keyword)) return part_of_keyword(keyword, place);
    }
    std::vector<GrammarPart> parts;
    for (const std::string& type : schema_->types_of(place)) parts.push_back(part_of_type(type, place));
    return parts.empty() ? grammar_.call(rules_.value()) : grammar_.any_of(parts);
  }

  GrammarPart part_of_type(const std::string& type, const SchemaPlace& place) {
    if (type == "object") return object(place);
    if (type == "array") return array(place);
    if (type == "string") return string(place);
    if (type == "integer") return integer(place);
    if (type == "number") return number(place);
    if (type == "null") return grammar_.text("null");
    return grammar_.any_of({grammar_.text("true"), grammar_.text("false")});
  }

  GrammarPart part_of_keyword(const std::string& keyword, const SchemaPlace& place) {
    const SchemaPlace value = place[keyword];
    if (keyword == "$ref") return call(schema_->referred(value));
    if (keyword == "const") return value_of({*value.json}, place);
    if (!value.json->is_array() || value.json->empty())
      throw schema_->bad(value, "a list of at least one element", "correct it");
    if (keyword == "enum") return value_of({value.json->begin(), value.json->end()}, place);
    if (keyword == "allOf" && value.json->size() > 1)
      throw schema_->bad(place, "allOf of one schema", fmt::format("{}", value.json->size()), "write them as one");
    if (keyword == "oneOf") schema_->check_exclusive(value);
    std::vector<GrammarPart> parts;
    for (size_t i = 0; i < value.json->size(); ++i) parts.push_back(call(value.element(i)));
    return grammar_.any_of(parts);
  }

  GrammarPart value_of(const std::vector<SchemaJson>& values, const SchemaPlace& place) {
    std::vector<GrammarPart> parts;
    for (const SchemaJson& value : schema_->allowed_values(place, values)) parts.push_back(literal(value));
    return grammar_.any_of(parts);
  }

  GrammarPart literal(const SchemaJson& value) {
    if (!value.is_structured()) return grammar_.text(json_text(value));
    std::vector<GrammarPart> parts = {grammar_.text(value.is_object() ? "{" : "["), grammar_.call(rules_.space())};
    for (const auto& [name, element] : value.items()) {
      if (parts.size() > 2) parts.insert(parts.end(), {grammar_.text(","), grammar_.call(rules_.space())});
      if (value.is_object())
        parts.insert(parts.end(), {grammar_.text(json_text(SchemaJson(name)) + ":"), grammar_.call(rules_.space())});
      parts.push_back(literal(element));
    }
    if (!value.empty()) parts.push_back(grammar_.call(rules_.space()));
    parts.push_back(grammar_.text(value.is_object() ? "}" : "]"));
    return grammar_.sequence(parts);
  }

  // A member of the object, with the white space before its value.
  RuleId member(const std::string& name, const GrammarPart& value) {
    const RuleId rule = grammar_.add_rule();
    grammar_.define(rule, grammar_.sequence({grammar_.text(json_text(SchemaJson(name)) + ":"),
                                             grammar_.call(rules_.space()), value}));
    return rule;
  }

  GrammarPart object(const SchemaPlace& place) {
    static const SchemaJson kNone = SchemaJson::object();
    const bool lists = place.has("properties");
    const SchemaPlace properties = lists ? place["properties"] : SchemaPlace{&kNone, ""};
    if (!properties.json->is_object()) throw schema_->bad(properties, "an object of schemas", "correct it");
    SchemaNames required = schema_->required_of(place), names;
    std::vector<std::pair<RuleId, bool>> members;  // and whether they may be left out
    for (const auto& [name, schema] : properties.json->items()) {
      members.emplace_back(member(name, call(properties[name])), required.erase(name) == 0);
      names.insert(name);
    }
    const bool has_more = place.has("additionalProperties");
    const auto more = [&] { return has_more ? call(place["additionalProperties"]) : grammar_.call(rules_.value()); };
    for (const std::string& name : required) {
      members.emplace_back(member(name, more()), false);
      names.insert(name);
    }
    const bool takes_more =
        has_more ? *place.json->find("additionalProperties") != SchemaJson(false) : !lists && required.empty();
    RuleId other = -1;
    if (takes_more) {
      other = grammar_.add_rule();
      grammar_.define(
          other, grammar_.sequence({other_name(names), grammar_.text(":"), grammar_.call(rules_.space()), more()}));
    }
    return members_in_order(members, other);
  }

  // Two nodes stand before each member: one if there was none yet, and one behind others, where a comma comes first.
  GrammarPart members_in_order(const std::vector<std::pair<RuleId, bool>>& members, RuleId other) {
    const GrammarPart open = grammar_.sequence({grammar_.text("{"), grammar_.call(rules_.space())});
    const auto comma = [&] { return grammar_.sequence({grammar_.text(","), grammar_.call(rules_.space())}); };
    NodeId none = open.end, some = grammar_.add_node();
    for (const auto& [member, may_be_left_out] : members) {
      const NodeId none_then = grammar_.add_node(), some_then = grammar_.add_node();
      grammar_.connect(none, grammar_.call(member), some_then);
      grammar_.connect(some, grammar_.sequence({comma(), grammar_.call(member)}), some_then);
      if (may_be_left_out) {
        grammar_.connect(none, none_then);
        grammar_.connect(some, some_then);
      }
      none = none_then;
      some = some_then;
    }
    if (other >= 0) {
      const NodeId loop = grammar_.add_node();
      grammar_.connect(some, loop);
      grammar_.connect(none, grammar_.call(other), loop);
      grammar_.connect(loop, grammar_.sequence({comma(), grammar_.call(other)}), loop);
      some = loop;
    }
    const GrammarPart close = grammar_.text("}");
    grammar_.connect(none, close.begin);
    grammar_.connect(some, grammar_.call(rules_.space()), close.begin);
    return {open.begin, close.end};
  }

  // A name without escapes that is none of `names`: it leaves their tree before some character, or ends within it.
  GrammarPart other_name(const SchemaNames& names) {
    struct Branch {
      NodeId node;
      std::map<uint8_t, size_t> next = {};
      bool is_name = false;
    };
    std::vector<Branch> tree = {{grammar_.add_node()}};
    for (const std::string& name : names) {
      size_t at = 0;
      for (const char c : name) {
        const auto [found, is_new] = tree[at].next.emplace(static_cast<uint8_t>(c), tree.size());
        at = found->second;
        if (is_new) tree.push_back({grammar_.add_node()});
      }
      tree[at].is_name = true;
    }
    const NodeId end = grammar_.add_node();
    for (const Branch& branch : tree) {
      std::set<uint8_t> first;
      for (const auto& [byte, next] : branch.next) {
        first.insert(byte);
        grammar_.connect(branch.node, grammar_.bytes(byte, byte), tree[next].node);
      }
      constexpr uint8_t kContinuation = 0x80, kLead = 0xC0;
      const bool is_within_character = !first.empty() && *first.begin() >= kContinuation && *first.begin() < kLead;
      if (is_within_character) continue;
      if (!branch.is_name) grammar_.connect(branch.node, end);
      grammar_.connect(branch.node,
                       grammar_.sequence({rules_.characters(first),
                                          grammar_.repeated(rules_.plain_character(), 0, ByteGrammar::kUnbounded)}),
                       end);
    }
    return grammar_.sequence({grammar_.text("\""), {tree[0].node, end}, grammar_.text("\"")});
  }

  GrammarPart array(const SchemaPlace& place) {
    std::vector<RuleId> first;
    if (place.has("prefixItems")) {
      const SchemaPlace list = place["prefixItems"];
      if (!list.json->is_array()) throw schema_->bad(list, "a list of schemas", "correct it");
      for (size_t i = 0; i < list.json->size(); ++i) first.push_back(rule_of(list.element(i)));
    }
    if (place.has("items") && place["items"].json->is_array())
      throw schema_->bad(place["items"], "a schema", "write a list of schemas as prefixItems");
    const RuleId rest = place.has("items") ? rule_of(place["items"]) : rules_.value();
    const int64_t min = schema_->count(place, "minItems", 0),
                  max = schema_->count(place, "maxItems", ByteGrammar::kUnbounded);
    const auto element = [&](int64_t i) { return i < std::ssize(first) ? first[static_cast<size_t>(i)] : rest; };
    const GrammarPart open = grammar_.sequence({grammar_.text("["), grammar_.call(rules_.space())});
    const GrammarPart close = grammar_.text("]");
    const NodeId before_close = grammar_.add_node();
    grammar_.connect(before_close, grammar_.call(rules_.space()), close.begin);
    NodeId at = open.end;
    const int64_t told_apart = std::max({min, std::ssize(first), int64_t{1}});
    for (int64_t i = 0;; ++i) {
      if (i >= min) grammar_.connect(at, i == 0 ? close.begin : before_close);
      if (i == max) break;
      const GrammarPart next =
          i == 0 ? grammar_.call(element(i))
                 : grammar_.sequence({grammar_.text(","), grammar_.call(rules_.space()), grammar_.call(element(i))});
      if (max == ByteGrammar::kUnbounded && i == told_apart) {
        grammar_.connect(at, next, at);
        break;
      }
      grammar_.connect(at, next.begin);
      at = next.end;
    }
    return {open.begin, close.end};
  }

  // The expression that a string has to match, where there is one.
  std::optional<GrammarPart> expression(const SchemaPlace& place) {
    if (place.has("pattern")) {
      const SchemaPlace pattern = place["pattern"];
      if (!pattern.json->is_string()) throw schema_->bad(pattern, "a regular expression", "correct it");
      return pattern_part(grammar_, rules_, pattern.json->get<std::string>(), [&](const std::string& what) {
        throw schema_->bad(pattern, "a regular expression that a grammar can say", what, "write it another way");
      });
    }
    if (!place.has("format")) return std::nullopt;
    const SchemaPlace format = place["format"];
    std::optional<GrammarPart> part =
        format_part(grammar_, rules_, format.json->is_string() ? format.json->get<std::string>() : "");
    if (!part) throw schema_->bad(format, kFormatNames, "leave it out: answers could break it");
    return part;
  }

  GrammarPart string(const SchemaPlace& place) {
    const bool has_lengths = place.has("minLength") || place.has("maxLength");
    if (const std::optional<GrammarPart> part = expression(place)) {
      if (has_lengths || (place.has("pattern") && place.has("format")))
        throw schema_->bad(place, "one of pattern, format, and lengths", "several", "write them as one pattern");
      return grammar_.sequence({grammar_.text("\""), *part, grammar_.text("\"")});
    }
    if (!has_lengths) return grammar_.call(rules_.string());
    const int64_t min = schema_->count(place, "minLength", 0),
                  max = schema_->count(place, "maxLength", ByteGrammar::kUnbounded);
    if (max != ByteGrammar::kUnbounded && max < min) return grammar_.any_of({});
    return grammar_.sequence(
        {grammar_.text("\""), grammar_.repeated(rules_.character(), min, max), grammar_.text("\"")});
  }

  GrammarPart number(const SchemaPlace& place) {
    const auto has = [&](const char* keyword) { return place.has(keyword); };
    if (std::none_of(kNumberKeywords.begin(), kNumberKeywords.end(), has)) return grammar_.call(rules_.number());
    return numbers_between(grammar_, rules_, schema_->decimal(place, "minimum", "exclusiveMinimum", 1),
                           schema_->decimal(place, "maximum", "exclusiveMaximum", -1));
  }

  GrammarPart integer(const SchemaPlace& place) {
    const std::optional<int64_t> low = schema_->bound(place, "minimum", "exclusiveMinimum", 1);
    const std::optional<int64_t> high = schema_->bound(place, "maximum", "exclusiveMaximum", -1);
    return rules_.integers(low, high);
  }

  std::optional<SchemaReader> schema_;  // of the schema whose rules are being defined
  ByteGrammar grammar_;
  JsonRules rules_{grammar_};
  std::map<const SchemaJson*, RuleId> rule_of_;
  std::vector<std::pair<RuleId, SchemaPlace>> open_;
};

}  // namespace

ByteGrammar json_object_grammar() {
  ByteGrammar grammar;
  JsonRules rules(grammar);
  const RuleId root = grammar.add_rule();
  grammar.define(root, grammar.sequence({grammar.call(rules.space()), grammar.call(rules.object())}));
  grammar.finish(root, "JSON");
  return grammar;
}

ByteGrammar json_schema_grammar(const SchemaJson& schema, std::string_view where) {
  return SchemaCompiler().finish(schema, where);
}

ByteGrammar framed_json_grammar(const FramedDocuments& documents) { return SchemaCompiler().finish(documents); }

}  // namespace spillway::text
