#include "model/gguf/import.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "io/gguf_writer.h"
#include "io/safetensors.h"
#include "model/gguf/export.h"
#include "model/gguf/mixture.h"
#include "model/gguf/tokenizer.h"
#include "model/model.h"
#include "model/weights.h"

namespace fs = std::filesystem;
using namespace spillway;

namespace {

const fs::path kImportGolden = fs::path(SPILLWAY_SOURCE_DIR) / "tests" / "golden" / "import";

nlohmann::json read_json(const fs::path& path) { return nlohmann::json::parse(read_file(path, 1 << 20)); }

// A copy of a golden GGUF file with one text in it replaced by another of the same length.
fs::path altered(const TemporaryFolder& folder, const std::string& name, std::string_view from, std::string_view to) {
  REQUIRE(from.size() == to.size());
  std::string bytes = read_file(kImportGolden / name, 1 << 20);
  const size_t at = bytes.find(from);
  REQUIRE(at != std::string::npos);
  bytes.replace(at, from.size(), to);
  write_file(folder.path() / name, bytes);
  return folder.path() / name;
}

template <typename T>
std::string little_endian(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}
std::string gguf_text(std::string_view text) { return little_endian<uint64_t>(text.size()) + std::string(text); }

constexpr uint32_t kU32 = 4, kF32 = 6, kBool = 7, kText = 8;

// The bytes of a key with its value.
template <typename T>
std::string gguf_key(std::string_view key, uint32_t type, T value) {
  return gguf_text(key) + little_endian(type) + little_endian(value);
}
std::string gguf_key(std::string_view key, std::string_view value) {
  return gguf_text(key) + little_endian(kText) + gguf_text(value);
}

// A copy of the golden qwen2.gguf with further keys. The data behind stay aligned.
fs::path with_keys(const TemporaryFolder& folder, const std::vector<std::string>& more) {
  constexpr size_t kHeader = 24, kAlignment = 32, kFixed = 16;
  std::string added;
  for (const std::string& key : more) added += key;
  const size_t filler = kAlignment + kAlignment - (added.size() + kFixed) % kAlignment;
  added += gguf_key(std::string(filler, 'x'), kU32, uint32_t{0});
  std::string bytes = read_file(kImportGolden / "qwen2.gguf", 1 << 20);
  uint64_t keys = 0;
  std::memcpy(&keys, bytes.data() + 16, sizeof(keys));
  bytes.replace(16, sizeof(keys), little_endian(keys + more.size() + 1));
  bytes.insert(kHeader, added);
  write_file(folder.path() / "changed.gguf", bytes);
  return folder.path() / "changed.gguf";
}

// One that says how its rope is stretched.
fs::path stretched(const TemporaryFolder& folder, const std::string& type, float factor) {
  return with_keys(folder,
                   {gguf_key("qwen2.rope.scaling.type", type), gguf_key("qwen2.rope.scaling.factor", kF32, factor)});
}

}  // namespace

TEST_CASE("an imported folder has the settings and the weights of the original model") {
  for (const std::string name : {"llama", "mistral", "qwen2", "qwen3"}) {
    INFO(name);
    const TemporaryFolder folder;
    const fs::path out = folder.path() / "model";
    const ImportReport report = import_gguf(kImportGolden / (name + ".gguf"), out, {.dtype = DType::kF32});

    const auto config = read_json(out / "config.json");
    const auto original = read_json(kImportGolden / (name + ".json"));
    for (const auto& [key, value] : original.items()) {
      INFO(key);
      CHECK(config.at(key) == value);
    }
    CHECK_NOTHROW((void)open_model_weights(out, parameters_of(*read_model(out))));

    const SafetensorsFile golden(kImportGolden / (name + ".safetensors"));
    const SafetensorsFolder imported(out);
    CHECK(imported.tensors().size() == golden.tensors().size());
    CHECK(report.tensors == static_cast<int64_t>(golden.tensors().size()));
    for (const StoredTensor& tensor : golden.tensors()) {
      INFO(tensor.name);
      const StoredTensor* found = imported.find(tensor.name);
      REQUIRE(found != nullptr);
      CHECK(found->shape == tensor.shape);
      const auto elems = static_cast<size_t>(tensor.elems());
      std::vector<float> expected(elems), values(elems);
      golden.read(tensor, 0, tensor.elems(), DType::kF32, expected.data());
      imported.read(tensor.name, DType::kF32, values.data());
      CHECK(values == expected);
    }
  }
}

