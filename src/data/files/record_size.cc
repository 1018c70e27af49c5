#include "data/files/record_size.h"

namespace spillway::data {
namespace {

using Json = nlohmann::ordered_json;

// The overhead of an allocation, and the longest string without one.
constexpr int64_t kAllocationBytes = 16, kInPlaceBytes = 15;

int64_t text_bytes(const std::string& text) {
  const auto capacity = static_cast<int64_t>(text.capacity());
  return capacity > kInPlaceBytes ? capacity + kAllocationBytes : 0;
}

// Returns the memory that the value owns, without its own size.
int64_t owned_bytes(const Json& value) {
  if (value.is_string())
    return static_cast<int64_t>(sizeof(std::string)) + kAllocationBytes +
           text_bytes(value.get_ref<const std::string&>());
  int64_t bytes = 0;
  if (value.is_array()) {
    bytes = static_cast<int64_t>(sizeof(Json::array_t)) + 2 * kAllocationBytes;
    for (const Json& item : value) bytes += static_cast<int64_t>(sizeof(Json)) + owned_bytes(item);
  } else if (value.is_object()) {
    bytes = static_cast<int64_t>(sizeof(Json::object_t)) + 2 * kAllocationBytes;
    for (const auto& [name, item] : value.get_ref<const Json::object_t&>())
      bytes += static_cast<int64_t>(sizeof(Json::object_t::value_type)) + text_bytes(name) + owned_bytes(item);
  }
  return bytes;
}

}  // namespace

int64_t held_bytes(const Record& record) {
  return static_cast<int64_t>(sizeof(Record)) + text_bytes(record.where) + owned_bytes(record.fields);
}

}  // namespace spillway::data
