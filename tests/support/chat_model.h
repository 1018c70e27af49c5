// A tiny model that can be talked with: bytes as tokens, a chat template, random weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "io/file.h"
#include "tests/support/random_model.h"

namespace spillway::testing {

// Byte `b` as byte-level BPE spells it in its vocabulary: printable ones as they are, the others from U+0100 on.
inline std::string byte_token(int byte) {
  const auto is_printable = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  int point = byte;
  if (!is_printable(byte)) {
    point = 256;
    for (int before = 0; before < byte; ++before) point += is_printable(before) ? 0 : 1;
  }
  if (point < 0x80) return std::string(1, static_cast<char>(point));
  return {static_cast<char>(0xC0 | (point >> 6)), static_cast<char>(0x80 | (point & 0x3F))};
}

// Id 256 ends an answer; 257 to 259 are roles.
inline void write_chat_tokenizer(const std::filesystem::path& folder) {
  using nlohmann::json;
  constexpr const char* kMarks[] = {"<|end|>", "<|system|>", "<|user|>", "<|assistant|>"};
  json tokenizer = {{"version", "1.0"},
                    {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
                    {"decoder", {{"type", "ByteLevel"}}}};
  tokenizer["model"] = {{"type", "BPE"}, {"merges", json::array()}};
  for (int byte = 0; byte < 256; ++byte) tokenizer["model"]["vocab"][byte_token(byte)] = byte;
  tokenizer["added_tokens"] = json::array();
  for (int i = 0; i < 4; ++i) {
    tokenizer["added_tokens"].push_back({{"id", 256 + i},
                                         {"content", kMarks[i]},
                                         {"special", true},
                                         {"single_word", false},
                                         {"lstrip", false},
                                         {"rstrip", false},
                                         {"normalized", false}});
  }
  write_file(folder / "tokenizer.json", tokenizer.dump());
  write_file(folder / "tokenizer_config.json", R"({"eos_token": "<|end|>"})");
  write_file(folder / "chat_template.jinja",
             "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
             "{% if add_generation_prompt %}<|assistant|>{% endif %}");
}

// `positions` is what the model was made for.
inline void write_chat_model(const std::filesystem::path& folder, int64_t positions = 512) {
  using nlohmann::json;
  write_chat_tokenizer(folder);
  json config = json::parse(
      read_file(std::filesystem::path(SPILLWAY_SOURCE_DIR) / "tests/golden/models/llama2/config.json", 1 << 20));
  config["vocab_size"] = 260;
  config["max_position_embeddings"] = positions;
  config["eos_token_id"] = 256;
  write_random_model(folder, config, 0.5);
}

}  // namespace spillway::testing
