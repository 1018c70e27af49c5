#include "text/grammar/schema_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace spillway::text {
namespace {

constexpr int64_t kMaxCount = 10'000;

// They say something to people, and nothing of which documents are valid. `discriminator` is OpenAPI's.
const SchemaNames kAnnotations = {"title", "description", "default",      "examples",  "$schema",
                                  "$id",   "$comment",    "readOnly",     "writeOnly", "deprecated",
                                  "$defs", "definitions", "discriminator"};
const SchemaNames kOfObjects = {"properties", "required", "additionalProperties"};
const SchemaNames kOfArrays = {"items", "prefixItems", "minItems", "maxItems"};
const SchemaNames kOfStrings = {"minLength", "maxLength", "format", "pattern"};
const SchemaNames kOfNumbers(kNumberKeywords.begin(), kNumberKeywords.end());
const SchemaNames kAlone(kAloneKeywords.begin(), kAloneKeywords.end());
constexpr std::array<const char*, 7> kTypes = {"object", "array", "string", "integer", "number", "boolean", "null"};

std::string type_of(const SchemaJson& value) {
  if (value.is_object()) return "object";
  if (value.is_array()) return "array";
  if (value.is_string()) return "string";
  if (value.is_boolean()) return "boolean";
  if (value.is_null()) return "null";
  return value.is_number_integer() ? "integer" : "number";
}

// Returns the values of const or enum; none: any.
std::vector<SchemaJson> values_of(const SchemaPlace& place) {
  if (!place.json->is_object()) return {};
  if (place.has("const")) return {place.json->at("const")};
  if (place.has("enum") && place.json->at("enum").is_array()) return place.json->at("enum");
  return {};
}

}  // namespace

SchemaPlace SchemaPlace::operator[](const std::string& name) const {
  return {&json->at(name), path.empty() ? name : path + "." + name};
}

SchemaPlace SchemaPlace::element(size_t i) const { return {&(*json)[i], fmt::format("{}.{}", path, i)}; }

InputError SchemaReader::bad(const SchemaPlace& place, std::string_view expected, std::string_view got,
                             std::string_view advice) const {
  const std::string where = place.path.empty() ? std::string(where_) : fmt::format("{}: {}", where_, place.path);
  return input_error(where, "expected {}, got {}; {}", expected, got, advice);
}
InputError SchemaReader::bad(const SchemaPlace& place, std::string_view expected, std::string_view advice) const {
  std::string got = json_text(*place.json);
  if (got.size() > 60) got = got.substr(0, 57) + "...";
  return bad(place, expected, got, advice);
}

void SchemaReader::check_keywords(const SchemaPlace& place) const {
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
      throw bad(place, fmt::format("{} alone", alone), quote(name) + " beside it", "write it inside, or leave it out");
  }
}

std::vector<std::string> SchemaReader::types_of(const SchemaPlace& place) const {
  std::vector<std::string> types;
  if (place.has("type")) {
    const SchemaPlace type = place["type"];
    const SchemaJson list = type.json->is_array() ? *type.json : SchemaJson::array({*type.json});
    for (const SchemaJson& one : list) {
      if (!one.is_string() || std::find(kTypes.begin(), kTypes.end(), one.get<std::string>()) == kTypes.end())
        throw bad(type, "one or several of object, array, string, integer, number, boolean and null", "correct it");
      types.push_back(one);
    }
    if (types.empty()) throw bad(type, "at least one type", "name one");
    return types;
  }
  const std::array<std::pair<const SchemaNames*, const char*>, 4> about = {
      {{&kOfObjects, "object"}, {&kOfArrays, "array"}, {&kOfStrings, "string"}, {&kOfNumbers, "number"}}};
  for (const auto& [names, type] : about) {
    if (std::any_of(names->begin(), names->end(), [&](const std::string& name) { return place.has(name); }))
      types.emplace_back(type);
  }
  return types;
}

std::vector<SchemaJson> SchemaReader::allowed_values(const SchemaPlace& place, std::vector<SchemaJson> values) const {
  const std::vector<std::string> types = types_of(place);
  const auto is_allowed = [&](const SchemaJson& value) {
    const std::string type = type_of(value);
    return types.empty() || std::any_of(types.begin(), types.end(), [&](const std::string& one) {
             return one == type || (one == "number" && type == "integer");
           });
  };
  std::erase_if(values, [&](const SchemaJson& value) { return !is_allowed(value); });
  return values;
}

SchemaPlace SchemaReader::referred(const SchemaPlace& reference) const {
  if (!reference.json->is_string() || !reference.json->get<std::string>().starts_with('#'))
    throw bad(reference, "a reference into this schema such as \"#/$defs/name\"",
              "put what is referred to under $defs");
  try {
    const std::string pointer = reference.json->get<std::string>().substr(1);
    return {&document_.at(SchemaJson::json_pointer(pointer)), "#" + pointer};
  } catch (const SchemaJson::exception&) {
    throw bad(reference, "a reference to something in this schema", "put what is referred to under $defs");
  }
}

