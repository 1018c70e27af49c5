// Tiny models of all families beside what llama.cpp's converter makes of them: tests/golden/export/families.json
// (tools/make_gguf_family_goldens.py).
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/temporary_folder.h"
#include "io/checksum.h"
#include "io/file.h"
#include "io/gguf.h"
#include "io/safetensors_writer.h"
#include "model/gguf/export.h"
#include "tests/support/source_folder.h"

namespace spillway::testing {

namespace fs = std::filesystem;
using nlohmann::json;

inline const fs::path kExportGoldens = source_folder() / "tests" / "golden" / "export";

inline const json& family_goldens() {
  static const json families = json::parse(read_file(kExportGoldens / "families.json", 1 << 20));
  return families;
}

// The numbers that the goldens' script gives a tensor, by its name.
inline std::vector<float> values_of(const std::string& name, const std::vector<int64_t>& shape) {
  uint32_t seed = 0;
  for (const char byte : name) seed = seed * 31 + static_cast<unsigned char>(byte);
  int64_t elems = 1;
  for (const int64_t size : shape) elems *= size;
  std::vector<float> values;
  for (int64_t i = 1; i <= elems; ++i) {
    const auto mixed = static_cast<uint32_t>((static_cast<uint64_t>(i) + seed) * 2654435761U);
    values.push_back((static_cast<float>(mixed >> 21) - 1024) / 1024);
  }
  return values;
}

inline void write_weights(const fs::path& file, const json& shapes) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, shape] : shapes.items()) specs.push_back({name, DType::kF32, shape});
  SafetensorsWriter writer(file, specs);
  for (const TensorSpec& spec : specs)
    writer.append(spec.name, values_of(spec.name, spec.shape).data(), DType::kF32, spec.elems());
  writer.commit();
}

// Ninety-six tokens without merges.
inline json small_tokenizer() {
  json vocabulary = json::object();
  for (int id = 0; id < 96; ++id) vocabulary["t" + std::to_string(id)] = id;
  return {{"added_tokens", json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}}};
}

inline fs::path write_family(const TemporaryFolder& folder, const json& family) {
  const fs::path model = folder.path() / "model";
  fs::create_directory(model);
  write_file(model / "config.json", family.at("config").dump());
  write_file(model / "tokenizer.json", small_tokenizer().dump());
  write_weights(model / "model.safetensors", family.at("weights"));
  return model;
}

inline ExportOptions in_type(std::string_view type) { return {.type = &find_gguf_file_type(type)}; }

inline json shown(const GgufValue& value) {
  return std::visit([](const auto& one) { return json(one); }, value);
}

// Lists of bool are read as lists of numbers.
inline json numbers_for_bools(const json& value) {
  if (!value.is_array() || value.empty() || !value[0].is_boolean()) return value;
  json result = json::array();
  for (const json& one : value) result.push_back(one.get<bool>() ? 1 : 0);
  return result;
}

// Returns true for a number that the converter writes of a Granite 4 without experts, or without states, and that
// llama.cpp does not use there.
inline bool is_idle(const std::string& family, const std::string& key) {
  const bool is_of_states = key.find(".ssm.") != std::string::npos,
             is_of_experts = key.find(".expert_") != std::string::npos;
  return (family == "granite4_attention" && is_of_states) ||
         (family.starts_with("granite4") && family != "granite4_moe" && is_of_experts);
}

// Returns true for what Mistral Small 4's queries grow by, which llama.cpp reads, and the converter leaves out.
inline bool is_left_out(const std::string& key) { return key.starts_with("mistral4.attention.temperature_"); }

// A list may stand for the number that all its elements are.
inline bool is_same(const json& value, const json& expected) {
  if (value == expected) return true;
  return expected.is_array() && !expected.empty() && value == expected[0] &&
         std::all_of(expected.begin(), expected.end(), [&](const json& one) { return one == value; });
}

inline void check_metadata(const GgufFile& file, const json& expected, const std::string& family) {
  for (const auto& [key, value] : expected.items()) {
    INFO(key);
    if (is_idle(family, key) && !file.metadata().contains(key)) continue;
    REQUIRE(file.metadata().contains(key));
    CHECK(is_same(shown(file.metadata().at(key)), numbers_for_bools(value)));
  }
  for (const auto& [key, value] : file.metadata()) {
    INFO(key);
    CHECK((expected.contains(key) || key.starts_with("tokenizer.") || key == "general.name" ||
           key == "general.file_type" || is_left_out(key)));
  }
}

inline void check_tensors(const GgufFile& file, const json& expected, const std::string& type) {
  const std::string bytes = read_file(file.path(), 1 << 20);
  CHECK(file.tensors().size() == expected.size());
  for (const auto& [name, tensor] : expected.items()) {
    INFO(name);
    const GgufTensor* found = file.find_tensor(name);
    REQUIRE(found != nullptr);
    CHECK(json(found->shape) == tensor.at("shape"));
    const auto* data = reinterpret_cast<const std::byte*>(bytes.data()) + found->offset;
    const std::string sum = checksum_text({data, static_cast<size_t>(found->bytes)});
    CHECK(std::string(layout_of(found->type).name) + " " + sum == tensor.at(type).get<std::string>());
  }
}

}  // namespace spillway::testing