TEST_CASE("an import in bf16 rounds each value once, and shards where asked") {
  const TemporaryFolder folder;
  import_gguf(kImportGolden / "qwen3.gguf", folder.path() / "model", {.dtype = DType::kBF16, .max_shard_bytes = 4096});
  CHECK(fs::exists(folder.path() / "model" / "model.safetensors.index.json"));
  const SafetensorsFile golden(kImportGolden / "qwen3.safetensors");
  const SafetensorsFolder imported(folder.path() / "model");
  for (const StoredTensor& tensor : golden.tensors()) {
    std::vector<bf16> expected(static_cast<size_t>(tensor.elems())), values(expected.size());
    golden.read(tensor, 0, tensor.elems(), DType::kBF16, expected.data());
    imported.read(tensor.name, DType::kBF16, values.data());
    CHECK(imported.find(tensor.name)->dtype_name == "BF16");
    CHECK(std::equal(values.begin(), values.end(), expected.begin(), [](bf16 a, bf16 b) { return a.bits == b.bits; }));
  }
}

TEST_CASE("a byte-level vocabulary becomes the tokenizer that its pre-tokenizer's name stands for") {
  const TemporaryFolder folder;
  import_gguf(kImportGolden / "qwen3.gguf", folder.path() / "model");
  const auto tokenizer = read_json(folder.path() / "model" / "tokenizer.json");
  CHECK(tokenizer["pre_tokenizer"]["pretokenizers"][0] ==
        nlohmann::json{{"type", "Digits"}, {"individual_digits", true}});
  CHECK(tokenizer["pre_tokenizer"]["pretokenizers"][1]["type"] == "ByteLevel");
  CHECK(tokenizer["model"]["vocab"].size() == 264);
  CHECK(tokenizer["model"]["merges"].size() == 5);
  CHECK(tokenizer["model"]["unk_token"].is_null());
  CHECK(tokenizer["post_processor"]["type"] == "ByteLevel");
  REQUIRE(tokenizer["added_tokens"].size() == 3);
  CHECK(tokenizer["added_tokens"][0]["special"] == true);
  CHECK(tokenizer["added_tokens"][2]["content"] == "<tool>");
  CHECK(tokenizer["added_tokens"][2]["special"] == false);
  const auto config = read_json(folder.path() / "model" / "tokenizer_config.json");
  CHECK(config["bos_token"] == "<|start|>");
  CHECK(config["chat_template"] == "{{ messages[0]['content'] }}");
  CHECK(read_json(folder.path() / "model" / "generation_config.json")["eos_token_id"] == nlohmann::json{0, 2});
}

TEST_CASE("tokens that a converter added as padding stay out of the tokenizer but not out of the embedding") {
  const TemporaryFolder folder;
  import_gguf(kImportGolden / "qwen2.gguf", folder.path() / "model");
  const auto tokenizer = read_json(folder.path() / "model" / "tokenizer.json");
  CHECK(tokenizer["model"]["vocab"].size() == 264);
  CHECK(tokenizer["normalizer"]["type"] == "NFC");
  CHECK(read_json(folder.path() / "model" / "config.json")["vocab_size"] == 269);
}

TEST_CASE("a SentencePiece vocabulary gets merges, byte fallback and a BOS") {
  const TemporaryFolder folder;
  import_gguf(kImportGolden / "llama.gguf", folder.path() / "model");
  const auto tokenizer = read_json(folder.path() / "model" / "tokenizer.json");
  CHECK(tokenizer["model"]["byte_fallback"] == true);
  CHECK(tokenizer["model"]["unk_token"] == "<unk>");
  CHECK(tokenizer["post_processor"]["single"][0]["SpecialToken"]["id"] == "<s>");
  CHECK(tokenizer["post_processor"]["special_tokens"]["<s>"]["ids"] == nlohmann::json{1});
  CHECK(tokenizer["normalizer"]["normalizers"][0]["prepend"] == "▁");
  CHECK(tokenizer["decoder"]["decoders"].size() == 4);
  CHECK(tokenizer["pre_tokenizer"].is_null());
  const std::vector<std::string> merges = tokenizer["model"]["merges"];
  CHECK(merges == std::vector<std::string>{"l l", "h e", "he llo", "ll o", "▁ hello"});
}

