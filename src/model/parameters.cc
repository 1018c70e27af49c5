#include "model/parameters.h"

#include <algorithm>

#include "base/error.h"

namespace spillway {

size_t ParameterTable::add(Parameter parameter) {
  const bool is_new = index_.emplace(parameter.name, list_.size()).second;
  SPILLWAY_CHECK(is_new, "{} is there twice", parameter.name);
  list_.push_back(std::move(parameter));
  return list_.size() - 1;
}

const Parameter* ParameterTable::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &list_[found->second];
}

const Parameter* ParameterTable::find_written(std::string_view name) const {
  const auto found =
      std::find_if(list_.begin(), list_.end(), [&](const Parameter& p) { return p.written_name() == name; });
  return found == list_.end() ? nullptr : &*found;
}

std::string_view experts_module(std::string_view projection) {
  for (int i = 0; i < 2; ++i) projection = projection.substr(0, projection.rfind('.'));
  return projection;
}

bool ParameterTable::is_of_other_part(std::string_view tensor) const {
  return has_other_parts() && std::none_of(own_beginnings_.begin(), own_beginnings_.end(),
                                           [&](const std::string& own) { return tensor.starts_with(own); });
}

bool ParameterTable::ignores(std::string_view tensor) const {
  return std::any_of(ignored_endings_.begin(), ignored_endings_.end(),
                     [&](const std::string& ending) { return tensor.ends_with(ending); });
}

void ParameterTable::forget_values() {
  for (Parameter& parameter : list_) parameter.values.clear();
}

}  // namespace spillway