void SchemaReader::check_exclusive(const SchemaPlace& list) const {
  for (size_t i = 0; i < list.json->size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (!exclude_each_other(list.element(j), list.element(i)))
        throw bad(list,
                  "alternatives that differ in their type, or in an enum or const of a property that each requires",
                  fmt::format("{} and {}, which one document may fulfil", j, i), "write anyOf");
    }
  }
}

SchemaPlace SchemaReader::resolved(SchemaPlace place) const {
  for (int i = 0; i < 100 && place.json->is_object() && place.has("$ref"); ++i) place = referred(place["$ref"]);
  return place;
}

bool SchemaReader::exclude_each_other(SchemaPlace a, SchemaPlace b) const {
  a = resolved(a);
  b = resolved(b);
  if (!a.json->is_object() || !b.json->is_object()) return false;
  const std::vector<SchemaJson> of_a = values_of(a), of_b = values_of(b);
  const auto disjoint = [](const auto& left, const auto& right, const auto& same) {
    return !left.empty() && !right.empty() && std::none_of(left.begin(), left.end(), [&](const auto& one) {
      return std::any_of(right.begin(), right.end(), [&](const auto& other) { return same(one, other); });
    });
  };
  const auto is_same = [](const SchemaJson& left, const SchemaJson& right) { return left == right; };
  if (disjoint(of_a, of_b, is_same)) return true;
  const auto types = [&](const SchemaPlace& place, const std::vector<SchemaJson>& values) {
    std::vector<std::string> result = types_of(place);
    if (place.has("type")) return result;
    result.clear();
    for (const SchemaJson& value : values) result.push_back(type_of(value));
    return result;
  };
  const auto is_same_type = [](const std::string& left, const std::string& right) {
    const auto is_number = [](const std::string& type) { return type == "number" || type == "integer"; };
    return left == right || (is_number(left) && is_number(right));
  };
  if (disjoint(types(a, of_a), types(b, of_b), is_same_type)) return true;
  const SchemaNames required = required_of(b);
  for (const std::string& name : required_of(a)) {
    if (!required.contains(name) || !a.has("properties") || !b.has("properties")) continue;
    const SchemaPlace in_a = a["properties"], in_b = b["properties"];
    if (in_a.has(name) && in_b.has(name) && disjoint(values_of(in_a[name]), values_of(in_b[name]), is_same))
      return true;
  }
  return false;
}

SchemaNames SchemaReader::required_of(const SchemaPlace& place) const {
  SchemaNames names;
  if (!place.has("required")) return names;
  const SchemaPlace required = place["required"];
  if (!required.json->is_array()) throw bad(required, "a list of names", "correct it");
  for (const SchemaJson& name : *required.json) {
    if (!name.is_string()) throw bad(required, "a list of names", "correct it");
    names.insert(name.get<std::string>());
  }
  return names;
}

int64_t SchemaReader::count(const SchemaPlace& place, const char* keyword, int64_t otherwise) const {
  if (!place.has(keyword)) return otherwise;
  const SchemaPlace value = place[keyword];
  const SchemaJson& json = *value.json;
  const double number = json.is_number() ? json.get<double>() : -1;
  if (!(number >= 0 && number <= kMaxCount) || std::floor(number) != number)
    throw bad(value, fmt::format("a whole number from 0 to {}", kMaxCount), "correct it");
  return static_cast<int64_t>(number);
}

std::optional<int64_t> SchemaReader::bound(const SchemaPlace& place, const char* inclusive, const char* exclusive,
                                           double sign) const {
  std::optional<double> bound;
  for (const char* keyword : {inclusive, exclusive}) {
    if (!place.has(keyword)) continue;
    const SchemaPlace value = place[keyword];
    if (!value.json->is_number()) throw bad(value, "a number", "correct it");
    const double number = sign * value.json->get<double>();
    const double least = keyword == exclusive ? std::floor(number) + 1 : std::ceil(number);
    bound = std::max(bound.value_or(least), least);
  }
  if (!bound) return std::nullopt;
  constexpr double kLimit = 2e18;
  return static_cast<int64_t>(sign * std::clamp(*bound, -kLimit, kLimit));
}

std::optional<DecimalBound> SchemaReader::decimal(const SchemaPlace& place, const char* inclusive,
                                                  const char* exclusive, double sign) const {
  std::optional<double> bound;
  bool is_open = false;
  for (const char* keyword : {inclusive, exclusive}) {
    if (!place.has(keyword)) continue;
    const SchemaPlace value = place[keyword];
    if (!value.json->is_number()) throw bad(value, "a number", "correct it");
    const double number = value.json->get<double>();
    if (bound && sign * number < sign * *bound) continue;
    bound = number;
    is_open = keyword == exclusive;
    if (!decimal_bound(number, is_open))
      throw bad(value, fmt::format("up to {} digits before and behind the point", kMaxDecimalDigits),
                "write a shorter number");
  }
  return bound ? decimal_bound(*bound, is_open) : std::nullopt;
}

}  // namespace spillway::text
