#include "model/gguf/export.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "model/gguf/import.h"
#include "text/tokenizer.h"

namespace fs = std::filesystem;
using namespace spillway;

namespace {

// Folders, and what llama.cpp's own converter makes of them (tools/make_export_goldens.py).
const fs::path kExportGolden = fs::path(SPILLWAY_SOURCE_DIR) / "tests" / "golden" / "export";

std::string bytes_of(const GgufFile& file, const GgufTensor& tensor) {
  return read_file(file.path(), 1 << 20).substr(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.bytes));
}

void check_same_tensors(const GgufFile& ours, const GgufFile& theirs) {
  CHECK(ours.tensors().size() == theirs.tensors().size());
  for (const auto& [name, expected] : theirs.tensors()) {
    INFO(name);
    const GgufTensor* tensor = ours.find_tensor(name);
    REQUIRE(tensor != nullptr);
    CHECK(tensor->shape == expected.shape);
    CHECK(layout_of(tensor->type).name == layout_of(expected.type).name);
    CHECK(bytes_of(ours, *tensor) == bytes_of(theirs, expected));
  }
}

// `free`: keys whose values are each program's own.
void check_same_metadata(const GgufFile& ours, const GgufFile& theirs, const std::set<std::string>& free) {
  for (const auto& [key, value] : theirs.metadata()) {
    INFO(key);
    if (free.contains(key)) continue;
    REQUIRE(ours.metadata().contains(key));
    CHECK(ours.metadata().at(key) == value);
  }
  for (const auto& [key, value] : ours.metadata()) {
    INFO(key);
    CHECK((theirs.metadata().contains(key) || free.contains(key)));
  }
}

ExportOptions as(std::string_view type) { return {.type = &find_gguf_file_type(type)}; }

// A copy of a golden folder.
fs::path copied(const TemporaryFolder& folder, std::string_view name) {
  const fs::path to = folder.path() / "model";
  fs::copy(kExportGolden / name, to, fs::copy_options::recursive);
  return to;
}

void change(const fs::path& path, const std::function<void(nlohmann::json&)>& edit) {
  auto json = nlohmann::json::parse(read_file(path, 1 << 20));
  edit(json);
  write_file(path, json.dump());
}

const std::vector<std::string> kTexts = {
    "hello", " hello hello", "he said: <tool> 123 45", "<|start|>hello", "Übergröße 漢字\n\n  x", "\t'll don't", ""};

}  // namespace

TEST_CASE("an exported file has the tensors and the metadata that llama.cpp's converter writes") {
  for (const auto& [name, type] : {std::pair<std::string, std::string>{"llama", "q8_0"},
                                   {"mistral", "f16"},
                                   {"qwen2", "bf16"},
                                   {"qwen3", "f32"},
                                   {"qwen3", "q8_0"}}) {
    INFO(name, " ", type);
    const TemporaryFolder folder;
    const fs::path file = folder.path() / "x.gguf";
    const ExportReport report = export_gguf(kExportGolden / name, {}, file, as(type));
    const GgufFile ours(file), theirs(kExportGolden / (name + "." + type + ".gguf"));
    CHECK(report.tensors == static_cast<int64_t>(theirs.tensors().size()));
    CHECK(report.bytes == static_cast<int64_t>(fs::file_size(file)));
    check_same_tensors(ours, theirs);
    // The converter has no scores where tokenizer.model is not there, and gives every piece the same.
    std::set<std::string> free = {"general.name", "general.size_label"};
    if (name == "mistral")
      free.insert({"tokenizer.ggml.scores", "tokenizer.ggml.token_type", "tokenizer.ggml.add_space_prefix",
                   "tokenizer.ggml.add_eos_token", "tokenizer.ggml.add_sep_token"});
    // transformers adds <|endoftext|>, which this tiny vocabulary lacks, to every qwen2.
    if (name == "qwen2") free.insert({"tokenizer.ggml.tokens", "tokenizer.ggml.token_type"});
    check_same_metadata(ours, theirs, free);
  }
}

TEST_CASE("a folder that is exported in f32 and imported again has the same weights and tokens") {
  for (const std::string name : {"llama", "mistral", "qwen2", "qwen3"}) {
    INFO(name);
    const TemporaryFolder folder;
    export_gguf(kExportGolden / name, {}, folder.path() / "x.gguf", as("f32"));
    import_gguf(folder.path() / "x.gguf", folder.path() / "back", {.dtype = DType::kF32});
    const SafetensorsFolder before(kExportGolden / name), after(folder.path() / "back");
    for (const auto& [tensor, entry] : before.tensors()) {
      INFO(tensor);
      const StoredTensor* found = after.find(tensor);
      REQUIRE(found != nullptr);
      CHECK(found->shape == entry.tensor->shape);
      std::vector<float> expected(static_cast<size_t>(found->elems())), values(expected.size());
      before.read(tensor, DType::kF32, expected.data());
      after.read(tensor, DType::kF32, values.data());
      CHECK(std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)) == 0);
    }
    const text::Tokenizer first = text::Tokenizer::load(kExportGolden / name);
    const text::Tokenizer second = text::Tokenizer::load(folder.path() / "back");
    for (const std::string& text : kTexts) {
      INFO(text);
      CHECK(second.encode(text, true) == first.encode(text, true));
      CHECK(second.encode(text, false) == first.encode(text, false));
    }
    CHECK(second.chat_template() == first.chat_template());
  }
}

