#include "model/gguf/tokenizer.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/index.h"
#include "base/log.h"
#include "base/text.h"

namespace spillway {
namespace {

using Json = nlohmann::ordered_json;

// The vocabulary as the file holds it, checked: kinds and scores are as many as tokens.
struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int64_t> kinds;
};

// Returns the kinds that llama.cpp takes the tokens of a file without any for. It finds the pieces of bytes by their
// text.
std::vector<int64_t> usual_kinds(const std::vector<std::string>& tokens) {
  std::vector<int64_t> kinds;
  for (const std::string& token : tokens)
    kinds.push_back(token.size() == 6 && token.starts_with("<0x") && token.back() == '>' ? kGgufByte : kGgufNormal);
  return kinds;
}

Vocabulary read_vocabulary(const GgufFile& file) {
  Vocabulary vocabulary;
  vocabulary.tokens = file.get<std::vector<std::string>>("tokenizer.ggml.tokens");
  const auto* kinds = file.find<std::vector<int64_t>>("tokenizer.ggml.token_type");
  vocabulary.kinds = kinds != nullptr ? *kinds : usual_kinds(vocabulary.tokens);
  if (vocabulary.kinds.size() != vocabulary.tokens.size()) {
    throw input_error(file.path().string(),
                      "expected a token_type for each of {} tokens, got {}; convert the model again",
                      vocabulary.tokens.size(), vocabulary.kinds.size());
  }
  // Converters fill the vocabulary up to the embedding's rows with tokens that the original does not have.
  while (!vocabulary.tokens.empty() && vocabulary.kinds.back() == kGgufUnused) {
    vocabulary.tokens.pop_back();
    vocabulary.kinds.pop_back();
  }
  std::unordered_set<std::string_view> seen;
  for (const std::string& token : vocabulary.tokens) {
    if (seen.insert(token).second) continue;
    throw input_error(file.path().string(), "expected each token once, got two of {}; convert the model again",
                      quote(token));
  }
  return vocabulary;
}

// The id under `key`, inside the vocabulary, or nothing.
std::optional<int64_t> token_id(const GgufFile& file, std::string_view key, const Vocabulary& vocabulary) {
  const int64_t* id = file.find<int64_t>(key);
  if (id == nullptr || *id == 0xFFFFFFFF || *id == -1) return {};
  if (*id < 0 || *id >= static_cast<int64_t>(vocabulary.tokens.size())) {
    throw input_error(file.path().string(), "expected {} below {}, got {}; convert the model again", key,
                      vocabulary.tokens.size(), *id);
  }
  return *id;
}

// An object whose keys are known to be distinct. ordered_json would search all keys for each that is added.
Json vocabulary_json(const std::vector<std::string>& tokens) {
  Json object = Json::object();
  auto& entries = static_cast<Json::object_t::Container&>(object.get_ref<Json::object_t&>());
  entries.reserve(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) entries.emplace_back(tokens[id], id);
  return object;
}

Json added_tokens(const Vocabulary& vocabulary) {
  Json added = Json::array();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const int64_t kind = vocabulary.kinds[id];
    if (kind != kGgufControl && kind != kGgufUnknown && kind != kGgufUserDefined) continue;
    added.push_back({{"id", id},
                     {"content", vocabulary.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", kind != kGgufUserDefined}});
  }
  return added;
}

Json bpe_model(const Vocabulary& vocabulary, const std::vector<std::string>& merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", vocabulary_json(vocabulary.tokens)},
          {"merges", merges}};
}

// Checks that merges are pairs of tokens that make a token, which the tokenizers library insists on.
void check_merges(const GgufFile& file, const Vocabulary& vocabulary, const std::vector<std::string>& merges) {
  const std::unordered_set<std::string_view> tokens(vocabulary.tokens.begin(), vocabulary.tokens.end());
  for (const std::string& merge : merges) {
    const size_t space = merge.find(' ', 1);
    const std::string left = merge.substr(0, space), right = space == std::string::npos ? "" : merge.substr(space + 1);
    if (right.empty() || right.find(' ') != std::string::npos || !tokens.contains(left) || !tokens.contains(right) ||
        !tokens.contains(left + right)) {
      throw input_error(file.path().string(),
                        "expected merges of two tokens into a third, got {}; convert the model again", quote(merge));
    }
  }
}

// A BOS before and an EOS after each text, as far as the file asks for them; null where it asks for neither.
Json template_processor(const Vocabulary& vocabulary, std::optional<int64_t> bos, std::optional<int64_t> eos) {
  if (!bos && !eos) return nullptr;
  const auto special = [&](int64_t id, int type) {
    return Json{{"SpecialToken", {{"id", nth(vocabulary.tokens, id)}, {"type_id", type}}}};
  };
  Json single = Json::array(), pair = Json::array(), specials = Json::object();
  for (int type = 0; type < 2; ++type) {
    Json part = Json::array();
    if (bos) part.push_back(special(*bos, type));
    part.push_back({{"Sequence", {{"id", type == 0 ? "A" : "B"}, {"type_id", type}}}});
    if (eos) part.push_back(special(*eos, type));
    if (type == 0) single = part;
    pair.insert(pair.end(), part.begin(), part.end());
  }
  for (const auto id : {bos, eos}) {
    if (!id) continue;
    const std::string& token = nth(vocabulary.tokens, *id);
    specials[token] = {{"id", token}, {"ids", {*id}}, {"tokens", {token}}};
  }
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", specials}};
}

// The parts that differ between the two kinds of BPE.
struct Pipeline {
  Json normalizer, pre_tokenizer, post_processor, decoder, model;
  bool add_bos = false;  // where the file does not say
};

Pipeline byte_level_pipeline(const GgufFile& file, const Vocabulary& vocabulary) {
  const std::string* stated = file.find<std::string>("tokenizer.ggml.pre");
  const auto& architecture = file.get<std::string>("general.architecture");
  // Early conversions of Qwen models do not name the one pre-tokenizer that these have.
  const std::string name = stated != nullptr ? *stated : architecture.starts_with("qwen") ? "qwen2" : "default";
  if (stated == nullptr && name == "default") {
    log_warning(
        "{} names no pre-tokenizer; the default one of llama.cpp may split text otherwise than the original model's",
        file.path().string());
  }
  auto pre = gguf_pre_tokenizer(name);
  if (!pre) {
    throw input_error(file.path().string(),
                      "expected tokenizer.ggml.pre to be one of {}, got {}; use the original model's tokenizer.json",
                      gguf_pre_tokenizer_names(), quote(name));
  }
  const auto& merges = file.get<std::vector<std::string>>("tokenizer.ggml.merges");
  check_merges(file, vocabulary, merges);

  Pipeline pipeline;
  pipeline.normalizer = pre->normalizer;
  pipeline.pre_tokenizer = pre->pre_tokenizer;
  pipeline.post_processor = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  pipeline.decoder = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  pipeline.model = bpe_model(vocabulary, merges);
  pipeline.model["ignore_merges"] = pre->ignore_merges;
  pipeline.add_bos = pre->add_bos;
  return pipeline;
}

// Returns the merges that the scores of pieces stand for.
std::vector<std::string> scored_merges(const GgufFile& file, const Vocabulary& vocabulary) {
  const auto& scores = file.get<std::vector<double>>("tokenizer.ggml.scores");
  if (scores.size() < vocabulary.tokens.size()) {
    throw input_error(file.path().string(), "expected a score for each of {} tokens, got {}; convert the model again",
                      vocabulary.tokens.size(), scores.size());
  }
  if (!std::all_of(scores.begin(), scores.end(), [](double score) { return std::isfinite(score); })) {
    throw input_error(file.path().string(), "expected finite scores, got NaN or infinity; convert the model again");
  }
  std::vector<bool> usable;
  for (const int64_t kind : vocabulary.kinds)
    usable.push_back(kind == kGgufNormal || kind == kGgufUserDefined || kind == kGgufUnused);
  return merges_from_scores(vocabulary.tokens, scores, usable);
}

// Returns the merges of a file that lists them.
std::vector<std::string> listed_merges(const GgufFile& file, const Vocabulary& vocabulary) {
  const auto& merges = file.get<std::vector<std::string>>("tokenizer.ggml.merges");
  check_merges(file, vocabulary, merges);
  return merges;
}

// `lists_merges`: Gemma 4's files do, and have no space before each text.
Pipeline sentencepiece_pipeline(const GgufFile& file, const Vocabulary& vocabulary, std::optional<int64_t> unknown,
                                bool lists_merges) {
  const bool* stated = file.find<bool>("tokenizer.ggml.add_space_prefix");
  const bool space_prefix = stated == nullptr ? !lists_merges : *stated;
  const bool bytes = std::count(vocabulary.kinds.begin(), vocabulary.kinds.end(), kGgufByte) == 256;

  Pipeline pipeline;
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  pipeline.normalizer = replace;
  Json steps = Json::array({{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                            {{"type", "ByteFallback"}},
                            {{"type", "Fuse"}}});
  if (space_prefix) {
    pipeline.normalizer = {{"type", "Sequence"},
                           {"normalizers", Json::array({{{"type", "Prepend"}, {"prepend", "▁"}}, replace})}};
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  pipeline.decoder = {{"type", "Sequence"}, {"decoders", steps}};
  pipeline.model =
      bpe_model(vocabulary, lists_merges ? listed_merges(file, vocabulary) : scored_merges(file, vocabulary));
  if (unknown) pipeline.model["unk_token"] = nth(vocabulary.tokens, *unknown);
  pipeline.model["fuse_unk"] = true;
  pipeline.model["byte_fallback"] = bytes;
  pipeline.add_bos = true;
  return pipeline;
}

// tokenizer.chat_template, and others under tokenizer.chat_template.NAME.
Json chat_templates(const GgufFile& file) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  Json named = Json::array();
  const std::string* plain = file.find<std::string>(kKey);
  if (plain != nullptr) named.push_back({{"name", "default"}, {"template", *plain}});
  for (const auto& [key, value] : file.metadata()) {
    const std::string* text = std::get_if<std::string>(&value);
    if (text == nullptr || !key.starts_with(kKey) || key.size() <= kKey.size() + 1 || key[kKey.size()] != '.') continue;
    named.push_back({{"name", key.substr(kKey.size() + 1)}, {"template", *text}});
  }
  if (named.empty()) return nullptr;
  return named.size() == 1 && plain != nullptr ? named[0]["template"] : named;
}

}  // namespace

GgufTokenizerFiles convert_gguf_tokenizer(const GgufFile& file) {
  const std::string kind = file.get<std::string>("tokenizer.ggml.model");
  if (kind != "gpt2" && kind != "llama" && kind != "gemma4") {
    throw input_error(file.path().string(),
                      "expected a tokenizer of the kind gpt2, llama or gemma4, got {}; use another model", quote(kind));
  }
  const Vocabulary vocabulary = read_vocabulary(file);
  const auto id = [&](std::string_view key) { return token_id(file, key, vocabulary); };
  // A SentencePiece vocabulary has llama.cpp's ids where the file does not say.
  const auto id_or = [&](std::string_view key, int64_t usual) -> std::optional<int64_t> {
    const bool is_usual = kind == "llama" && !file.metadata().contains(key) && usual < std::ssize(vocabulary.tokens);
    return is_usual ? usual : id(key);
  };
  const auto bos = id_or("tokenizer.ggml.bos_token_id", 1), eos = id_or("tokenizer.ggml.eos_token_id", 2);
  const auto unknown = id_or("tokenizer.ggml.unknown_token_id", 0), pad = id("tokenizer.ggml.padding_token_id");

  Pipeline pipeline = kind == "gpt2" ? byte_level_pipeline(file, vocabulary)
                                     : sentencepiece_pipeline(file, vocabulary, unknown, kind == "gemma4");
  const bool* add_bos = file.find<bool>("tokenizer.ggml.add_bos_token");
  const bool* add_eos = file.find<bool>("tokenizer.ggml.add_eos_token");
  const bool with_bos = add_bos != nullptr ? *add_bos : pipeline.add_bos;
  const bool with_eos = add_eos != nullptr && *add_eos;
  const Json processor = template_processor(vocabulary, with_bos ? bos : std::nullopt, with_eos ? eos : std::nullopt);
  if (pipeline.post_processor.is_null()) {
    pipeline.post_processor = processor;
  } else if (!processor.is_null()) {
    pipeline.post_processor = {{"type", "Sequence"}, {"processors", Json::array({pipeline.post_processor, processor})}};
  }

  GgufTokenizerFiles files;
  files.tokenizer = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added_tokens(vocabulary)},
                     {"normalizer", std::move(pipeline.normalizer)},
                     {"pre_tokenizer", std::move(pipeline.pre_tokenizer)},
                     {"post_processor", std::move(pipeline.post_processor)},
                     {"decoder", std::move(pipeline.decoder)},
                     {"model", std::move(pipeline.model)}};
  // The class that takes tokenizer.json as it stands; others rebuild parts of it from their own rules.
  files.tokenizer_config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  const auto name_token = [&](const char* key, std::optional<int64_t> token) {
    if (token) files.tokenizer_config[key] = nth(vocabulary.tokens, *token);
  };
  name_token("bos_token", bos);
  name_token("eos_token", eos);
  name_token("unk_token", unknown);
  name_token("pad_token", pad);
  if (Json templates = chat_templates(file); !templates.is_null())
    files.tokenizer_config["chat_template"] = std::move(templates);

