// Grammars of JSON documents: of any object, and of what a JSON schema allows.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/byte_grammar.h"

namespace spillway::text {

// Returns the grammar of objects with any members.
[[nodiscard]] ByteGrammar json_object_grammar();

// Returns a grammar of documents that are valid under `schema` (JSON Schema 2020-12), though not of all of them:
// members stand in the order of `properties`, others follow only where additionalProperties asks for them, white space
// is one space or a line break with an indent, integers have up to 18 digits, numbers with bounds no exponent. oneOf
// needs alternatives that exclude each other by type, by enum or by a required property. Throws InputError at `where`,
// with the place in the schema, for keywords that are not supported, whatever they are, for what is no JSON schema, and
// for schemas that no document fulfils.
[[nodiscard]] ByteGrammar json_schema_grammar(const nlohmann::ordered_json& schema, std::string_view where);

// Documents within fixed texts, such as the calls of functions in an answer.
struct FramedDocuments {
  // A document of a schema, whose references lead into it, between two texts.
  struct Alternative {
    std::string before;
    nlohmann::ordered_json schema;
    std::string after;
    std::string where;  // the schema, for messages
  };
  std::string open, separator, close;
  std::vector<Alternative> alternatives;
  bool is_one = false;  // else there may be several, with the separator between them
};
// Returns the grammar of `open`, white space or none, documents in their texts, and `close`. Throws InputError as
// json_schema_grammar() does.
[[nodiscard]] ByteGrammar framed_json_grammar(const FramedDocuments& documents);

}  // namespace spillway::text
