#include "serve/answer_grammars.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "text/grammar/json_schema.h"

namespace spillway::serve {

std::shared_ptr<text::TokenGrammar> AnswerGrammars::of(const GenerationRequest& request) {
  if (request.format == AnswerFormat::kText) return nullptr;
  const bool has_schema = request.format == AnswerFormat::kJsonSchema;
  const std::string name = has_schema ? json_text(request.schema) : "";
  if (std::shared_ptr<text::TokenGrammar> kept = find(name)) return kept;
  try {
    // Without the lock: a large schema keeps no other request waiting. Two that are alike are compiled twice at worst.
    text::ByteGrammar grammar =
        has_schema ? text::json_schema_grammar(request.schema, "request: response_format.json_schema.schema")
                   : text::json_object_grammar();
    return keep(name, std::move(grammar), {});
  } catch (const InputError& error) {
    throw RequestError(400, error.what(), "response_format");
  }
}

std::shared_ptr<text::TokenGrammar> AnswerGrammars::of(const text::FramedDocuments& calls,
                                                       const std::vector<int32_t>& marks) {
  std::string name = fmt::format("{}\n{}\n{}\n{}", calls.open, calls.separator, calls.close, calls.is_one);
  for (const text::FramedDocuments::Alternative& one : calls.alternatives)
    name += fmt::format("\n{}{}{}", one.before, json_text(one.schema), one.after);
  if (std::shared_ptr<text::TokenGrammar> kept = find(name)) return kept;
  try {
    return keep(name, text::framed_json_grammar(calls), marks);
  } catch (const InputError& error) {
    throw RequestError(400, error.what(), "tools");
  }
}

std::shared_ptr<text::TokenGrammar> AnswerGrammars::find(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const auto& one) { return one.first == name; });
  if (found == kept_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, found);
  return found->second;
}

std::shared_ptr<text::TokenGrammar> AnswerGrammars::keep(const std::string& name, text::ByteGrammar grammar,
                                                         const std::vector<int32_t>& marks) {
  constexpr size_t kMaxKept = 8;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const text::TokenTrie>& trie = tries_[marks];
  if (!trie) trie = std::make_shared<text::TokenTrie>(tokenizer_, "request: response_format", marks);
  kept_.emplace_front(name, std::make_shared<text::TokenGrammar>(trie, std::move(grammar)));
  if (kept_.size() > kMaxKept) kept_.pop_back();
  return kept_.front().second;
}

}  // namespace spillway::serve
