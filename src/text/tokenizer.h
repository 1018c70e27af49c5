// Converts text to token ids and back, by the tokenizer.json of a Hugging Face folder: the same ids as the `tokenizers`
// library (0.23), byte for byte.
//
//   const Tokenizer tokenizer = Tokenizer::load("models/SmolLM2-135M-Instruct");
//   std::vector<int32_t> ids = tokenizer.encode("Hello", true);
//   std::string text = tokenizer.decode(ids, true);
//
// Supports byte-level BPE, SentencePiece-style BPE with byte fallback, Unigram, WordPiece and WordLevel. Truncation and
// padding that the file may ask for are not applied: they belong to the training job. All const functions may run at
// the same time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template_files.h"

namespace spillway::text {

// Tokens that a config gives a tokenizer, as they are spelled.
struct SpecialTokenNames {
  std::string bos_token, eos_token, pad_token, unk_token;  // by role; empty: as in the tokenizer's files
  std::vector<std::string> additional_special_tokens;
  std::vector<std::string> tokens;           // plain ones
  std::map<int64_t, std::string> overrides;  // other texts for added tokens, by id

  friend bool operator==(const SpecialTokenNames&, const SpecialTokenNames&) = default;
};

class Tokenizer {
 public:
  // Reads tokenizer.json and, if present, tokenizer_config.json, special_tokens_map.json, added_tokens.json,
  // generation_config.json and the files of chat templates. Throws InputError naming the file and the place in it.
  [[nodiscard]] static Tokenizer load(const std::filesystem::path& folder);
  // Does the same with the tokens of a config.
  [[nodiscard]] static Tokenizer load(const std::filesystem::path& folder, const SpecialTokenNames& names);
  // Does the same with the two texts; `config_json` may be empty. `where` stands before the file names in errors.
  [[nodiscard]] static Tokenizer from_json(std::string_view tokenizer_json, std::string_view config_json,
                                           std::string_view where);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Adds the tokens that are missing, roles first, and sets the roles to their ids; the post-processor stays. New ones
  // are matched in raw text. Overrides are for load() alone. Throws InputError if the vocabulary has no id for one.
  void add_tokens(const SpecialTokenNames& names);
  // Returns all added tokens as the list that tokenizer.json has under `added_tokens`.
  [[nodiscard]] nlohmann::ordered_json added_tokens() const;

  // Returns the ids of `text`. Special tokens inside it become their ids; `add_special_tokens` adds those of the
  // post-processor, such as BOS. Invalid UTF-8 counts as U+FFFD. Takes memory of some 10 bytes for each of the text and
  // 12 for each id. Throws InputError for more than 1 GiB of text, for steps of the file that make much more of it, and
  // for a text that the vocabulary cannot write if it has no unknown token.
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const;

  // The ids that encode(text, true) puts before and behind the ids of the text.
  struct Marks {
    std::vector<int32_t> before, behind;
  };
  [[nodiscard]] Marks marks() const;

  // Returns the text of the ids, always valid UTF-8. Leaves out ids that no token has, and with `skip_special_tokens`
  // special tokens, with the library's exception: one that the normalizer changes, such as the `</s>` of Llama-2,
  // stays.
  [[nodiscard]] std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  // Returns the place in `text` of each of its ids: bytes [begin, end), for ids = encode(text, false). Exact as long as
  // tokens spell the text; if a normalizer has changed it, a token gets the place up to the next one that can be found.
  [[nodiscard]] std::vector<std::pair<int64_t, int64_t>> locate(std::string_view text,
                                                                std::span<const int32_t> ids) const;

  // Decodes a growing sequence: the results of the calls, joined, are decode() of all ids. Borrows the tokenizer.
  class StreamDecoder {
   public:
    StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
        : tokenizer_(&tokenizer), skip_special_tokens_(skip_special_tokens) {}
    // Returns the text that is certain with this id: no half characters.
    [[nodiscard]] std::string push(int32_t id);
    // Returns the rest at the end, such as U+FFFD for a character that was never completed.
    [[nodiscard]] std::string finish();

   private:
    const Tokenizer* tokenizer_;
    bool skip_special_tokens_;
    std::vector<int32_t> window_;  // one id whose text has been returned (it may change how the next ones read), and
                                   // newer ids
    size_t emitted_bytes_ = 0;     // of the text of window_
  };

  // Returns the token as the vocabulary writes it; empty for an id that no token has.
  [[nodiscard]] std::string id_to_token(int32_t id) const;
  // Returns the bytes that the token adds to a text, a space before a word included; maybe half a character.
  [[nodiscard]] std::string token_bytes(int32_t id) const;
  [[nodiscard]] std::optional<int32_t> token_to_id(std::string_view token) const;
  // Returns one more than the highest id, added tokens included: the number of rows that an embedding must have.
  [[nodiscard]] int64_t vocabulary_size() const;
  [[nodiscard]] bool is_special(int32_t id) const;

  // Return the ids of the roles in tokenizer_config.json, if the token is set and in the vocabulary.
  [[nodiscard]] std::optional<int32_t> bos_id() const;
  [[nodiscard]] std::optional<int32_t> eos_id() const;
  [[nodiscard]] std::optional<int32_t> pad_id() const;
  // Returns the id with which programs pad batches: the padding token, or else the end token, as in TRL.
  [[nodiscard]] std::optional<int32_t> fill_id() const {
    const std::optional<int32_t> pad = pad_id();
    return pad ? pad : eos_id();
  }
  [[nodiscard]] std::optional<int32_t> unk_id() const;
  [[nodiscard]] std::string bos_token() const;
  [[nodiscard]] std::string eos_token() const;
  [[nodiscard]] std::string pad_token() const;
  [[nodiscard]] std::string unk_token() const;
  // Returns the ids that end generation: eos_id() and those in generation_config.json, without repetition.
  [[nodiscard]] std::vector<int32_t> stop_ids() const;

  // Returns all chat templates: those of files (text/chat_template_files.h), or else those of tokenizer_config.json.
  [[nodiscard]] const ChatTemplateSources& chat_templates() const;
  // Returns the source of the one that `name` chooses ("tool_use"); nullopt for an unknown name.
  [[nodiscard]] std::optional<std::string> chat_template(std::string_view name = "default") const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::text