TEST_CASE("what GGUF or llama.cpp cannot express is refused by its key, and nothing is written") {
  struct Case {
    const char *model, *file;
    std::function<void(nlohmann::json&)> edit;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"mistral", "config.json", [](auto& j) { j["sliding_window"] = 16; }, "config.json: sliding_window]"},
      {"qwen2", "config.json",
       [](auto& j) {
         j["rope_parameters"] = {{"rope_type", "llama3"},
                                 {"factor", 8.0},
                                 {"low_freq_factor", 1.0},
                                 {"high_freq_factor", 4.0},
                                 {"original_max_position_embeddings", 8192}};
       },
       "config.json: rope_scaling.rope_type]"},
      {"qwen2", "tokenizer.json",
       [](auto& j) {
         j["pre_tokenizer"] = {{"type", "Whitespace"}};
       },
       "tokenizer.json: pre_tokenizer]"},
      {"qwen2", "tokenizer.json",
       [](auto& j) {
         j["normalizer"] = {{"type", "Lowercase"}};
       },
       "tokenizer.json: normalizer]"},
      {"mistral", "tokenizer.json", [](auto& j) { j["model"]["merges"].erase(2); }, "tokenizer.json: model.merges]"},
  };
  for (const Case& one : cases) {
    INFO(one.message);
    const TemporaryFolder folder;
    const fs::path model = copied(folder, one.model);
    change(model / one.file, one.edit);
    CHECK_THROWS_WITH_AS(export_gguf(model, {}, folder.path() / "x.gguf", as("f16")), doctest::Contains(one.message),
                         InputError);
    CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  }
}

TEST_CASE("a file that is there is not overwritten, and an unknown type is answered with the nearest") {
  const TemporaryFolder folder;
  write_file(folder.path() / "mine.gguf", "mine");
  CHECK_THROWS_WITH_AS(export_gguf(kExportGolden / "qwen3", {}, folder.path() / "mine.gguf", as("f16")),
                       doctest::Contains("[--gguf] expected a file that is not there yet"), InputError);
  CHECK(read_file(folder.path() / "mine.gguf", 100) == "mine");
  CHECK_THROWS_WITH_AS((void)find_gguf_file_type("q8_1"),
                       "[--type] expected f32, f16, q8_0, q4_k_m or bf16, got 'q8_1'; did you mean q8_0?", InputError);
}

