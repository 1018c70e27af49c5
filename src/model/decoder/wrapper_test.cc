#include "model/decoder/wrapper.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <tuple>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "io/file.h"
#include "model/adapter.h"
#include "model/decoder/architecture.h"
#include "model/decoder/config.h"
#include "model/model.h"
#include "model/weights.h"
#include "tests/support/decoder_configs.h"
#include "tests/support/golden_models.h"

using namespace spillway;
using nlohmann::json;
using spillway::testing::config_error;
using spillway::testing::kGoldenModels;
namespace fs = std::filesystem;

namespace {

const fs::path kWrappers = kGoldenModels / "../wrappers";

std::string wrapper_error(const json& config) { return config_error(config.dump()); }

// Makes the model of a folder with a golden config.json that has `changes`, and the golden weights.
ModelPtr model_with(const std::string& golden, const json& changes, const TemporaryFolder& folder) {
  const fs::path to = folder.path() / golden;
  fs::remove_all(to);
  fs::copy(kWrappers / golden, to);
  json config = json::parse(read_file(to / "config.json", 1 << 20));
  config.merge_patch(changes);
  write_file(to / "config.json", config.dump());
  return read_model(to);
}

bool has_own_head(const ModelPtr& model) { return parameters_of(*model).find("lm_head.weight") != nullptr; }

}  // namespace

