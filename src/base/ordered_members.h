// Builds objects of many members: nlohmann::ordered_json looks for a name among all members, one after the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

namespace spillway {

// The members of an ordered object that is being built. Each is found and added in constant time.
class OrderedMembers {
 public:
  using Json = nlohmann::ordered_json;

  // REQUIRES: `object` is an object, outlives this, and gets members only here.
  explicit OrderedMembers(Json& object) : members_(&object.get_ref<Json::object_t&>()) {}

  // Returns the member of that name, which is null where it was not there. Valid until the next call.
  Json& operator[](const std::string& name) {
    if (const size_t place = place_of(name); place < members_->size()) return (*members_)[place].second;
    if (!places_.empty()) places_.emplace(name, members_->size());
    members_->emplace_back(name, Json());
    return members_->back().second;
  }

 private:
  // Fewer members are found sooner without an index.
  static constexpr size_t kFew = 32;

  // Returns the number of members where none has the name.
  [[nodiscard]] size_t place_of(const std::string& name) {
    if (members_->size() < kFew) {
      const auto found =
          std::find_if(members_->begin(), members_->end(), [&](const auto& member) { return member.first == name; });
      return static_cast<size_t>(found - members_->begin());
    }
    if (places_.empty()) {
      for (size_t i = 0; i < members_->size(); ++i) places_.emplace((*members_)[i].first, i);
    }
    const auto found = places_.find(name);
    return found == places_.end() ? members_->size() : found->second;
  }

  Json::object_t::Container* members_;
  std::unordered_map<std::string, size_t> places_;
};

}  // namespace spillway
