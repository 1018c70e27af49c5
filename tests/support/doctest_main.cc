#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdlib>

// A name that happens to be one of the Hugging Face hub asks nobody, but in tests that say so.
[[maybe_unused]] static const int offline = ::setenv("HF_HUB_OFFLINE", "1", 1);
