#include "data/rows/replaced_places.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"

using namespace spillway;
using namespace spillway::data;

namespace {

using Parts = std::vector<std::string>;

// Shows the parts of a conversation one after another, some of them replaced.
struct Conversation {
  Parts parts;
  std::function<std::string(const Parts&)> show;
  mutable int renders = 0;

  std::string operator()(std::span<const size_t> replaced, std::span<const std::string> texts) const {
    ++renders;
    Parts changed = parts;
    for (size_t i = 0; i < replaced.size(); ++i) changed[replaced[i]] = texts[i];
    return show(changed);
  }
};

// Returns the parts that the search finds, as text. Checks that replacing one part at a time finds the same.
Parts found(const Conversation& conversation) {
  const std::string text = conversation.show(conversation.parts);
  const auto replaced = [&](std::span<const size_t> parts, std::span<const std::string> texts) {
    return conversation(parts, texts);
  };
  const std::vector<Range> places = find_replaced(text, conversation.parts.size(), replaced);
  Parts result;
  for (size_t i = 0; i < places.size(); ++i) {
    const Range& place = places[i];
    const auto size = static_cast<size_t>(std::max<int64_t>(0, place.end - place.begin));
    result.push_back(text.substr(static_cast<size_t>(place.begin), size));
    const int before = conversation.renders;
    const Range alone = difference_with_stand_ins(
        text, [&](const char* stand_in) { return conversation(std::span(&i, 1), std::array{std::string(stand_in)}); });
    conversation.renders = before;
    CHECK((place == alone || (place.begin >= place.end && alone.begin >= alone.end)));
  }
  return result;
}

Parts many(const std::string& pattern, int count) {
  Parts parts;
  for (int i = 0; i < count; ++i) parts.push_back(fmt::format(fmt::runtime(pattern), i));
  return parts;
}

std::string in_turns(const Parts& parts) {
  std::string text = "<s>";
  for (const std::string& part : parts) text += "user: go on\nbot: " + part + "</s>\n";
  return text;
}

}  // namespace

TEST_CASE("a thousand parts are found with few renderings") {
  const Conversation same{many("ok", 1000), in_turns};
  CHECK(found(same) == same.parts);
  CHECK(same.renders == 40);
  const Conversation different{many("answer {} of 1000", 1000), in_turns};
  CHECK(found(different) == different.parts);
  CHECK(different.renders == 40);
  const Conversation few{many("{}", 5), in_turns};
  CHECK(found(few) == few.parts);
  CHECK(few.renders == 10);
}

TEST_CASE("parts that contain what stands between them, and stand-ins, are found one by one") {
  Conversation conversation{many("{}", 40), in_turns};
  conversation.parts[7] = "7</s>\nuser: go on\nbot: 7";
  conversation.parts[20] = "[[dummy_message_21]]";
  CHECK(found(conversation) == conversation.parts);
}

TEST_CASE("where parts change how others are shown, the search is as exact as one by one") {
  const auto hides = [](const Parts& parts) {
    std::string text;
    for (size_t i = 0; i < parts.size(); ++i) {
      const bool hidden = i + 1 < parts.size() && parts[i + 1] == "hide";
      text += "bot: " + (hidden ? "" : parts[i]) + "\n";
    }
    return text;
  };
  Conversation conversation{many("{}", 30), hides};
  conversation.parts[11] = "hide";
  const Parts parts = found(conversation);
  CHECK(parts[12] == "12");
  CHECK(parts[10].empty());
  CHECK(parts[11] == "\nbot: hide");

  const auto refuses_few = [](const Parts& given) {
    const auto replaced = std::count_if(given.begin(), given.end(), [](const auto& part) { return part[0] > '9'; });
    if (replaced > 3) throw input_error("template", "expected digits, got letters; correct them");
    return in_turns(given);
  };
  const Conversation strict{many("{}", 20), refuses_few};
  CHECK(found(strict) == strict.parts);
}
