#include "job/vocabulary_growth.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "model/decoder/architecture.h"
#include "model/decoder/decoder.h"

using namespace spillway;
using namespace spillway::train;

namespace {

// As small as a decoder gets.
ModelPtr model_of(int64_t rows) {
  return make_decoder(
      {.architecture = &architectures::kLlama, .vocab_size = rows, .hidden_size = 2, .tie_word_embeddings = true});
}

}  // namespace

TEST_CASE("TRL's eos_token and pad_token are of the vocabulary, where those of special_tokens may be new") {
  const TemporaryFolder folder;
  write_file(folder.path() / "tokenizer.json",
             R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}})");
  config::TokenizerSettings settings{.folder = folder.path().string()};
  const auto name = [&](const std::string& token) {
    settings.special_tokens.eos_token = token;
    settings.knows_eos_token = true;
    check_named_tokens(settings);
  };
  name("b");
  CHECK_THROWS_WITH_AS(name("<x>"),
                       "[eos_token] expected a token of the vocabulary, got '<x>'; name one, or add it with "
                       "special_tokens.eos_token",
                       InputError);
  settings.special_tokens.tokens = {"<x>"};
  name("<x>");
  settings.special_tokens.pad_token = "<p>";
  settings.knows_pad_token = true;
  CHECK_THROWS_WITH_AS(check_named_tokens(settings), doctest::Contains("[pad_token] expected a token"), InputError);
}

TEST_CASE("new tokens of a settings get rows of the embedding") {
  const TemporaryFolder folder;
  write_file(folder.path() / "tokenizer.json",
             R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "c": 2}, "unk_token": "a"}})");
  const config::TokenizerSettings plain{.folder = folder.path().string()};
  const auto parameters = [](bool trains_embedding, bool trains_head) {
    ParameterTable result;
    result.add({.name = "embedding", .role = ParameterRole::kEmbedding, .trained = trains_embedding});
    result.add({.name = "norm", .role = ParameterRole::kNorm});
    result.add({.name = "head", .role = ParameterRole::kHead, .trained = trains_head});
    return result;
  };
  const ParameterTable all = parameters(true, true), lora = parameters(true, false);
  const auto grown = [&](config::TokenizerSettings settings, int64_t rows, const ParameterTable& trained) {
    ModelPtr model = model_of(rows);
    const std::vector<std::string> notes = grow_vocabulary(settings, model, trained);
    const bool grows = !notes.empty() && notes.front().starts_with("the embedding grows");
    CHECK(grows == (model->text()->vocab_size > rows));
    CHECK(parameters_of(*model).find("model.embed_tokens.weight")->source.shape[0] == rows);
    return model->text()->vocab_size;
  };
  CHECK(grown(plain, 2, all) == 2);  // nothing asked for
  config::TokenizerSettings settings = plain;
  settings.special_tokens = {.eos_token = "b", .tokens = {"<x>", "c", "<y>"}};
  CHECK(grown(settings, 3, all) == 5);
  CHECK(grown(settings, 8, all) == 8);
  settings.resize_token_embeddings_to_32x = true;
  CHECK(grown(settings, 3, all) == 32);
  CHECK(grown(settings, 5, lora) == 5);
  try {
    (void)grown(settings, 4, lora);
    FAIL("no error");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).starts_with("[tokens] expected tokens that the embedding has rows for"));
  }
  settings.special_tokens = {.pad_token = "<pad>"};
  ModelPtr model = model_of(3);
  const std::vector<std::string> notes = grow_vocabulary(settings, model, lora);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].starts_with("warning: [special_tokens.pad_token] '<pad>' is new"));
  CHECK(model->text()->vocab_size == 3);
  CHECK(settings.special_tokens.pad_token.empty());
}

TEST_CASE("a new token whose spare row an adapter does not train is refused, or warned of where nothing ends with it") {
  const TemporaryFolder folder;
  write_file(folder.path() / "tokenizer.json",
             R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}})");
  const auto notes_of = [&](text::SpecialTokenNames names, bool trains_rows) {
    config::TokenizerSettings settings{.folder = folder.path().string(), .special_tokens = std::move(names)};
    ParameterTable parameters;
    parameters.add({.name = "embedding", .role = ParameterRole::kEmbedding, .trained = trains_rows});
    ModelPtr model = model_of(32);
    return grow_vocabulary(settings, model, parameters);
  };
  CHECK_THROWS_WITH_AS(
      (void)notes_of({.eos_token = "[END]"}, false),
      "[special_tokens.eos_token] expected a token that the model knows, got '[END]', whose row of the "
      "embedding the adapter does not train; write lora_modules_to_save: [embed_tokens, lm_head], or "
      "name a token of the vocabulary",
      InputError);
  CHECK(notes_of({.eos_token = "[END]"}, true).empty());
  CHECK(notes_of({.eos_token = "b", .pad_token = "[PAD]"}, false).empty());
  const std::vector<std::string> warned = notes_of({.tokens = {"b", "[EXTRA]"}}, false);
  REQUIRE(warned.size() == 1);
  CHECK(warned[0].starts_with("warning: [tokens] '[EXTRA]' is new, and the adapter does not train its row"));
}