// The config.json of google/gemma-3-4b-it, but for its vision_config, and what transformers 5.24 makes of it.
TEST_CASE("what a text_config leaves out is as transformers' class of the text has it") {
  const json config = {{"architectures", {"Gemma3ForConditionalGeneration"}},
                       {"boi_token_index", 255999},
                       {"eoi_token_index", 256000},
                       {"eos_token_id", {1, 106}},
                       {"image_token_index", 262144},
                       {"initializer_range", 0.02},
                       {"mm_tokens_per_image", 256},
                       {"model_type", "gemma3"},
                       {"text_config",
                        {{"hidden_size", 2560},
                         {"intermediate_size", 10240},
                         {"model_type", "gemma3_text"},
                         {"num_hidden_layers", 34},
                         {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                         {"sliding_window", 1024}}},
                       {"torch_dtype", "bfloat16"},
                       {"transformers_version", "4.50.0.dev0"},
                       {"vision_config", {{"model_type", "siglip_vision_model"}}}};
  const DecoderConfig read = parse_decoder_config(config.dump(), "config.json");
  CHECK(read.wrapper == "Gemma3ForConditionalGeneration");
  CHECK(read.padding_idx == 0);
  CHECK(read.architecture == &architectures::kGemma3);
  CHECK(read.vocab_size == 262208);
  CHECK(read.layers[0].attention.heads == 8);
  CHECK(read.layers[0].attention.kv_heads == 4);
  CHECK(read.layers[0].attention.head_dim == 256);
  CHECK(read.max_position_embeddings == 131072);
  CHECK(read.norm_eps == 1e-6);
  CHECK(read.layers[0].attention.scale == 1.0 / 16);
  CHECK(read.ropes[0].factor == 8);
  CHECK(read.ropes[0].theta == 1e6);
  CHECK(read.ropes[1].theta == 1e4);
  CHECK(read.layers[4].attention.window == 1024);
  CHECK(read.layers[5].attention.window == 0);
  CHECK(read.tie_word_embeddings);
  CHECK(read.dtype == DType::kBF16);
}

TEST_CASE("a wrapper around a text model that is not known is refused by that model's name") {
  const auto error = [](const json& text) {
    return wrapper_error({{"architectures", {"Qwen2VLForConditionalGeneration"}}, {"text_config", text}});
  };
  CHECK(error({{"model_type", "qwen2_vl_text"}}) ==
        "[config.json: text_config.model_type] expected a text model of " + known_model_types() +
            " inside Qwen2VLForConditionalGeneration, got 'qwen2_vl_text'; use a model with one of these");
  CHECK(error({{"hidden_size", 8}}).find("got none") != std::string::npos);
  CHECK(wrapper_error(
            {{"architectures", {"PaliGemmaForConditionalGeneration"}}, {"text_config", {{"model_type", "gemma2"}}}})
            .find("PaliGemmaForConditionalGeneration") != std::string::npos);
  // Without a text_config it is a model like any other.
  CHECK(wrapper_error({{"architectures", {"T5ForConditionalGeneration"}}, {"model_type", "t5"}})
            .find("expected architectures to name") != std::string::npos);
  CHECK(wrapper_error({{"architectures", {"LlavaForConditionalGeneration"}},
                       {"text_config", {{"model_type", "llama"}, {"attention_dropout", 0.1}}}})
            .find("write overrides_of_model_config: {text_config: {attention_dropout: 0}}") != std::string::npos);
}

TEST_CASE("weights inside a wrapper go by the names of transformers' class, wherever the files have them") {
  for (const auto& [golden, in_files, head] : {std::tuple("gemma3", "language_model.model.", ""),
                                               {"mistral3", "model.language_model.", ""},
                                               {"llava", "language_model.model.", "language_model.lm_head.weight"}}) {
    CAPTURE(golden);
    const ParameterTable parameters = parameters_of(*read_model(kWrappers / golden));
    const Parameter* q = parameters.find("model.language_model.layers.1.self_attn.q_proj.weight");
    REQUIRE(q);
    CHECK(q->module == "model.language_model.layers.1.self_attn.q_proj");
    CHECK(q->source.name == std::string(in_files) + "layers.1.self_attn.q_proj.weight");
    CHECK(q->written_name() == q->source.name);
    CHECK(parameters.is_of_other_part("vision_tower.patch_conv.weight"));
    CHECK_FALSE(parameters.is_of_other_part(q->source.name));
    const Parameter* own = parameters.find("lm_head.weight");
    CHECK((own ? own->source.name : "") == head);
    CHECK_NOTHROW((void)open_model_weights(kWrappers / golden, parameters));
  }
}

TEST_CASE("whether a wrapper's head is tied is what its two keys say, or else the files") {
  const TemporaryFolder folder;
  const json neither = {{"tie_word_embeddings", nullptr}, {"text_config", {{"tie_word_embeddings", nullptr}}}};
  CHECK_FALSE(has_own_head(model_with("mistral3", json::object(), folder)));  // true and false, and no head
  CHECK_FALSE(has_own_head(model_with("mistral3", neither, folder)));
  CHECK(has_own_head(model_with("llava", neither, folder)));
  CHECK(has_own_head(model_with("llava", {{"tie_word_embeddings", true}}, folder)));
  // Both say that it is apart: then it is missing.
  const ModelPtr apart = model_with("mistral3", {{"tie_word_embeddings", false}}, folder);
  CHECK_THROWS_AS((void)open_model_weights(folder.path() / "mistral3", parameters_of(*apart)), InputError);
}

TEST_CASE("an adapter inside a wrapper names its layers by whole paths, of which no tower has one") {
  const ModelPtr model = read_model(kWrappers / "gemma3");
  const LoraOptions lora{.target_modules = {"q_proj"}};
  const auto config = json::parse(adapter_config_json(parameters_of(*model, {.lora = lora}), lora, "base"));
  CHECK(config["target_modules"] == json{"model.language_model.layers.0.self_attn.q_proj",
                                         "model.language_model.layers.1.self_attn.q_proj",
                                         "model.language_model.layers.2.self_attn.q_proj"});
  CHECK_THROWS_WITH_AS((void)model->text()->with_score({}, {}),
                       "[base_model] expected a model of text that stands alone to give a score, got "
                       "Gemma3ForConditionalGeneration; name another",
                       InputError);
}

TEST_CASE("new tokens and an own head stand where a wrapper's config.json has those of its text") {
  const fs::path golden = kWrappers / "gemma3";
  const ModelPtr model = read_model(golden);
  CHECK(model->config_json(golden) == read_file(golden / "config.json", 1 << 20));
  const auto grown = json::parse(model->text()->with_vocab_size(128)->config_json(golden));
  CHECK(grown["text_config"]["vocab_size"] == 128);
  CHECK_FALSE(grown.contains("vocab_size"));
  const auto untied = json::parse(model->text()->with_own_head()->config_json(golden));
  CHECK(untied["tie_word_embeddings"] == false);
  CHECK(untied["text_config"]["tie_word_embeddings"] == false);
  const ParameterTable parameters = parameters_of(*model->text()->with_own_head());
  const Parameter* head = parameters.find("lm_head.weight");
  CHECK(head->source.name == "language_model.model.embed_tokens.weight");
  CHECK(head->written_name() == "language_model.lm_head.weight");
}
