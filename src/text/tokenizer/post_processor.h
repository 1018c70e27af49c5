// Puts special tokens around a text's ids: TemplateProcessing, BertProcessing, RobertaProcessing, and sequences of
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/json_field.h"

namespace spillway::text {

// Immutable; any thread may use it.
class PostProcessor {
 public:
  // `field` may be null: nothing is added. Throws InputError for other kinds and for ids of `id_limit` or more.
  PostProcessor(const JsonField& field, int64_t id_limit) { read(field, id_limit); }

  // Returns the processed ids; without `add_special_tokens` only the text's own.
  [[nodiscard]] std::vector<int32_t> apply(std::vector<int32_t> ids, bool add_special_tokens) const;

 private:
  // A piece is a special token, or nullopt: the ids of the text.
  using Template = std::vector<std::optional<int32_t>>;

  void read(const JsonField& field, int64_t id_limit);
  static Template read_template(const JsonField& field, int64_t id_limit);

  std::vector<Template> templates_;  // each is applied to the result of the one before
};

}  // namespace spillway::text
