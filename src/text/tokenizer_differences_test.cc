#include "text/tokenizer_differences.h"

#include <doctest/doctest.h>

#include <string>

#include "base/temporary_folder.h"
#include "io/file.h"

using namespace spillway;

namespace {

// A folder whose files say this, of a Llama 2.
struct LlamaFolder {
  explicit LlamaFolder(const std::string& tokenizer_config, const std::string& model_type = "llama",
                       const std::string& normalizer = R"({"type": "Prepend", "prepend": "▁"})") {
    write_file(files.path() / "tokenizer_config.json", tokenizer_config);
    write_file(files.path() / "config.json", R"({"model_type":")" + model_type + "\"}");
    write_file(files.path() / "tokenizer.json",
               R"({"normalizer": )" + normalizer + R"(, "model": {"vocab": {"Prepend": 0}}})");
  }
  TemporaryFolder files;
};

}  // namespace

TEST_CASE("a Llama tokenizer that transformers 5 makes anew is named, and no other") {
  constexpr const char* kLlama = R"({"tokenizer_class": "LlamaTokenizer"})";
  const auto said = [](const LlamaFolder& folder) { return text::other_ids_in_transformers(folder.files.path()); };
  CHECK(said(LlamaFolder(kLlama)).find("transformers 5 makes its LlamaTokenizer anew") != std::string::npos);
  CHECK_FALSE(said(LlamaFolder(R"({"tokenizer_class": "LlamaTokenizerFast"})")).empty());
  CHECK(said(LlamaFolder(R"({"tokenizer_class": "PreTrainedTokenizerFast"})")).empty());
  CHECK(said(LlamaFolder(kLlama, "mistral")).empty());
  CHECK(said(LlamaFolder(kLlama, "llama", "null")).empty());
}

TEST_CASE("a tokenizer that transformers 5 makes anew as Qwen's is named if it is another") {
  const TemporaryFolder files;
  const auto said = [&](const char* name, const char* model_type, const std::string& tokenizer) {
    write_file(files.path() / "tokenizer_config.json", std::string(R"({"tokenizer_class":")") + name + "\"}");
    write_file(files.path() / "config.json", std::string(R"({"model_type":")") + model_type + "\"}");
    write_file(files.path() / "tokenizer.json", tokenizer);
    return text::other_ids_in_transformers(files.path());
  };
  // The rules of transformers' Qwen2Tokenizer, as it saves them.
  const std::string qwens =
      R"({"normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}}]}})";
  CHECK(said("Qwen2Tokenizer", "qwen2", qwens).empty());
  const std::string others = R"({"normalizer":null,"pre_tokenizer":{"type":"ByteLevel"}})";
  CHECK(said("PreTrainedTokenizerFast", "qwen2", others).find("makes its Qwen2Tokenizer anew") != std::string::npos);
  CHECK_FALSE(said("Qwen2Tokenizer", "qwen3", others).empty());
  CHECK(said("PreTrainedTokenizerFast", "qwen3", others).empty());
}

TEST_CASE("a tokenizer that says how to take answers apart is named") {
  const auto said = [](const char* config) { return text::other_answers_in_trl(LlamaFolder(config).files.path()); };
  CHECK(said(R"({"response_template": "{}"})").find("response_template: TRL's GRPO") != std::string::npos);
  CHECK(said(R"({"response_schema": {"type": "object"}})").find("response_schema") != std::string::npos);
  CHECK(said(R"({"response_template": null})").empty());
  CHECK(said("{}").empty());
}
