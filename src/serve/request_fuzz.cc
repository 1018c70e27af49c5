// Any bytes as the body of a request: a request within its bounds, or an error of one line with a status of the
// client's.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "serve/request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spillway;
  using namespace spillway::serve;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const auto parse : {parse_chat_request, parse_completion_request}) {
    try {
      const GenerationRequest request = parse(body, {});
      SPILLWAY_CHECK(request.choices >= 1 && request.choices <= kMaxChoices, "{} choices", request.choices);
      SPILLWAY_CHECK(request.max_tokens.value_or(1) >= 1, "{} tokens", *request.max_tokens);
      SPILLWAY_CHECK(request.choice.sampling.temperature >= 0, "temperature {}", request.choice.sampling.temperature);
      for (const std::string& stop : request.stop) SPILLWAY_CHECK(!stop.empty(), "an empty stop string");
    } catch (const RequestError& error) {
      const std::string_view message = error.what();
      SPILLWAY_CHECK(error.status() == 400, "status {}", error.status());
      SPILLWAY_CHECK(message.starts_with("[request") && message.find('\n') == std::string_view::npos, "{}", message);
      (void)error.json().dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
    }
  }
  return 0;
}
