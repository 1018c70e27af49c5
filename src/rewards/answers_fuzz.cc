// Parses any bytes as the answer of a child: returns rewards, or throws an InputError of one line that names the
// function.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "rewards/advantages.h"
#include "rewards/protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  using namespace spillway::rewards;
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  constexpr int64_t kCompletions = 4;
  const auto check_message = [](std::string_view message) {
    SPILLWAY_CHECK(message.starts_with("[where] ") && message.find('\n') == std::string_view::npos, "{}", message);
  };
  try {
    const Answer answer = read_answer(parse_line(line, "f", "where"), 1, kCompletions, "f", "where");
    if (answer.error.empty()) {
      SPILLWAY_CHECK(answer.output.rewards.size() == kCompletions, "{} rewards", answer.output.rewards.size());
      const RewardTable table = table_of({&answer.output, 1}, kCompletions);
      for (const float value : advantages_of(table, std::vector<double>{1.0}, 2, GroupedAdvantages{}).values)
        SPILLWAY_CHECK(std::isfinite(value), "an advantage of {}", value);
    }
  } catch (const InputError& error) {
    check_message(error.what());
  }
  try {
    (void)parse_hello(line, "where");
  } catch (const InputError& error) {
    check_message(error.what());
  }
  return 0;
}
