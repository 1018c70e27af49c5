// Compiles the functions between the two macros for CPU features that the rest of the program does not assume. Include
// standard headers before, since their functions must stay runnable everywhere.
#pragma once

#define SPILLWAY_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define SPILLWAY_TARGET_BEGIN(features) \
  SPILLWAY_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define SPILLWAY_TARGET_END SPILLWAY_PRAGMA(clang attribute pop)
#else
#define SPILLWAY_TARGET_BEGIN(features) SPILLWAY_PRAGMA(GCC push_options) SPILLWAY_PRAGMA(GCC target(features))
#define SPILLWAY_TARGET_END SPILLWAY_PRAGMA(GCC pop_options)
#endif
