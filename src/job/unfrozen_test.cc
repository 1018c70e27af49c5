#include "job/unfrozen.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "model/model.h"
#include "tests/support/golden_models.h"

using namespace spillway;
using namespace spillway::train;
using spillway::testing::kGoldenModels;

namespace {

UnfrozenWeights weights_of(const char* model, std::vector<std::string> patterns) {
  return unfrozen_weights(parameters_of(*read_model(kGoldenModels / model)), patterns);
}

std::string unfrozen_error(std::vector<std::string> patterns) {
  try {
    (void)weights_of("qwen3", std::move(patterns));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("unfrozen_parameters are patterns for the starts of names, in which a dot is a dot") {
  CHECK(weights_of("qwen3", {}).empty());
  CHECK(weights_of("qwen3", {"model.layers.1.mlp"}).size() == 3);
  CHECK(weights_of("qwen3", {"model.layers.[0-9]+.mlp.up_proj"}).size() == 2);
  CHECK(weights_of("qwen3", {"^lm_head.weight$", "model.norm"}).size() == 2);
  CHECK(weights_of("qwen3", {R"(model\.norm)"}).size() == 1);
  CHECK(unfrozen_error({"modelxnorm"})
            .find("expected the start of names such as model.embed_tokens.weight, got 'modelxnorm'") !=
        std::string::npos);
  CHECK(unfrozen_error({"norm"}).find("got 'norm'") != std::string::npos);
  CHECK(unfrozen_error({"model.("}).starts_with("[unfrozen_parameters"));
}

TEST_CASE("rows stand in brackets behind a pattern, and unite") {
  using Rows = std::vector<ops::RowSlice>;
  const auto rows = [](std::vector<std::string> patterns) {
    return weights_of("qwen3", std::move(patterns)).at("model.embed_tokens.weight");
  };
  const int64_t vocab = text_of(*read_model(kGoldenModels / "qwen3"), "base_model").vocab_size;
  CHECK(rows({"^model.embed_tokens.weight$[:12]"}) == Rows{{0, 12}});
  CHECK(rows({"model.embed[12:]"}) == Rows{{12, vocab - 12}});
  CHECK(rows({"model.embed[3]"}) == Rows{{3, 1}});
  CHECK(rows({"model.embed[20:24]", "model.embed[2:4]", "model.embed[3:6]", "model.embed[6]"}) ==
        Rows{{2, 5}, {20, 4}});
  CHECK(rows({"model.embed[2:4]", "model.embed"}).empty());
  CHECK(rows({"model.embed_token[r-t]"}).empty());
  for (const char* wrong : {"model.embed[4:4]", "model.embed[5:2]", "model.embed[:1000000]", "model.embed[1000000]",
                            "model.embed[1:2:3]", "model.embed[99999999999999999999:]"}) {
    CAPTURE(wrong);
    CHECK(unfrozen_error({wrong}).find(std::string("got '") + wrong) != std::string::npos);
  }
}

TEST_CASE("a tied head is no weight of its own, but no unknown name either") {
  CHECK(weights_of("qwen3_tied", {"lm_head", "model.embed_tokens"}).size() == 1);
  CHECK_THROWS_WITH_AS((void)weights_of("qwen3_tied", {"lm_head"}),
                       "[unfrozen_parameters] expected weights of this model, got only its tied head; name "
                       "model.embed_tokens.weight",
                       InputError);
}
