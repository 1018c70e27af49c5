#include "saved/base_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/sizes.h"
#include "base/text.h"
#include "io/checksum.h"

namespace spillway::train {
namespace {

constexpr int64_t kSampleBytes = 4096;

std::string identify(const SafetensorsFolder& weights, const StoredTensor& tensor) {
  std::string type = tensor.dtype_name + tensor.shape_text();
  if (!tensor.dtype() || tensor.elems() == 0) return type;
  const int64_t elems = tensor.elems(), bytes_per_elem = size_of(*tensor.dtype());
  const int64_t sample = std::min(elems, kSampleBytes / bytes_per_elem);
  auto content = make_vector<std::byte>(sample * bytes_per_elem);
  Checksum sum;
  for (const int64_t first : {int64_t{0}, (elems - sample) / 2, elems - sample}) {
    weights.read_bytes(tensor.name, first * bytes_per_elem, content);  // codes may be called bf16, and be no numbers
    sum.add(content);
  }
  return fmt::format("{} {}", type, sum.text());
}

std::string_view type_of(std::string_view identity) { return identity.substr(0, identity.find(']') + 1); }

}  // namespace

BaseIdentity identify_base(const SafetensorsFolder& weights) {
  BaseIdentity identity;
  for (const auto& [name, entry] : weights.tensors()) identity[name] = identify(weights, *entry.tensor);
  return identity;
}

std::string difference(const BaseIdentity& written, const BaseIdentity& now) {
  for (const auto& [name, identity] : written) {
    const auto found = now.find(name);
    if (found == now.end()) return fmt::format("without {}", quote(name));
    if (found->second == identity) continue;
    const std::string_view theirs = type_of(identity), ours = type_of(found->second);
    if (theirs != ours) return fmt::format("whose {} is {}, not {}", quote(name), ours, theirs);
    return fmt::format("with other values in {}", quote(name));
  }
  for (const auto& [name, identity] : now) {
    if (!written.contains(name)) return fmt::format("with {} besides", quote(name));
  }
  return "";
}

}  // namespace spillway::train