TEST_CASE("a file in four bits holds the weights within the steps of its types, and says which type it is") {
  const TemporaryFolder folder;
  for (const char* name : {"qwen3", "llama"}) {
    INFO(std::string(name));
    const fs::path file = folder.path() / (std::string(name) + ".gguf"),
                   exact = folder.path() / (std::string(name) + ".exact.gguf");
    export_gguf(kExportGolden / name, {}, file, as("q4_k_m"));
    export_gguf(kExportGolden / name, {}, exact, as("f32"));
    const GgufFile ours(file), wide(exact);
    CHECK(ours.get<int64_t>("general.file_type") == 15);
    CHECK(ours.get<int64_t>("general.quantization_version") == 2);
    std::set<std::string> types;
    for (const auto& [key, tensor] : wide.tensors()) {
      INFO(key);
      const GgufTensor& other = *ours.find_tensor(key);
      types.emplace(layout_of(other.type).name);
      const auto rows = tensor.elems() / tensor.row_elems();
      std::vector<float> values(static_cast<size_t>(tensor.elems())), back(values.size());
      wide.read_rows(tensor, 0, rows, values.data());
      ours.read_rows(other, 0, rows, back.data());
      const float most = std::abs(
          *std::max_element(values.begin(), values.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
      float error = 0;
      for (size_t i = 0; i < values.size(); ++i) error = std::max(error, std::abs(values[i] - back[i]));
      CHECK(error <= (other.type == GgufType::kF32 ? 0 : most / 16));
    }
    // Rows of 32, 48 and 64.
    CHECK(types.contains("Q5_0"));
    CHECK(types.contains("Q8_0"));
    CHECK(types.contains("F16"));
    CHECK(types.contains("F32"));
  }
  CHECK_THROWS_WITH_AS(
      export_gguf_adapter(kExportGolden / "llama", kExportGolden / "llama.lora", folder.path() / "x", as("q4_k_m")),
      doctest::Contains("[--type] expected a type of adapters, got q4_k_m"), InputError);
}

TEST_CASE("an exported adapter is what llama.cpp's converter makes of it") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "x.gguf";
  export_gguf_adapter(kExportGolden / "llama", kExportGolden / "llama.lora", file, as("f32"));
  const GgufFile ours(file), theirs(kExportGolden / "llama.lora.gguf");
  check_same_tensors(ours, theirs);
  check_same_metadata(ours, theirs,
                      {"general.name", "general.size_label", "general.base_model.count", "general.base_model.0.name",
                       "general.base_model.0.repo_url"});
}

TEST_CASE("an adapter whose alpha is 0 adds nothing where llama.cpp takes an alpha of 0 for none") {
  const TemporaryFolder folder;
  const fs::path adapter = folder.path() / "adapter", file = folder.path() / "x.gguf";
  fs::copy(kExportGolden / "llama.lora", adapter);
  change(adapter / "adapter_config.json", [](nlohmann::json& options) {
    options["lora_alpha"] = 0;
    options["alpha_pattern"] = {{"layers.1.self_attn.q_proj", 6}};
  });
  export_gguf_adapter(kExportGolden / "llama", adapter, file, as("f32"));
  const GgufFile ours(file), golden(kExportGolden / "llama.lora.gguf");
  const double alpha = ours.get<double>("adapter.lora.alpha");
  REQUIRE(alpha != 0);
  const auto values_of = [](const GgufFile& of, const std::string& name) {
    const GgufTensor* tensor = of.find_tensor(name);
    REQUIRE(tensor != nullptr);
    std::vector<float> values(static_cast<size_t>(tensor->elems()));
    of.read_rows(*tensor, 0, tensor->elems() / tensor->row_elems(), values.data());
    return values;
  };
  for (const auto& [name, tensor] : ours.tensors()) {
    CAPTURE(name);
    if (!name.ends_with(".lora_b")) continue;
    const std::vector<float> values = values_of(ours, name), before = values_of(golden, name);
    // 6 in the pattern as in the golden adapter, whose own alpha that is.
    const bool is_scaled = name == "blk.1.attn_q.weight.lora_b";
    for (size_t i = 0; i < values.size(); ++i)
      CHECK(values[i] * alpha == doctest::Approx(is_scaled ? 6 * before[i] : 0));
  }
}

TEST_CASE("a merged export holds the base plus scale B A") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "x.gguf";
  export_gguf(kExportGolden / "llama", kExportGolden / "llama.lora", file, as("f32"));
  import_gguf(file, folder.path() / "back", {.dtype = DType::kF32});
  const SafetensorsFolder base(kExportGolden / "llama"), merged(folder.path() / "back");
  const SafetensorsFolder factors(kExportGolden / "llama.lora", "adapter_model");
  const std::string path = "model.layers.1.self_attn.q_proj";
  constexpr int64_t kRows = 64, kColumns = 32, kRank = 4;
  std::vector<float> w(kRows * kColumns), a(kRank * kColumns), b(kRows * kRank), got(w.size());
  base.read(path + ".weight", DType::kF32, w.data());
  factors.read("base_model.model." + path + ".lora_A.weight", DType::kF32, a.data());
  factors.read("base_model.model." + path + ".lora_B.weight", DType::kF32, b.data());
  merged.read(path + ".weight", DType::kF32, got.data());
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kColumns; ++j) {
      double expected = nth(w, i * kColumns + j);
      for (int64_t k = 0; k < kRank; ++k)
        expected += 1.5 * double{nth(b, i * kRank + k)} * double{nth(a, k * kColumns + j)};
      CHECK(nth(got, i * kColumns + j) == doctest::Approx(expected).epsilon(1e-4));
    }
  }
}

TEST_CASE("a file names two further tokens that end generation, the one that was learned last first") {
  const TemporaryFolder folder;
  const fs::path model = copied(folder, "qwen3"), file = folder.path() / "x.gguf";
  write_file(model / "generation_config.json", R"({"eos_token_id": [261, 263, 264, 262]})");
  (void)export_gguf(model, {}, file, as("f32"));
  const GgufFile written(file);
  CHECK(written.get<int64_t>("tokenizer.ggml.eos_token_id") == 261);
  CHECK(written.get<int64_t>("tokenizer.ggml.eot_token_id") == 262);
  CHECK(written.get<int64_t>("tokenizer.ggml.eom_token_id") == 264);
  import_gguf(file, folder.path() / "again", {});
  CHECK(nlohmann::json::parse(read_file(folder.path() / "again/generation_config.json", 1 << 20))["eos_token_id"] ==
        nlohmann::json{261, 262, 264});
}
