#include "saved/saved_round.h"

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "base/sizes.h"
#include "io/checksum.h"

namespace spillway::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kRoundPrefix = "round.";
constexpr const char* kIds = "ids";

// A field of completions with one number per token, or none.
struct TokenNumbers {
  const char* name;
  std::vector<float> Completion::*numbers;
};
constexpr std::array<TokenNumbers, 3> kTokenNumbers = {{{"logprobs", &Completion::logprobs},
                                                        {"old_logps", &Completion::old_logps},
                                                        {"ref_logps", &Completion::ref_logps}}};

std::string tensor_name(const char* name) { return std::string(kRoundPrefix) + name; }

// JSON has no NaN, and f32 numbers come back from the shortest text of their double.
Json numbers_json(const std::vector<float>& numbers) {
  Json json = Json::array();
  for (const float one : numbers) json.push_back(std::isnan(one) ? Json() : Json(one));
  return json;
}

void read_numbers(const Json& json, std::vector<float>& numbers) {
  for (const Json& one : json)
    numbers.push_back(one.is_null() ? std::numeric_limits<float>::quiet_NaN() : one.get<float>());
}
void read_numbers(const Json& json, std::vector<int32_t>& numbers) { json.get_to(numbers); }

// A tensor of a round, split into parts for the completions.
template <typename T>
class TokenReader {
 public:
  // A tensor that is not there has no elements.
  TokenReader(const char* name, const SafetensorsFile& file, const TensorSums& sums)
      : name_(tensor_name(name)), file_(file.path().string()) {
    constexpr DType kType = std::is_same_v<T, float> ? DType::kF32 : DType::kI32;
    for (const StoredTensor& tensor : file.tensors()) {
      if (tensor.name != name_) continue;
      if (tensor.dtype() != kType) throw damaged();
      numbers_ = make_vector<T>(tensor.elems());
      const std::span<std::byte> bytes = std::as_writable_bytes(std::span(numbers_));
      file.read_bytes(tensor, 0, bytes);  // with NaN where there is one
      const auto sum = sums.find(name_);
      if (sum == sums.end() || sum->second != checksum_text(bytes)) throw damaged();
    }
  }

  // `json` is the number of values or, in version 2, a list of them.
  void next(const Json& json, std::vector<T>& numbers) {
    if (json.is_array()) return read_numbers(json, numbers);
    const auto count = json.get<int64_t>();
    if (count < 0 || count > std::ssize(numbers_) - done_) throw damaged();
    const std::span<const T> part = subspan_of(numbers_, done_, count);
    numbers.assign(part.begin(), part.end());
    done_ += count;
  }

 private:
  [[nodiscard]] InputError damaged() const { return damaged_tensor(file_, name_); }

  std::string name_, file_;
  std::vector<T> numbers_;
  int64_t done_ = 0;
};

}  // namespace

bool is_of_round(std::string_view tensor) { return tensor.starts_with(kRoundPrefix); }

std::vector<TensorSpec> tensors_of(const Round& round) {
  std::vector<TensorSpec> specs = {{tensor_name(kIds), DType::kI32, {0}}};
  for (const TokenNumbers& one : kTokenNumbers) specs.push_back({tensor_name(one.name), DType::kF32, {0}});
  for (const Completion& completion : round.completions) {
    specs[0].shape[0] += std::ssize(completion.ids);
    for (size_t i = 0; i < kTokenNumbers.size(); ++i)
      specs[i + 1].shape[0] += std::ssize(completion.*kTokenNumbers[i].numbers);
  }
  std::erase_if(specs, [](const TensorSpec& spec) { return spec.elems() == 0; });
  return specs;
}

void append_tensors(const Round& round, SafetensorsWriter& writer) {
  const auto append = [&](const char* name, const auto& numbers, DType dtype) {
    if (!numbers.empty()) writer.append(tensor_name(name), numbers.data(), dtype, std::ssize(numbers));
  };
  for (const Completion& completion : round.completions) append(kIds, completion.ids, DType::kI32);
  for (const TokenNumbers& one : kTokenNumbers) {
    for (const Completion& completion : round.completions) append(one.name, completion.*one.numbers, DType::kF32);
  }
}

Json to_json(const Round& round) {
  Json completions = Json::array();
  for (const Completion& one : round.completions) {
    Json json = {{"row", one.row},
                 {"is_truncated", one.is_truncated},
                 {"rewards", numbers_json(one.rewards)},
                 {"advantage", one.advantage},
                 {"score", one.score},
                 {kIds, one.ids.size()}};
    for (const TokenNumbers& of_tokens : kTokenNumbers) json[of_tokens.name] = (one.*of_tokens.numbers).size();
    completions.push_back(std::move(json));
  }
  return {{"number", round.number}, {"completions", std::move(completions)}, {"order", round.order}};
}

Round round_from_json(const Json& json, const SafetensorsFile& state, const TensorSums& sums) {
  Round round{.number = json.at("number"), .order = json.at("order").get<std::vector<int64_t>>()};
  TokenReader<int32_t> ids(kIds, state, sums);
  std::vector<TokenReader<float>> numbers;
  for (const TokenNumbers& one : kTokenNumbers) numbers.emplace_back(one.name, state, sums);
  for (const Json& one : json.at("completions")) {
    Completion& completion = round.completions.emplace_back();
    completion.row = one.at("row");
    completion.is_truncated = one.at("is_truncated");
    completion.advantage = one.at("advantage");
    completion.score = one.value("score", completion.advantage);  // version 2 has either under one name
    read_numbers(one.at("rewards"), completion.rewards);
    ids.next(one.at(kIds), completion.ids);
    for (size_t i = 0; i < kTokenNumbers.size(); ++i)
      numbers[i].next(one.at(kTokenNumbers[i].name), completion.*kTokenNumbers[i].numbers);
  }
  return round;
}

}  // namespace spillway::train
