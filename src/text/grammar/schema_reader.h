// Reads and checks what a JSON schema says: which keywords a place has, which types, counts and bounds it allows, and
// where references lead. The grammar of it is made in json_schema.cc.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/grammar/json_bounds.h"

namespace spillway::text {

using SchemaJson = nlohmann::ordered_json;
using SchemaNames = std::set<std::string, std::less<>>;

// Keywords beside which a schema has no others but annotations.
inline constexpr std::array<const char*, 6> kAloneKeywords = {"$ref", "allOf", "anyOf", "const", "enum", "oneOf"};
// The keywords of numbers.
inline constexpr std::array<const char*, 4> kNumberKeywords = {"exclusiveMaximum", "exclusiveMinimum", "maximum",
                                                               "minimum"};

// A schema, or another value, in a document, with its path there.
struct SchemaPlace {
  const SchemaJson* json;
  std::string path;

  [[nodiscard]] SchemaPlace operator[](const std::string& name) const;
  [[nodiscard]] SchemaPlace element(size_t i) const;
  [[nodiscard]] bool has(const std::string& name) const { return json->contains(name); }
};

// Reads a document that it borrows. All functions throw InputError at `where`, with the path of what is wrong.
class SchemaReader {
 public:
  SchemaReader(const SchemaJson& document, std::string_view where) : document_(document), where_(where) {}

  [[nodiscard]] std::string_view where() const { return where_; }
  [[nodiscard]] SchemaPlace root() const { return {&document_, ""}; }

  // Return the error that something is wrong at a place; without `got`, it shows what stands there.
  [[nodiscard]] InputError bad(const SchemaPlace& place, std::string_view expected, std::string_view got,
                               std::string_view advice) const;
  [[nodiscard]] InputError bad(const SchemaPlace& place, std::string_view expected, std::string_view advice) const;

  // Throws if a schema has keywords that are not supported, or not beside each other.
  void check_keywords(const SchemaPlace& place) const;
  // Returns the types that are allowed. Without `type`, they are those that the other keywords are about: a subset of
  // what is valid, and what is meant. None: any.
  [[nodiscard]] std::vector<std::string> types_of(const SchemaPlace& place) const;
  // Returns the values among `values` that the place's `type` allows.
  [[nodiscard]] std::vector<SchemaJson> allowed_values(const SchemaPlace& place, std::vector<SchemaJson> values) const;
  // Returns what a `$ref` such as "#/$defs/name", a JSON pointer into the document, leads to.
  [[nodiscard]] SchemaPlace referred(const SchemaPlace& reference) const;
  // Throws unless no document fulfils two of the alternatives.
  void check_exclusive(const SchemaPlace& list) const;
  [[nodiscard]] SchemaNames required_of(const SchemaPlace& place) const;
  // Returns the number of a keyword such as minItems, `otherwise` where there is none.
  [[nodiscard]] int64_t count(const SchemaPlace& place, const char* keyword, int64_t otherwise) const;
  // Returns the least integer (sign 1) or, as its negative, the largest (sign -1) that the two keywords allow.
  [[nodiscard]] std::optional<int64_t> bound(const SchemaPlace& place, const char* inclusive, const char* exclusive,
                                             double sign) const;
  // Returns the tighter of the two keywords: the larger one of lower bounds (sign 1), the smaller one of upper (sign
  // -1).
  [[nodiscard]] std::optional<DecimalBound> decimal(const SchemaPlace& place, const char* inclusive,
                                                    const char* exclusive, double sign) const;

 private:
  [[nodiscard]] SchemaPlace resolved(SchemaPlace place) const;
  [[nodiscard]] bool exclude_each_other(SchemaPlace a, SchemaPlace b) const;

  const SchemaJson& document_;
  std::string_view where_;
};

}  // namespace spillway::text
