// Stands before what is precompiled (cmake/Spillway.cmake). The JSON library has its literal operator as an inline
// function that parses, so each source that includes the library would instantiate its parser: half a second. Here it
// is declared, and what parses is a template that nobody uses.
#pragma once

#define _json(text, length) \
  _json(text, length);      \
  template <int>            \
  nlohmann::json parsed_json(text, length)
