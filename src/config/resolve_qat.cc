// Resolves the keys of quantisation-aware training. Which formats go together is axolotl's
// (axolotl/utils/quantization.py).
#include "config/keys.h"
#include "config/resolve.h"
#include "config/values.h"

namespace spillway::config {
namespace {

constexpr const char* kWeights = "qat.weight_dtype";
constexpr const char* kInputs = "qat.activation_dtype";

struct FormatPair {
  FakeDtype weights;
  std::optional<FakeDtype> inputs;
  std::vector<FakeFormat> of_weights, of_inputs;
};

// Every pair of weight_dtype and activation_dtype that can be trained for.
const std::vector<FormatPair>& format_pairs() {
  static const std::vector<FormatPair> kPairs = {
      {FakeDtype::kInt4, {}, {FakeFormat::kInt4}, {}},
      {FakeDtype::kInt4, FakeDtype::kInt8, {FakeFormat::kInt4}, {FakeFormat::kInt8}},
      {FakeDtype::kInt4, FakeDtype::kFloat8, {FakeFormat::kFloat8, FakeFormat::kInt4OfFloat8}, {FakeFormat::kFloat8}},
      {FakeDtype::kFloat8, FakeDtype::kFloat8, {FakeFormat::kFloat8}, {FakeFormat::kFloat8}},
      {FakeDtype::kMxfp4, FakeDtype::kMxfp4, {FakeFormat::kMxfp4}, {FakeFormat::kMxfp4}},
      {FakeDtype::kNvfp4, FakeDtype::kNvfp4, {FakeFormat::kNvfp4}, {FakeFormat::kNvfp4}},
      {FakeDtype::kNvfp4, {}, {FakeFormat::kNvfp4}, {}}};
  return kPairs;
}

std::string word_of(const std::optional<FakeDtype>& dtype) { return dtype ? print_value(*dtype) : "none"; }

// Returns null where the formats do not go together.
const FormatPair* find_pair(const QatSettings& qat) {
  for (const FormatPair& pair : format_pairs())
    if (pair.weights == qat.qat_weight_dtype && pair.inputs == qat.qat_activation_dtype) return &pair;
  return nullptr;
}

void check_formats(const Resolution& r) {
  if (find_pair(r.keys) != nullptr) return;
  std::vector<std::string> words;
  for (const FormatPair& pair : format_pairs())
    if (pair.weights == r.keys.qat_weight_dtype) words.push_back(word_of(pair.inputs));
  if (words.empty())
    throw input_error(r.where(kWeights), "expected int4, fp8, nvfp4 or mxfp4, got {}; set another",
                      word_of(r.keys.qat_weight_dtype));
  throw input_error(r.where(kInputs), "expected {} beside {} weights, got {}; set {}", fmt::join(words, " or "),
                    word_of(r.keys.qat_weight_dtype), word_of(r.keys.qat_activation_dtype), words.back());
}

void check_group(const Resolution& r) {
  constexpr const char* kGroup = "qat.group_size";
  const int64_t group = r.keys.qat_group_size;
  if (r.keys.qat_weight_dtype == FakeDtype::kInt4) {
    constexpr int64_t kLanes = 16;
    if (group % kLanes != 0)
      throw input_error(r.where(kGroup), "expected a multiple of {}, got {}; set another", kLanes, group);
  } else if (r.keys.qat_weight_dtype == FakeDtype::kFloat8) {
    r.ignore(kGroup, "fp8 weights have a scale for each row");
  } else if (r.given(kGroup)) {
    const int64_t fixed = fixed_group_of(find_pair(r.keys)->of_weights.front());
    if (group != fixed)
      throw input_error(r.where(kGroup), "expected {} for {}, got {}; remove the key", fixed,
                        word_of(r.keys.qat_weight_dtype), group);
  }
}

void check_alone(const Resolution& r) {
  const Spelled& keys = r.keys;
  const char* other = nullptr;
  if (keys.adapter != Adapter::kNone) other = "an adapter";
  if (has_preferences(keys) || is_online(keys)) other = keys.rl == Rl::kNone ? "a reward model" : "rl";
  if (keys.kd_trainer) other = "kd_trainer";
  if (other != nullptr)
    throw input_error(r.where(kWeights), "expected full fine-tuning on text for qat, got {} beside it; remove one",
                      other);
}

}  // namespace

std::optional<QatSettings> resolve_qat(const Resolution& r) {
  const QatSettings& qat = r.keys;
  if (!qat.qat_weight_dtype) {
    if (r.given("qat.group_size") || qat.qat_after_steps || qat.qat_activation_dtype || qat.qat_quantize_embedding)
      throw input_error(r.where(kWeights), "expected int4, fp8, nvfp4 or mxfp4, got nothing; set it, or remove qat");
    return {};
  }
  check_alone(r);
  check_formats(r);
  check_group(r);
  if (qat.qat_quantize_embedding && find_pair(qat)->of_weights != std::vector{FakeFormat::kInt4})
    throw input_error(r.where("qat.quantize_embedding"),
                      "expected false for other weights than int4 without fp8, got true; set it to false");
  return qat;
}

FakeQuantisation fake_quantisation_of(const QatSettings& qat) {
  const FormatPair& pair = *find_pair(qat);
  return {.weights = pair.of_weights,
          .inputs = pair.of_inputs,
          .group = qat.qat_group_size,
          .has_embedding = qat.qat_quantize_embedding,
          .after_steps = qat.qat_after_steps.value_or(0)};
}

}  // namespace spillway::config
