// Makes INFO and CAPTURE take structured bindings with clang before 16, whose lambdas cannot capture them: values
// become text where they are named, not when a check fails. Precompiled with doctest (cmake/Spillway.cmake).
#pragma once

#include <doctest/doctest.h>

#include <sstream>
#include <string>

namespace spillway::testing {

// Takes values as doctest's messages do: `EagerText() * a, b`.
class EagerText {
 public:
  template <typename T>
  EagerText& operator,(const T& value) {
    text_ << doctest::toString(value);
    return *this;
  }
  template <typename T>
  EagerText& operator<<(const T& value) {
    return operator,(value);
  }
  template <typename T>
  EagerText& operator*(const T& value) {
    return operator,(value);
  }
  [[nodiscard]] std::string str() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

}  // namespace spillway::testing

#undef DOCTEST_INFO_IMPL
#define DOCTEST_INFO_IMPL(message, stream, ...)                                 \
  auto DOCTEST_ANONYMOUS(DOCTEST_CAPTURE_) = doctest::detail::MakeContextScope( \
      [text = (spillway::testing::EagerText() * __VA_ARGS__).str()](std::ostream* stream) { *stream << text; })
