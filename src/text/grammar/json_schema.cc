#include "text/grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "text/grammar/json_formats.h"
#include "text/grammar/json_rules.h"

namespace spillway::text {
namespace {

using Json = nlohmann::ordered_json;
using Names = std::set<std::string, std::less<>>;

constexpr int64_t kMaxNodes = 200'000, kMaxCount = 10'000;

// They say something to people, and nothing of which documents are valid. `discriminator` is OpenAPI's.
const Names kAnnotations = {"title", "description", "default",      "examples",  "$schema",
                            "$id",   "$comment",    "readOnly",     "writeOnly", "deprecated",
                            "$defs", "definitions", "discriminator"};
const Names kOfObjects = {"properties", "required", "additionalProperties"};
const Names kOfArrays = {"items", "prefixItems", "minItems", "maxItems"};
const Names kOfStrings = {"minLength", "maxLength", "format"};
const Names kOfNumbers = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
const Names kAlone = {"$ref", "anyOf", "oneOf", "allOf", "enum", "const"};
constexpr std::array<const char*, 7> kTypes = {"object", "array", "string", "integer", "number", "boolean", "null"};

// A schema in a document, with its place there.
struct Place {
  const Json* json;
  std::string path;

  [[nodiscard]] Place operator[](const std::string& name) const {
    return {&json->at(name), path.empty() ? name : path + "." + name};
  }
  [[nodiscard]] Place element(size_t i) const { return {&(*json)[i], fmt::format("{}.{}", path, i)}; }
  [[nodiscard]] bool has(const std::string& name) const { return json->contains(name); }
};

std::string type_of(const Json& value) {
  if (value.is_object()) return "object";
  if (value.is_array()) return "array";
  if (value.is_string()) return "string";
  if (value.is_boolean()) return "boolean";
  if (value.is_null()) return "null";
  return value.is_number_integer() ? "integer" : "number";
}

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& schema, std::string_view where) : document_(schema), where_(where) {}

  ByteGrammar compile() {
    const RuleId document = rule_of({&document_, ""}), root = grammar_.add_rule();
    grammar_.define(root, grammar_.sequence({grammar_.call(rules_.space()), grammar_.call(document)}));
    while (!open_.empty()) {
      const auto [rule, place] = std::move(open_.back());
      open_.pop_back();
      grammar_.define(rule, part_of(place));
      if (grammar_.node_count() > kMaxNodes)
        throw bad(place, "a schema of less work", "one that is too large", "lower its limits");
    }
    grammar_.finish(root, where_);
    return std::move(grammar_);
  }

 private:
  [[nodiscard]] InputError bad(const Place& place, std::string_view expected, std::string_view got,
                               std::string_view advice) const {
    const std::string where = place.path.empty() ? std::string(where_) : fmt::format("{}: {}", where_, place.path);
    return input_error(where, "expected {}, got {}; {}", expected, got, advice);
  }
  [[nodiscard]] InputError bad(const Place& place, std::string_view expected, std::string_view advice) const {
    std::string got = json_text(*place.json);
    if (got.size() > 60) got = got.substr(0, 57) + "...";
    return bad(place, expected, got, advice);
  }

  // A schema is defined later, so that neither references nor nesting make calls of calls.
  RuleId rule_of(const Place& place) {
    const auto [found, is_new] = rule_of_.emplace(place.json, -1);
    if (!is_new) return found->second;
    found->second = grammar_.add_rule();
    open_.emplace_back(found->second, place);
    return found->second;
  }
  GrammarPart call(const Place& place) { return grammar_.call(rule_of(place)); }

  GrammarPart part_of(const Place& place) {
    const Json& json = *place.json;
    if (json.is_boolean()) return json.get<bool>() ? grammar_.call(rules_.value()) : grammar_.any_of({});
    if (!json.is_object()) throw bad(place, "a schema (an object, true or false)", "correct it");
    check_keywords(place);
    for (const std::string& keyword : kAlone) {
      if (place.has(keyword)) return part_of_keyword(keyword, place);
    }
    std::vector<GrammarPart> parts;
    for (const std::string& type : types_of(place)) parts.push_back(part_of_type(type, place));
    return parts.empty() ? grammar_.call(rules_.value()) : grammar_.any_of(parts);
  }

