#include "train/generator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_set>

#include "base/bytes.h"
#include "base/error.h"
#include "base/math.h"
#include "base/random.h"
#include "model/adapter.h"
#include "model/weights.h"

namespace spillway::train {
namespace {

// Tokens of a prompt that one run takes: enough to keep the matrix products busy.
constexpr int64_t kPieceTokens = 256;

DType stored_dtype(const SafetensorsFolder& folder) {
  return folder.find(kEmbedding)->dtype() == DType::kF32 ? DType::kF32 : DType::kBF16;
}

void check_room(const Program& program, const Device& device) {
  const int64_t needed = program.arena_bytes[static_cast<size_t>(Tier::kDevice)], free = device.free_bytes();
  if (!device.shares_host_memory() && needed > free)
    throw machine_error("device", "expected {} of its memory for weights and caches, got {}; use --device cpu",
                        format_bytes(needed), format_bytes(free));
}

double log_probability(std::span<const float> logits, int32_t id) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit - top));
  return static_cast<double>(logits[static_cast<size_t>(id)] - top) - std::log(total);
}

}  // namespace

void penalise_repetition(std::span<float> logits, std::span<const int32_t> seen, double penalty) {
  const std::unordered_set<int32_t> distinct(seen.begin(), seen.end());
  const auto factor = static_cast<float>(penalty);
  for (const int32_t id : distinct) {
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit < 0 ? logit * factor : logit / factor;
  }
}

int32_t sample(std::span<const float> logits, const Sampling& sampling, double uniform) {
  if (sampling.temperature == 0)
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  // What is no number comes last: sorting wants an order.
  const auto score = [&](int32_t id) {
    const float logit = logits[static_cast<size_t>(id)];
    return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
  };
  const auto is_likelier = [&](int32_t a, int32_t b) {
    const float left = score(a), right = score(b);
    return left != right ? left > right : a < b;
  };
  // A vocabulary takes longer to sort than a small model to run.
  if (const int64_t top = sampling.top_k; top > 0 && top < std::ssize(ids)) {
    std::nth_element(ids.begin(), ids.begin() + top, ids.end(), is_likelier);
    ids.resize(static_cast<size_t>(top));
  }
  std::sort(ids.begin(), ids.end(), is_likelier);
  std::vector<double> weights;
  const float top = logits[static_cast<size_t>(ids[0])];
  for (const int32_t id : ids)
    weights.push_back(std::exp((static_cast<double>(logits[static_cast<size_t>(id)]) - top) / sampling.temperature));
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double kept = 0;
  size_t count = 0;
  while (count < weights.size() && kept < sampling.top_p * total) kept += weights[count++];
  count = std::max<size_t>(count, 1);
  total = std::accumulate(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
  double left = uniform * total;
  for (size_t i = 0; i + 1 < count; ++i) {
    left -= weights[i];
    if (left < 0) return ids[i];
  }
  return ids[count - 1];
}

Generator::Generator(const std::filesystem::path& model, const std::filesystem::path& adapter, int64_t context,
                     ThreadPool& pool, Device& device)
    : config_(read_model_config(model)) {
  const SafetensorsFolder base = open_model_weights(model, decoder_parameters(config_));
  DecoderOptions options{.dtype = stored_dtype(base), .tokens = std::min(context, kPieceTokens)};
  std::optional<SafetensorsFolder> factors;
  if (!adapter.empty()) {
    options.lora = read_adapter_options(adapter);
    options.lora->dropout = 0;
    fit_to_adapter(config_, *options.lora, adapter);
    factors.emplace(open_adapter_weights(adapter, decoder_parameters(config_, options), *options.lora));
  }
  graph_.name = "generation";
  Builder builder(graph_);
  decoder_ = build_cached_decoder(builder, config_, options, context);
  plan_ = make_plan(graph_, {.device = device.kind(), .threads = pool.threads()}, {}, saved_policy(Treatment::kKeep));
  check_room(plan_.program, device);
  executor_.emplace(graph_, plan_.program, pool, ExecutorOptions{.tiers = {.device = &device}});
  load_base_weights(decoder_.parameters, base, executor_->values());
  if (factors) load_adapter_weights(decoder_.parameters, *factors, executor_->values());
}

std::span<const float> Generator::run(std::span<const int32_t> tokens, int64_t start) {
  const auto count = static_cast<int64_t>(tokens.size());
  executor_->set_tokens(count);
  std::copy(tokens.begin(), tokens.end(), executor_->home(decoder_.ids).as<int32_t>());
  auto* positions = executor_->home(decoder_.positions).as<int32_t>();
  std::iota(positions, positions + count, narrow<int32_t>(start));
  *executor_->home(decoder_.start).as<int32_t>() = narrow<int32_t>(start);
  *executor_->home(decoder_.last).as<int32_t>() = narrow<int32_t>(count - 1);
  executor_->run(0);
  return {executor_->result(0).as<float>(), static_cast<size_t>(config_.vocab_size)};
}

Generated Generator::generate(std::span<const int32_t> prompt, std::span<const int32_t> stop_ids,
                              const Sampling& sampling, const std::function<void(int32_t)>& on_token) {
  SPILLWAY_CHECK(!prompt.empty(), "an empty prompt");
  Generated result;
  std::vector<int32_t> seen(prompt.begin(), prompt.end());
  int64_t start = 0;
  std::span<const float> logits;
  while (!prompt.empty()) {
    const auto piece = prompt.first(std::min(prompt.size(), static_cast<size_t>(graph_.tokens)));
    logits = run(piece, start);
    start += std::ssize(piece);
    prompt = prompt.subspan(piece.size());
  }
  RandomStream random(sampling.seed, 0);
  while (std::ssize(result.ids) < sampling.max_new_tokens) {
    std::vector<float> scores(logits.begin(), logits.end());
    if (config_.repetition_penalty != 1) penalise_repetition(scores, seen, config_.repetition_penalty);
    const int32_t id = sample(scores, sampling, random.uniform());
    if (std::find(stop_ids.begin(), stop_ids.end(), id) != stop_ids.end()) {
      result.stopped = true;
      break;
    }
    result.ids.push_back(id);
    seen.push_back(id);
    result.logprobs.push_back(log_probability(logits, id));
    if (on_token) on_token(id);
    if (std::ssize(result.ids) < sampling.max_new_tokens) logits = run({&id, 1}, start++);
  }
  return result;
}

}  // namespace spillway::train
