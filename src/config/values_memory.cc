// The values of keys about memory that are mappings.
#include <algorithm>

#include "config/values.h"

namespace spillway::config {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// One word or a list of them.
template <Enumeration E>
void read_named_words(const YamlNode& node, const KeyPlace& place, std::vector<E>& value) {
  std::vector<std::string> names;
  read_value(node, place, {}, names);
  value.clear();
  for (size_t i = 0; i < names.size(); ++i) {
    read_value(YamlNode::scalar(names[i]), node.kind == YamlNode::Kind::kList ? place.at(i) : place, {},
               value.emplace_back());
  }
}

}  // namespace

void read_value(const YamlNode& node, const KeyPlace& place, const Range& range, SelectiveCheckpointing& value) {
  value = {};
  if (node.kind != YamlNode::Kind::kMap) {
    read_value(node, place, range, value.enabled);
    return;
  }
  value.enabled = true;
  for (const auto& entry : node.entries) {
    constexpr std::string_view kKeys[] = {
        "save", "offload", "save_sliding_window", "recompute_layer_types", "save_modules", "save_matmul_min_k"};
    const KeyPlace here = place.at(entry);
    if (std::find(std::begin(kKeys), std::end(kKeys), entry.key) == std::end(kKeys)) {
      const std::string_view near = nearest_name(entry.key, kKeys);
      throw input_error(here.text(), "expected {}, got {}; {}", joined_names(kKeys), quote(entry.key),
                        near.empty() ? "remove it" : fmt::format("did you mean {}?", near));
    }
    if (entry.value.is_null()) continue;
    if (entry.key == "offload") {
      read_value(entry.value, here, range, value.offload);
    } else if (entry.key == "save_sliding_window") {
      read_value(entry.value, here, range, value.save_sliding_window);
    } else if (entry.key == "save_modules" || entry.key == "save_matmul_min_k") {
      throw NotYetError(
          fmt::format("[{}] expected nothing, got {}; a choice of products is not yet supported: remove "
                      "the key",
                      here.text(), entry.value.shown()));
    } else if (entry.key == "recompute_layer_types") {
      read_named_words(entry.value, here, value.recompute_layer_types);
    } else {
      read_named_words(entry.value, here, value.save);
    }
  }
}

std::string print_value(const SelectiveCheckpointing& value) { return print_value(value.enabled); }

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, MaxMemory& value) {
  value.sizes.clear();
  const auto add = [&](const std::string& name, const YamlNode& size, const KeyPlace& here) {
    if (!is_number(name) && name != "cpu" && name != "disk") {
      throw input_error(here.text(), "expected a device's number, cpu or disk, got {}; remove it", quote(name));
    }
    if (size.kind != YamlNode::Kind::kScalar) {
      throw input_error(here.text(), "expected a size such as 20GiB, got {}; write one", size.shown());
    }
    value.sizes[name] = size.text;
  };
  if (node.kind == YamlNode::Kind::kScalar) {
    throw input_error(place.text(), "expected a mapping, got {}; write `0: 20GiB` lines below the key", node.shown());
  }
  for (const auto& entry : node.entries) add(entry.key, entry.value, place.at(entry));
  for (size_t i = 0; i < node.items.size(); ++i) add(fmt::format("{}", i), node.items[i], place.at(i));
}

}  // namespace spillway::config
