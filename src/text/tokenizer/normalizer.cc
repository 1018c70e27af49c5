#include "text/tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "base/utf8.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/code_points.h"

namespace spillway::text {
namespace {

constexpr int kDecompose = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;

// Returns where a long text may be cut: an ASCII character joins and reorders nothing before it.
size_t piece_end(std::string_view text) {
  constexpr size_t kPieceBytes = size_t{64} << 10;  // utf8proc takes some 20 bytes for each
  size_t end = std::min(kPieceBytes, text.size());
  while (end < text.size() && static_cast<unsigned char>(text[end]) >= 0x80) ++end;
  return end;
}

void append_normal_form_of_piece(std::string_view part, int options, std::string& out) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(part.data()), static_cast<utf8proc_ssize_t>(part.size()),
                   &result, static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, std::free);
  SPILLWAY_CHECK(size != UTF8PROC_ERROR_INVALIDUTF8, "text of {} bytes", part.size());
  if (size < 0) throw std::bad_alloc();
  out.append(reinterpret_cast<const char*>(result), static_cast<size_t>(size));
}

// Appends the normal form of a part whose characters utf8proc and the library treat alike.
void append_normal_form(std::string_view part, int options, std::string& out) {
  while (!part.empty()) {
    const size_t end = piece_end(part);
    append_normal_form_of_piece(part.substr(0, end), options, out);
    part.remove_prefix(end);
  }
}

// Returns true for CJK ideographs as BERT knows them.
bool is_ideograph(char32_t c) {
  constexpr std::array<CodePointRange, 7> kRanges = {{{0x3400, 0x4DBF},
                                                      {0x4E00, 0x9FFF},
                                                      {0xF900, 0xFAFF},
                                                      {0x20000, 0x2A6DF},
                                                      {0x2A700, 0x2B81F},
                                                      {0x2B920, 0x2CEAF},
                                                      {0x2F800, 0x2FA1F}}};
  if (c < kRanges[0].first) return false;
  return std::any_of(kRanges.begin(), kRanges.end(),
                     [c](const CodePointRange& range) { return c >= range.first && c <= range.last; });
}

// Returns true if all characters are below U+0300: these are composed and never reorder or combine.
bool is_composed(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
}

}  // namespace

void Normalizer::read(const JsonField& field) {
  if (field.is_null()) return;
  const std::string& type = field["type"].string();
  if (type == "Sequence") {
    for (const JsonField& step : field["normalizers"].elements()) read(step);
  } else if (type == "NFC") {
    steps_.push_back(NormalForm{UTF8PROC_STABLE | UTF8PROC_COMPOSE, true});
  } else if (type == "NFD") {
    steps_.push_back(NormalForm{kDecompose, false});
  } else if (type == "NFKC") {
    steps_.push_back(NormalForm{UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT, false});
  } else if (type == "NFKD") {
    steps_.push_back(NormalForm{kDecompose | UTF8PROC_COMPAT, false});
  } else if (type == "StripAccents") {
    steps_.push_back(Drop{is_mark});
  } else if (type == "BertNormalizer") {
    read_bert(field);
  } else if (type == "Precompiled") {
    steps_.push_back(Precompiled(field["precompiled_charsmap"]));
  } else if (type == "Lowercase") {
    steps_.push_back(Lowercase{});
  } else if (type == "ByteLevel") {
    steps_.push_back(Bytes{});
  } else if (type == "Strip") {
    steps_.push_back(Strip{field["strip_left"].boolean_or(true), field["strip_right"].boolean_or(true)});
  } else if (type == "Prepend") {
    steps_.push_back(Prepend{field["prepend"].string()});
  } else if (type == "Replace") {
    steps_.push_back(Replace{Pattern(field["pattern"]), field["content"].string()});
  } else {
    throw field["type"].bad(
        "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, BertNormalizer, Precompiled, ByteLevel, Strip, Prepend, "
        "Replace "
        "or Sequence",
        "use a model with such a tokenizer");
  }
}

