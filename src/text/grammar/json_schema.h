// Grammars of JSON documents: of any object, and of what a JSON schema allows.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

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

}  // namespace spillway::text
