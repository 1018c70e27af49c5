#include "graph/attributes.h"

#include "base/error.h"

namespace spillway {

Attributes::Attributes(std::initializer_list<std::pair<std::string_view, Number>> entries) : entries_(entries) {}

const Attributes::Number* Attributes::find(std::string_view name) const {
  for (const auto& [key, number] : entries_) {
    if (key == name) return &number;
  }
  return nullptr;
}

bool Attributes::set(std::string_view name, Number number) {
  for (auto& [key, old] : entries_) {
    if (key != name) continue;
    old = number;
    return true;
  }
  return false;
}

int64_t Attributes::integer(std::string_view name) const {
  const Number* number = find(name);
  SPILLWAY_CHECK(number && std::holds_alternative<int64_t>(*number), "no integer attribute '{}'", name);
  return std::get<int64_t>(*number);
}

double Attributes::real(std::string_view name) const {
  const Number* number = find(name);
  SPILLWAY_CHECK(number && std::holds_alternative<double>(*number), "no real attribute '{}'", name);
  return std::get<double>(*number);
}

int64_t Attributes::integer_or(std::string_view name, int64_t fallback) const {
  return find(name) ? integer(name) : fallback;
}

std::string to_string(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, number] : attributes.entries()) {
    if (!text.empty()) text += ", ";
    std::visit([&text, &name = name](auto n) { text += fmt::format("{}={}", name, n); }, number);
  }
  return text;
}

}  // namespace spillway
