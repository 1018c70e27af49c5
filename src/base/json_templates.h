// The JSON library, whose templates are instantiated once, in json_templates.cc and ordered_json_templates.cc. Targets
// that include the library precompile this header in its place (cmake/Spillway.cmake): without it, each source compiles
// the parser and the serializer anew, which takes seconds, and tests have them without optimisation.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

// Declares (EXTERN is `extern template`) or instantiates (`template`) what sources use of a type of JSON values.
#define SPILLWAY_JSON_TEMPLATES(EXTERN, JSON, OBJECT)                                                       \
  EXTERN class nlohmann::basic_json<OBJECT>;                                                                \
  EXTERN class nlohmann::detail::json_sax_dom_parser<JSON>;                                                 \
  EXTERN class nlohmann::detail::json_sax_dom_callback_parser<JSON>;                                        \
  EXTERN class nlohmann::detail::serializer<JSON>;                                                          \
  SPILLWAY_JSON_PARSER(EXTERN, JSON, nlohmann::detail::iterator_input_adapter<std::string::const_iterator>) \
  SPILLWAY_JSON_PARSER(EXTERN, JSON, nlohmann::detail::iterator_input_adapter<const char*>)                 \
  SPILLWAY_JSON_PARSER(EXTERN, JSON, nlohmann::detail::input_stream_adapter)

#define SPILLWAY_JSON_PARSER(EXTERN, JSON, ...)            \
  EXTERN class nlohmann::detail::lexer<JSON, __VA_ARGS__>; \
  EXTERN class nlohmann::detail::parser<JSON, __VA_ARGS__>;

SPILLWAY_JSON_TEMPLATES(extern template, nlohmann::json, std::map)
SPILLWAY_JSON_TEMPLATES(extern template, nlohmann::ordered_json, nlohmann::ordered_map)
