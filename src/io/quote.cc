#include "io/quote.h"

#include <nlohmann/json.hpp>

namespace spillway {

std::string quote(std::string_view text) {
  constexpr size_t kLongest = 100;
  const bool cut = text.size() > kLongest;
  std::string shown(text.substr(0, kLongest));
  if (cut) shown += "...";
  return nlohmann::json(shown).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace spillway