TEST_CASE("a Gemma 4's vocabulary has the merges that its file lists, and no space before texts") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "vocabulary.gguf";
  const std::vector<std::string> tokens = {"<pad>", "<bos>", "a", "▁", "b", "ab", "▁a"};
  GgufWriter writer(file,
                    {{"general.architecture", "gemma4"},
                     {"tokenizer.ggml.model", "gemma4"},
                     {"tokenizer.ggml.tokens", tokens},
                     {"tokenizer.ggml.token_type", std::vector<int32_t>{3, 3, 1, 1, 1, 1, 1}},
                     {"tokenizer.ggml.bos_token_id", uint32_t{1}},
                     {"tokenizer.ggml.merges", std::vector<std::string>{"▁ a", "a b"}}},
                    {});
  writer.commit();
  const GgufTokenizerFiles files = convert_gguf_tokenizer(GgufFile(file));
  CHECK(files.tokenizer["model"]["merges"] == nlohmann::ordered_json{"▁ a", "a b"});
  CHECK(files.tokenizer["normalizer"]["type"] == "Replace");
  CHECK(files.tokenizer["post_processor"]["single"][0]["SpecialToken"]["id"] == "<bos>");
}

TEST_CASE("merges come best score first, then with the longest left part") {
  const std::vector<std::string> pieces = {"a", "b", "ab", "aab", "aa", "é", "aé", "<x>", "x"};
  const std::vector<double> scores = {0, 0, -3, -1, -3, 0, -3, 0, 0};
  const std::vector<bool> usable = {true, true, true, true, true, true, true, false, true};
  CHECK(merges_from_scores(pieces, scores, usable) == std::vector<std::string>{"aa b", "a ab", "a b", "a a", "a é"});
}

TEST_CASE("every known pre-tokenizer can be made, and others are named with the known ones") {
  const std::string names = gguf_pre_tokenizer_names();
  for (const std::string name : {"smollm", "llama-bpe", "qwen2", "gpt-2", "default", "tekken"}) {
    INFO(name);
    CHECK(names.find(name) != std::string::npos);
    const auto pre = gguf_pre_tokenizer(name);
    REQUIRE(pre);
    CHECK(pre->pre_tokenizer.contains("type"));
  }
  CHECK_FALSE(gguf_pre_tokenizer("elvish"));
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(import_gguf(altered(folder, "qwen3.gguf", "smollm", "elvish"), folder.path() / "model"),
                       doctest::Contains("got 'elvish'"), InputError);
  CHECK_FALSE(fs::exists(folder.path() / "model"));
}

TEST_CASE("files that cannot become a folder are refused before anything is written") {
  const TemporaryFolder folder;
  const auto refused = [&](std::string_view name, std::string_view from, std::string_view to, const char* message) {
    INFO(message);
    CHECK_THROWS_WITH_AS(import_gguf(altered(folder, std::string(name), from, to), folder.path() / "model"),
                         doctest::Contains(message), InputError);
    CHECK_FALSE(fs::exists(folder.path() / "model"));
  };
  refused("qwen2.gguf", std::string("\5\0\0\0\0\0\0\0qwen2", 13), std::string("\5\0\0\0\0\0\0\0qwen9", 13),
          "qwen3, qwen35, qwen35moe, qwen3moe, qwen3next, seed_oss or smollm3, got 'qwen9'");
  refused("qwen2.gguf", "blk.1.ffn_up.weight", "blk.1.ffn_xp.weight",
          "expected a tensor blk.1.ffn_up.weight of [24, 16], got none");
  refused("qwen2.gguf", "tokenizer.ggml.tokens", "tokenizer.ggml.tokenz",
          "expected the key 'tokenizer.ggml.tokens', got none");
  refused("qwen2.gguf", "qwen2.block_count", "qwen2.block_c0unt", "'qwen2.block_count'");
  refused("qwen2.gguf", "<tool>", "<\xFFool>", "in UTF-8");
  refused("qwen2.gguf", "Ġ hello", "Ġ hexxo", "expected merges of two tokens into a third, got 'Ġ hexxo'");
  refused("llama.gguf", "rope_freqs.weight", "rope_freqz.weight", "got 'rope_freqz.weight' as well");
}

TEST_CASE("a model that the folder's reader would refuse is refused by the file's name before anything is written") {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "model";
  const auto error = [&](const std::string& type, float factor) {
    try {
      import_gguf(stretched(folder, type, factor), out);
    } catch (const InputError& refused) {
      CHECK_FALSE(fs::exists(out));
      return std::string(refused.what());
    }
    return std::string("no error");
  };
  const std::string file = (folder.path() / "changed.gguf").string();
  CHECK(error("dynamic", 4) == "[" + file +
                                   "] expected qwen2.rope.scaling.type to be none, linear or yarn, got 'dynamic'; use "
                                   "the model's original folder");
  CHECK(error("linear", 1e9F).starts_with("[" + file + ": config.json: rope_scaling.factor] expected"));
  CHECK(error("linear", 4) == "no error");
  CHECK(read_model(out)->text());
}

