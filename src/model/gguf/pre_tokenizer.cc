// Pre-tokenizers by the names that GGUF gives them. The expressions are those of the original models' tokenizer.json.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "model/gguf/tokenizer.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

// GPT-2's expression, which the ByteLevel pre-tokenizer has built in.
constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// cl100k and its family: contractions in any case, line breaks apart, digits in runs of at most three or one by one.
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// o200k and Mistral's tekken: words also break where lower case meets upper case.
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepSeekWords =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Json byte_level(bool own_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", own_regex}};
}
Json split(std::string_view regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}
Json digits() { return {{"type", "Digits"}, {"individual_digits", true}}; }
Json sequence(std::initializer_list<Json> steps) {
  return {{"type", "Sequence"}, {"pretokenizers", Json(Json::array_t(steps))}};
}
Json nfc() { return {{"type", "NFC"}}; }

struct Family {
  std::initializer_list<std::string_view> names;
  GgufPreTokenizer (*make)();
};

const Family kFamilies[] = {
    {{"smollm", "starcoder", "refact", "codeshell", "minerva-7b"},
     [] {
       return GgufPreTokenizer{.pre_tokenizer = sequence({digits(), byte_level(true)})};
     }},
    {{"command-r"},
     [] {
       return GgufPreTokenizer{.pre_tokenizer = sequence({digits(), byte_level(true)}), .normalizer = nfc()};
     }},
    {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "gigachat"},
     [] { return GgufPreTokenizer{.pre_tokenizer = byte_level(true)}; }},
    {{"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "midm-2.0", "glm4"},
     [] {
       return GgufPreTokenizer{
           .pre_tokenizer = sequence({split(kLlama3), byte_level(false)}), .ignore_merges = true, .add_bos = true};
     }},
    {{"smaug-bpe", "dbrx"},
     [] {
       return GgufPreTokenizer{.pre_tokenizer = sequence({split(kLlama3), byte_level(false)})};
     }},
    {{"qwen2", "deepseek-r1-qwen", "megrez"},
     [] {
       return GgufPreTokenizer{.pre_tokenizer = sequence({split(kQwen2), byte_level(false)}), .normalizer = nfc()};
     }},
    {{"qwen35"},
     [] {
       return GgufPreTokenizer{.pre_tokenizer = sequence({split(kQwen35), byte_level(false)}), .normalizer = nfc()};
     }},
    {{"stablelm2"},
     [] {
       return GgufPreTokenizer{.pre_tokenizer = sequence({split(kQwen2), byte_level(false)})};
     }},
    {{"seed-coder"},
     [] {
       return GgufPreTokenizer{.pre_tokenizer = sequence({split(kSeedCoder), byte_level(false)})};
     }},
    {{"tekken"},
     [] {
       return GgufPreTokenizer{
           .pre_tokenizer = sequence({split(kTekken), byte_level(false)}), .ignore_merges = true, .add_bos = true};
     }},
    {{"gpt-4o", "llama4"},
     [] {
       return GgufPreTokenizer{.pre_tokenizer = sequence({split(kGpt4o), byte_level(false)})};
     }},
    {{"deepseek-coder"},
     [] {
       return GgufPreTokenizer{.pre_tokenizer =
                                   sequence({split("[\r\n]"), split("\\s?\\p{L}+"), split("\\s?\\p{P}+"),
                                             split("[一-龥ࠀ-一가-퟿]+"), digits(), byte_level(false)})};
     }},
    {{"deepseek-v3"},
     [] {
       return GgufPreTokenizer{.pre_tokenizer = sequence({split("\\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"),
                                                          split(kDeepSeekWords), byte_level(false)})};
     }},
    // The pre-tokenizer that llama.cpp uses for files that name none.
    {{"default"},
     [] {
       return GgufPreTokenizer{.pre_tokenizer =
                                   sequence({split(R"([\p{P}\$\+<=>\^~\|]+)"), split(kGpt2), split("\\p{N}+"),
                                             split("[0-9][0-9][0-9]"), byte_level(false)})};
     }},
};

}  // namespace

std::optional<GgufPreTokenizer> gguf_pre_tokenizer(std::string_view name) {
  for (const Family& family : kFamilies) {
    if (std::find(family.names.begin(), family.names.end(), name) != family.names.end()) return family.make();
  }
  return {};
}

std::vector<std::string> gguf_pre_tokenizer_families() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(*family.names.begin());
  return names;
}

std::string gguf_pre_tokenizer_names() {
  std::string names;
  for (const Family& family : kFamilies) {
    for (const std::string_view name : family.names) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  return names;
}

}  // namespace spillway
