#include "train/tokenizer_files.h"

#include <doctest/doctest.h>

#include "base/json.h"
#include "io/file.h"
#include "tests/support/temporary_folder.h"

using namespace spillway;

namespace fs = std::filesystem;

TEST_CASE("a saved tokenizer has the special tokens that training used") {
  const TemporaryFolder from, to;
  const auto saved = [&](const char* name) { return parse_json(read_file(to.path() / name, 1 << 20), name); };
  write_file(from.path() / "tokenizer.json", "{}");
  write_file(from.path() / "tokenizer_config.json",
             R"({"eos_token": {"content": "</s>", "lstrip": false}, "bos_token": "<s>", "model_max_length": 8})");
  train::copy_tokenizer_files(from.path(), to.path(), {});
  CHECK(read_file(to.path() / "tokenizer_config.json", 1 << 20) ==
        read_file(from.path() / "tokenizer_config.json", 1 << 20));

  train::copy_tokenizer_files(from.path(), to.path(), {.eos_token = "<|im_end|>", .pad_token = "<pad>"});
  CHECK(saved("tokenizer_config.json") ==
        nlohmann::json{
            {"eos_token", "<|im_end|>"}, {"bos_token", "<s>"}, {"model_max_length", 8}, {"pad_token", "<pad>"}});
  CHECK_FALSE(fs::exists(to.path() / "special_tokens_map.json"));

  write_file(from.path() / "special_tokens_map.json", R"({"eos_token": "</s>"})");
  train::copy_tokenizer_files(from.path(), to.path(), {.eos_token = "<|im_end|>"});
  CHECK(saved("special_tokens_map.json") == nlohmann::json{{"eos_token", "<|im_end|>"}});
}