  void check_keywords(const Place& place) const {
    std::string alone;
    for (const auto& [name, value] : place.json->items()) {
      if (kAnnotations.contains(name)) continue;
      if (name == "type" || kOfObjects.contains(name) || kOfArrays.contains(name) || kOfStrings.contains(name) ||
          kOfNumbers.contains(name))
        continue;
      if (!kAlone.contains(name))
        throw bad(place, "keywords of JSON Schema that are supported here", quote(name),
                  "leave it out: answers could break it");
      if (!alone.empty())
        throw bad(place, fmt::format("{} alone", alone), quote(name) + " beside it", "write one of them");
      alone = name;
    }
    if (alone.empty()) return;
    const bool takes_type = alone == "enum" || alone == "const";
    for (const auto& [name, value] : place.json->items()) {
      if (name != alone && !kAnnotations.contains(name) && !(takes_type && name == "type"))
        throw bad(place, fmt::format("{} alone", alone), quote(name) + " beside it",
                  "write it inside, or leave it out");
    }
  }

  // Returns the types that are allowed. Without `type`, they are those that the other keywords are about: a subset of
  // what is valid, and what is meant. None: any.
  std::vector<std::string> types_of(const Place& place) const {
    std::vector<std::string> types;
    if (place.has("type")) {
      const Place type = place["type"];
      const Json list = type.json->is_array() ? *type.json : Json::array({*type.json});
      for (const Json& one : list) {
        if (!one.is_string() || std::find(kTypes.begin(), kTypes.end(), one.get<std::string>()) == kTypes.end())
          throw bad(type, "one or several of object, array, string, integer, number, boolean and null", "correct it");
        types.push_back(one);
      }
      if (types.empty()) throw bad(type, "at least one type", "name one");
      return types;
    }
    const std::array<std::pair<const Names*, const char*>, 4> about = {
        {{&kOfObjects, "object"}, {&kOfArrays, "array"}, {&kOfStrings, "string"}, {&kOfNumbers, "number"}}};
    for (const auto& [names, type] : about) {
      if (std::any_of(names->begin(), names->end(), [&](const std::string& name) { return place.has(name); }))
        types.emplace_back(type);
    }
    return types;
  }

  GrammarPart part_of_type(const std::string& type, const Place& place) {
    if (type == "object") return object(place);
    if (type == "array") return array(place);
    if (type == "string") return string(place);
    if (type == "integer") return integer(place);
    if (type == "number") return number(place);
    if (type == "null") return grammar_.text("null");
    return grammar_.any_of({grammar_.text("true"), grammar_.text("false")});
  }

  GrammarPart part_of_keyword(const std::string& keyword, const Place& place) {
    const Place value = place[keyword];
    if (keyword == "$ref") return call(referred(value));
    if (keyword == "const") return value_of({*value.json}, place);
    if (!value.json->is_array() || value.json->empty())
      throw bad(value, "a list of at least one element", "correct it");
    if (keyword == "enum") return value_of({value.json->begin(), value.json->end()}, place);
    if (keyword == "allOf" && value.json->size() > 1)
      throw bad(place, "allOf of one schema", fmt::format("{}", value.json->size()), "write them as one");
    if (keyword == "oneOf") check_exclusive(value);
    std::vector<GrammarPart> parts;
    for (size_t i = 0; i < value.json->size(); ++i) parts.push_back(call(value.element(i)));
    return grammar_.any_of(parts);
  }

  // `#/$defs/name`: a JSON pointer into the document.
  Place referred(const Place& reference) const {
    if (!reference.json->is_string() || !reference.json->get<std::string>().starts_with('#'))
      throw bad(reference, "a reference into this schema such as \"#/$defs/name\"",
                "put what is referred to under $defs");
    try {
      const std::string pointer = reference.json->get<std::string>().substr(1);
      return {&document_.at(Json::json_pointer(pointer)), "#" + pointer};
    } catch (const Json::exception&) {
      throw bad(reference, "a reference to something in this schema", "put what is referred to under $defs");
    }
  }

  GrammarPart value_of(const std::vector<Json>& values, const Place& place) {
    const std::vector<std::string> types = types_of(place);
    std::vector<GrammarPart> parts;
    for (const Json& value : values) {
      const std::string type = type_of(value);
      const bool is_allowed = types.empty() || std::any_of(types.begin(), types.end(), [&](const std::string& one) {
                                return one == type || (one == "number" && type == "integer");
                              });
      if (is_allowed) parts.push_back(literal(value));
    }
    return grammar_.any_of(parts);
  }