TEST_CASE("keys that change what a model computes, and that config.json cannot say, are refused") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::vector<std::string>& keys, const char* message) {
    CHECK_THROWS_WITH_AS(import_gguf(with_keys(folder, keys), folder.path() / "model"), doctest::Contains(message),
                         InputError);
    CHECK_FALSE(fs::exists(folder.path() / "model"));
  };
  const std::string factor = gguf_key("qwen2.rope.scaling.attn_factor", kF32, 1.5F);
  const std::string yarn = gguf_key("qwen2.rope.scaling.type", "yarn");
  for (const std::vector<std::string>& keys : {std::vector{factor}, {factor, yarn}})
    refused(keys, "expected qwen2.rope.scaling.attn_factor to be 1, got 1.5; use the model's original folder");
  refused({gguf_key("qwen2.attention.causal", kBool, uint8_t{0})},
          "expected qwen2.attention.causal to be true, got false");
  refused({gguf_key("split.count", kU32, uint32_t{3})}, "got one of 3 parts; join them with");
  import_gguf(with_keys(folder, {gguf_key("qwen2.rope.scaling.attn_factor", kF32, 1.0F),
                                 gguf_key("qwen2.attention.causal", kBool, uint8_t{1}),
                                 gguf_key("split.count", kU32, uint32_t{1})}),
              folder.path() / "model");
}

TEST_CASE("a SentencePiece vocabulary without kinds of tokens and marks has llama.cpp's") {
  const TemporaryFolder folder;
  const auto imported = [&](const fs::path& file) {
    fs::remove_all(folder.path() / "model");
    import_gguf(file, folder.path() / "model");
    return std::pair{read_json(folder.path() / "model" / "tokenizer.json"),
                     read_json(folder.path() / "model" / "config.json")};
  };
  const auto [tokenizer, config] = imported(kImportGolden / "llama.gguf");
  for (const char* key : {"bos_token_id", "eos_token_id", "unknown_token_id"}) {
    std::string other = key;
    other.back() = 'x';
    CAPTURE(other);
    const auto [left_out, its_config] = imported(altered(folder, "llama.gguf", key, other));
    CHECK(left_out == tokenizer);
    CHECK(its_config == config);
  }
  const auto [left_out, its_config] = imported(altered(folder, "llama.gguf", "token_type", "token_typx"));
  CHECK(left_out["model"]["byte_fallback"] == true);
  CHECK(left_out["post_processor"] == tokenizer["post_processor"]);
}

TEST_CASE("an import keeps the type of most of the file's matrices") {
  const TemporaryFolder folder;
  import_gguf(kImportGolden / "llama.gguf", folder.path() / "exact", {.dtype = DType::kF32});
  for (const auto& [type, dtype] : {std::pair{"f32", DType::kF32}, {"f16", DType::kF16}, {"bf16", DType::kBF16}}) {
    const fs::path file = folder.path() / "x.gguf";
    fs::remove(file);
    export_gguf(folder.path() / "exact", {}, file, {.type = &find_gguf_file_type(type)});
    fs::remove_all(folder.path() / "back");
    CHECK(import_gguf(file, folder.path() / "back").dtype == dtype);
  }
}

TEST_CASE("a file of an adapter is told from a model's") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "adapter.gguf";
  GgufWriter writer(file, {{"general.architecture", "llama"}, {"general.type", "adapter"}}, {});
  writer.commit();
  CHECK_THROWS_WITH_AS(import_gguf(file, folder.path() / "model"),
                       doctest::Contains("the file of a whole model, got one whose general.type is 'adapter'"),
                       InputError);
}

TEST_CASE("a folder with files is not overwritten") {
  const TemporaryFolder folder;
  write_file(folder.path() / "mine", "");
  CHECK_THROWS_WITH_AS(import_gguf(kImportGolden / "qwen3.gguf", folder.path()),
                       doctest::Contains("to name a new or empty folder"), InputError);
  fs::create_directory(folder.path() / "empty");
  CHECK_NOTHROW(import_gguf(kImportGolden / "qwen3.gguf", folder.path() / "empty"));
}