  files.tokens = std::ssize(vocabulary.tokens);
  files.bos = bos;
  files.pad = pad;
  for (const auto end : {eos, id("tokenizer.ggml.eot_token_id"), id("tokenizer.ggml.eom_token_id")}) {
    if (end && std::find(files.eos.begin(), files.eos.end(), *end) == files.eos.end()) files.eos.push_back(*end);
  }
  return files;
}

std::vector<std::string> merges_from_scores(const std::vector<std::string>& pieces, const std::vector<double>& scores,
                                            const std::vector<bool>& usable) {
  // Longer pieces than this are runs of one character; trying all their splits would be quadratic.
  constexpr size_t kLongestPiece = 512;
  struct Merge {
    double score;
    size_t left_chars, right_chars, left, right;
  };
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (usable[id]) ids.emplace(pieces[id], id);
  }
  std::vector<Merge> merges;
  for (size_t id = 0; id < pieces.size(); ++id) {
    const std::string_view piece = pieces[id];
    if (!usable[id] || piece.size() > kLongestPiece || piece.find(' ') != std::string_view::npos) continue;
    const auto starts_char = [&](size_t at) { return (static_cast<unsigned char>(piece[at]) & 0xC0) != 0x80; };
    size_t chars = 0;
    for (size_t at = 0; at < piece.size(); ++at) chars += starts_char(at);
    const size_t first = merges.size();
    for (size_t at = 1, left_chars = 1; at < piece.size(); ++at) {
      if (!starts_char(at)) continue;
      const auto left = ids.find(piece.substr(0, at)), right = ids.find(piece.substr(at));
      if (left != ids.end() && right != ids.end()) {
        merges.push_back({scores[id], left_chars, chars - left_chars, left->second, right->second});
      }
      ++left_chars;
    }
    std::sort(merges.begin() + static_cast<long>(first), merges.end(),
              [](const Merge& a, const Merge& b) { return std::pair(a.left, a.right) < std::pair(b.left, b.right); });
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return std::tuple(a.score, a.left_chars, a.right_chars) > std::tuple(b.score, b.left_chars, b.right_chars);
  });
  std::vector<std::string> texts;
  texts.reserve(merges.size());
  for (const Merge& merge : merges) texts.push_back(pieces[merge.left] + " " + pieces[merge.right]);
  return texts;
}

}  // namespace spillway
