// The error of a chat template that does not take a conversation.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace spillway::text {

// A template has not taken a conversation: ChatTemplate::render() throws this. The message names the template alone;
// who knows which conversation it was makes another one of the parts.
class TemplateRefusal : public InputError {
 public:
  // `place`: the template, with the line if it is known; `got`: what it said, in quotes, or what went wrong in it.
  TemplateRefusal(std::string place, std::string got, std::string_view message)
      : InputError(fmt::format("[{}] {}", place, message)), place_(std::move(place)), got_(std::move(got)) {}

  [[nodiscard]] const std::string& place() const { return place_; }
  [[nodiscard]] const std::string& got() const { return got_; }

 private:
  std::string place_, got_;
};

}  // namespace spillway::text