  GrammarPart literal(const Json& value) {
    if (!value.is_structured()) return grammar_.text(json_text(value));
    std::vector<GrammarPart> parts = {grammar_.text(value.is_object() ? "{" : "["), grammar_.call(rules_.space())};
    for (const auto& [name, element] : value.items()) {
      if (parts.size() > 2) parts.insert(parts.end(), {grammar_.text(","), grammar_.call(rules_.space())});
      if (value.is_object())
        parts.insert(parts.end(), {grammar_.text(json_text(Json(name)) + ":"), grammar_.call(rules_.space())});
      parts.push_back(literal(element));
    }
    if (!value.empty()) parts.push_back(grammar_.call(rules_.space()));
    parts.push_back(grammar_.text(value.is_object() ? "}" : "]"));
    return grammar_.sequence(parts);
  }

  // Throws unless no document fulfils two of the alternatives.
  void check_exclusive(const Place& list) const {
    for (size_t i = 0; i < list.json->size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (!exclude_each_other(list.element(j), list.element(i)))
          throw bad(list,
                    "alternatives that differ in their type, or in an enum or const of a property that each requires",
                    fmt::format("{} and {}, which one document may fulfil", j, i), "write anyOf");
      }
    }
  }

  Place resolved(Place place) const {
    for (int i = 0; i < 100 && place.json->is_object() && place.has("$ref"); ++i) place = referred(place["$ref"]);
    return place;
  }

  // Returns the values of const or enum; none: any.
  static std::vector<Json> values_of(const Place& place) {
    if (!place.json->is_object()) return {};
    if (place.has("const")) return {place.json->at("const")};
    if (place.has("enum") && place.json->at("enum").is_array()) return place.json->at("enum");
    return {};
  }

  bool exclude_each_other(Place a, Place b) const {
    a = resolved(a);
    b = resolved(b);
    if (!a.json->is_object() || !b.json->is_object()) return false;
    const std::vector<Json> of_a = values_of(a), of_b = values_of(b);
    const auto disjoint = [](const auto& left, const auto& right, const auto& same) {
      return !left.empty() && !right.empty() && std::none_of(left.begin(), left.end(), [&](const auto& one) {
        return std::any_of(right.begin(), right.end(), [&](const auto& other) { return same(one, other); });
      });
    };
    const auto is_same = [](const Json& left, const Json& right) { return left == right; };
    if (disjoint(of_a, of_b, is_same)) return true;
    const auto types = [&](const Place& place, const std::vector<Json>& values) {
      std::vector<std::string> result = types_of(place);
      if (place.has("type")) return result;
      result.clear();
      for (const Json& value : values) result.push_back(type_of(value));
      return result;
    };
    const auto is_same_type = [](const std::string& left, const std::string& right) {
      const auto is_number = [](const std::string& type) { return type == "number" || type == "integer"; };
      return left == right || (is_number(left) && is_number(right));
    };
    if (disjoint(types(a, of_a), types(b, of_b), is_same_type)) return true;
    const Names required = required_of(b);
    for (const std::string& name : required_of(a)) {
      if (!required.contains(name) || !a.has("properties") || !b.has("properties")) continue;
      const Place in_a = a["properties"], in_b = b["properties"];
      if (in_a.has(name) && in_b.has(name) && disjoint(values_of(in_a[name]), values_of(in_b[name]), is_same))
        return true;
    }
    return false;
  }

  Names required_of(const Place& place) const {
    Names names;
    if (!place.has("required")) return names;
    const Place required = place["required"];
    if (!required.json->is_array()) throw bad(required, "a list of names", "correct it");
    for (const Json& name : *required.json) {
      if (!name.is_string()) throw bad(required, "a list of names", "correct it");
      names.insert(name.get<std::string>());
    }
    return names;
  }

  // A member of the object, with the white space before its value.
  RuleId member(const std::string& name, const GrammarPart& value) {
    const RuleId rule = grammar_.add_rule();
    grammar_.define(
        rule, grammar_.sequence({grammar_.text(json_text(Json(name)) + ":"), grammar_.call(rules_.space()), value}));
    return rule;
  }

  GrammarPart object(const Place& place) {
    static const Json kNone = Json::object();
    const bool lists = place.has("properties");
    const Place properties = lists ? place["properties"] : Place{&kNone, ""};
    if (!properties.json->is_object()) throw bad(properties, "an object of schemas", "correct it");
    Names required = required_of(place), names;
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
        has_more ? *place.json->find("additionalProperties") != Json(false) : !lists && required.empty();
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
  GrammarPart other_name(const Names& names) {
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

  int64_t count(const Place& place, const char* keyword, int64_t otherwise) const {
    if (!place.has(keyword)) return otherwise;
    const Place value = place[keyword];
    const Json& json = *value.json;
    const double number = json.is_number() ? json.get<double>() : -1;
    if (!(number >= 0 && number <= kMaxCount) || std::floor(number) != number)
      throw bad(value, fmt::format("a whole number from 0 to {}", kMaxCount), "correct it");
    return static_cast<int64_t>(number);
  }

  GrammarPart array(const Place& place) {
    std::vector<RuleId> first;
    if (place.has("prefixItems")) {
      const Place list = place["prefixItems"];
      if (!list.json->is_array()) throw bad(list, "a list of schemas", "correct it");
      for (size_t i = 0; i < list.json->size(); ++i) first.push_back(rule_of(list.element(i)));
    }
    if (place.has("items") && place["items"].json->is_array())
      throw bad(place["items"], "a schema", "write a list of schemas as prefixItems");
    const RuleId rest = place.has("items") ? rule_of(place["items"]) : rules_.value();
    const int64_t min = count(place, "minItems", 0), max = count(place, "maxItems", ByteGrammar::kUnbounded);
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

  GrammarPart string(const Place& place) {
    const bool has_lengths = place.has("minLength") || place.has("maxLength");
    if (place.has("format")) {
      const Place format = place["format"];
      const std::string name = format.json->is_string() ? format.json->get<std::string>() : "";
      const std::optional<GrammarPart> part = format_part(grammar_, rules_, name);
      if (!part || has_lengths)
        throw bad(format, part ? "a format without lengths" : "date, time, date-time or uuid",
                  "leave it out: answers could break it");
      return grammar_.sequence({grammar_.text("\""), *part, grammar_.text("\"")});
    }
    if (!has_lengths) return grammar_.call(rules_.string());
    const int64_t min = count(place, "minLength", 0), max = count(place, "maxLength", ByteGrammar::kUnbounded);
    if (max != ByteGrammar::kUnbounded && max < min) return grammar_.any_of({});
    return grammar_.sequence(
        {grammar_.text("\""), grammar_.repeated(rules_.character(), min, max), grammar_.text("\"")});
  }

  GrammarPart number(const Place& place) {
    for (const std::string& keyword : kOfNumbers) {
      if (place.has(keyword))
        throw bad(place[keyword], "bounds of integers alone", "write type: integer, or leave it out");
    }
    return grammar_.call(rules_.number());
  }

  // Returns the least integer (sign 1) or, as its negative, the largest (sign -1) that the two keywords allow.
  std::optional<int64_t> bound(const Place& place, const char* inclusive, const char* exclusive, double sign) const {
    std::optional<double> bound;
    for (const char* keyword : {inclusive, exclusive}) {
      if (!place.has(keyword)) continue;
      const Place value = place[keyword];
      if (!value.json->is_number()) throw bad(value, "a number", "correct it");
      const double number = sign * value.json->get<double>();
      const double least = keyword == exclusive ? std::floor(number) + 1 : std::ceil(number);
      bound = std::max(bound.value_or(least), least);
    }
    if (!bound) return std::nullopt;
    constexpr double kLimit = 2e18;
    return static_cast<int64_t>(sign * std::clamp(*bound, -kLimit, kLimit));
  }

  GrammarPart integer(const Place& place) {
    const std::optional<int64_t> low = bound(place, "minimum", "exclusiveMinimum", 1);
    const std::optional<int64_t> high = bound(place, "maximum", "exclusiveMaximum", -1);
    return rules_.integers(low, high);
  }

  const Json& document_;
  std::string_view where_;
  ByteGrammar grammar_;
  JsonRules rules_{grammar_};
  std::map<const Json*, RuleId> rule_of_;
  std::vector<std::pair<RuleId, Place>> open_;
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

ByteGrammar json_schema_grammar(const Json& schema, std::string_view where) {
  return SchemaCompiler(schema, where).compile();
}

}  // namespace spillway::text