void Normalizer::read_bert(const JsonField& field) {
  const bool lowercase = field["lowercase"].boolean_or(true);
  if (field["clean_text"].boolean_or(true)) steps_.push_back(CleanText{});
  if (field["handle_chinese_chars"].boolean_or(true)) steps_.push_back(SpaceIdeographs{});
  if (field["strip_accents"].boolean_or(lowercase)) {
    steps_.push_back(NormalForm{kDecompose, false});
    steps_.push_back(Drop{is_nonspacing_mark});
  }
  if (lowercase) steps_.push_back(Lowercase{});
}

std::string_view Normalizer::apply(std::string_view text, std::string& buffer, RegexScratch& scratch,
                                   TextBudget& budget) const {
  std::string_view current = text;
  Output next{{}, scratch, budget};
  for (const Step& step : steps_) {
    const auto* form = std::get_if<NormalForm>(&step);
    if (form != nullptr && (form->composes ? is_composed(current) : is_ascii(current))) continue;
    next.text.clear();
    next.text.reserve(current.size() + current.size() / 8);
    std::visit([&](const auto& kind) { run(kind, current, next); }, step);
    budget.spend(next.text.size());
    buffer.swap(next.text);
    current = buffer;
  }
  return current;
}

void Normalizer::run(const NormalForm& step, std::string_view text, Output& out) {
  // The library's tables are older: characters that are new since then stand alone.
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    if (!is_unnormalized(next_code_point(text, i))) continue;
    append_normal_form(text.substr(begin, at - begin), step.options, out.text);
    out.budget.check(out.text.size());
    out.text.append(text.substr(at, i - at));
    begin = i;
  }
  append_normal_form(text.substr(begin), step.options, out.text);
}

void Normalizer::run(const Lowercase&, std::string_view text, Output& out) {
  for (size_t i = 0; i < text.size();) append_lowercase(out.text, next_code_point(text, i));
}

void Normalizer::run(const Drop& step, std::string_view text, Output& out) {
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    if (!step.drops(next_code_point(text, i))) out.text.append(text.substr(at, i - at));
  }
}

void Normalizer::run(const CleanText&, std::string_view text, Output& out) {
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    const char32_t c = next_code_point(text, i);
    if (is_noise(c)) continue;
    if (is_whitespace(c))
      out.text.push_back(' ');
    else
      out.text.append(text.substr(at, i - at));
  }
}

void Normalizer::run(const SpaceIdeographs&, std::string_view text, Output& out) {
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    const bool spaced = is_ideograph(next_code_point(text, i));
    if (spaced) out.text.push_back(' ');
    out.text.append(text.substr(at, i - at));
    if (spaced) out.text.push_back(' ');
  }
}

void Normalizer::run(const Precompiled& step, std::string_view text, Output& out) {
  step.apply(text, out.budget, out.text);
}

void Normalizer::run(const Bytes&, std::string_view text, Output& out) { append_byte_characters(out.text, text); }

void Normalizer::run(const Strip& step, std::string_view text, Output& out) {
  size_t begin = 0, end = text.size();
  for (size_t i = begin; step.left && i < end && is_whitespace(next_code_point(text, i));) begin = i;
  while (step.right && end > begin) {
    const size_t last = previous_character(text, end);
    size_t i = last;
    if (!is_whitespace(next_code_point(text, i))) break;
    end = last;
  }
  out.text.append(text.substr(begin, end - begin));
}

void Normalizer::run(const Prepend& step, std::string_view text, Output& out) {
  if (!text.empty()) out.text.append(step.text);
  out.text.append(text);
}

void Normalizer::run(const Replace& step, std::string_view text, Output& out) {
  step.pattern.replace(text, step.content, out.scratch, out.budget, out.text);
}

}  // namespace spillway::text
