#include "infer/generation/generator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "backend/testing/delayed_device.h"
#include "base/error.h"
#include "base/index.h"
#include "base/random.h"
#include "base/temporary_folder.h"
#include "infer/generation/cache_rows.h"
#include "infer/inference_model.h"
#include "io/file.h"
#include "io/safetensors_writer.h"
#include "model/adapter.h"
#include "model/model.h"
#include "model/quantised/quantise_model.h"
#include "plan/verify.h"
#include "tests/support/deep_model.h"
#include "tests/support/golden_models.h"
#include "tests/support/tiered_machine.h"

using namespace spillway;
using namespace spillway::infer;
using spillway::testing::kGoldenModels;
using spillway::testing::tiered_machine;
using spillway::testing::write_deep_model;

namespace {

// One of rank 2 on all linear layers.
void write_adapter(const std::filesystem::path& model, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const LoraOptions lora{.r = 2, .alpha = 2};
  const ParameterTable parameters = parameters_of(*read_model(model), {.lora = lora});
  write_file(folder / "adapter_config.json", adapter_config_json(parameters, lora, model.string()));
  std::vector<TensorSpec> specs;
  for (const Parameter& p : parameters) {
    if (p.is_factor()) specs.push_back({adapter_tensor_name(p.name), DType::kF32, p.shape.dims()});
  }
  SafetensorsWriter writer(folder / "adapter_model.safetensors", specs);
  for (const TensorSpec& spec : specs) {
    const std::vector<float> values(static_cast<size_t>(spec.elems()), 0.01F);
    writer.append(spec.name, values.data(), DType::kF32, spec.elems());
  }
  writer.commit();
}

}  // namespace

TEST_CASE("penalties change the logits of what was said, and a bias those of its tokens") {
  // As RepetitionPenaltyLogitsProcessor(1.25) of transformers does.
  std::array<float, 4> logits = {2.5f, -1.0f, 2.4f, 0.0f};
  const std::vector<int32_t> ids = {0, 1, 0, 3};
  penalise(logits, ids, 4, {.repetition = 1.25});
  CHECK(logits == std::array<float, 4>{2.0f, -1.25f, 2.4f, 0.0f});
  CHECK(sample(logits, {}, 0) == 2);
  // logit - count * frequency - (count > 0) * presence, as OpenAI writes it, of what follows the prompt; and the bias.
  logits = {2.5f, -1.0f, 2.0f, 0.0f};
  penalise(logits, ids, 1, {.frequency = 0.5, .presence = 0.25, .logit_bias = {{2, -1.0f}}});
  CHECK(logits == std::array<float, 4>{1.75f, -1.75f, 1.0f, -0.75f});
  penalise(logits, std::vector<int32_t>{1, 1, 1}, 0, {.frequency = 0.5, .presence = -0.25});
  CHECK(logits[1] == -3.0f);
}

TEST_CASE("top-k and top-p leave the most likely tokens to choose from") {
  const std::array<float, 4> logits = {0.0f, 3.0f, 2.0f, 1.0f};
  CHECK(sample(logits, {.temperature = 1}, 0.0) == 0);  // all: in the order of ids
  CHECK(sample(logits, {.temperature = 1}, 0.999) == 3);
  CHECK(sample(logits, {.temperature = 1, .top_k = 2}, 0.999) == 2);
  CHECK(sample(logits, {.temperature = 1, .top_p = 0.5}, 0.999) == 1);
  CHECK(sample(logits, {.temperature = 100, .top_k = 3}, 0.999) == 3);
  CHECK(sample(logits, {.temperature = 1, .min_p = 0.3}, 0.999) == 2);  // e^-1 of the largest, and e^-2
  CHECK(sample(logits, {.temperature = 1, .top_k = 1, .min_p = 1}, 0.999) == 1);
  const std::array<float, 4> equal = {1.0f, 2.0f, 2.0f, 2.0f};
  CHECK(sample(equal, {.temperature = 1, .top_k = 2}, 0.999) == 2);
}

TEST_CASE("tokens that generation_config.json suppresses are never chosen") {
  const TemporaryFolder folder;
  const std::filesystem::path model = folder.path() / "model";
  std::filesystem::copy(kGoldenModels / "qwen3", model);
  ThreadPool pool(1);
  std::vector<int32_t> suppressed;
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    write_file(model / "generation_config.json", nlohmann::json{{"suppress_tokens", suppressed}}.dump());
    Generator generator({.model = model, .sizes = generation_sizes({9})}, pool);
    const Prompt prompt{{3, 5, 7}, {.max_new_tokens = 6}};
    const std::vector<int32_t> ids = generator.generate({&prompt, 1})[0].ids;
    REQUIRE_FALSE(ids.empty());
    for (const int32_t id : suppressed) CHECK(std::count(ids.begin(), ids.end(), id) == 0);
    suppressed.push_back(ids.front());
  }
}

TEST_CASE("rows of the caches are handed out from the lowest, in multiples of a tile, and come back whole") {
  CacheRows rows(256);
  CHECK(rows.take(65) == 0);
  CHECK(rows.take(1) == 128);
  CHECK(rows.take(64) == 192);
  CHECK(!rows.take(1));
  rows.give_back(128, 1);
  CHECK(!rows.take(65));
  rows.give_back(0, 65);
  CHECK(rows.take(192) == 0);
  rows.give_back(192, 64);
  rows.give_back(0, 192);
  CHECK(rows.take(256) == 0);
}

TEST_CASE("a device with memory of its own, and captured work, generates what the CPU does") {
  const std::filesystem::path model = kGoldenModels / "qwen3";
  ThreadPool pool(1);
  const auto answer = [&](Device& device) {
    const Prompt prompt{{3, 5, 7}, {.max_new_tokens = 12}};
    Generator generator({.model = model, .sizes = generation_sizes({prompt.sequence_tokens()})}, pool, device);
    const std::vector<Generated> result = generator.generate({&prompt, 1}, {.logprobs = true});
    return std::pair(result[0].ids, result[0].logprobs);
  };
  spillway::testing::DelayedDevice device(1, 10);
  CHECK(answer(device) == answer(cpu_device()));
  CHECK(device.replays() > 0);
}

TEST_CASE("sequences of one prompt, of which one reads it and the others copy its keys, are what each is alone") {
  ThreadPool pool(2);
  // Longer than one run takes in, so that copies are cut, too.
  std::vector<int32_t> shared(300), other = {3, 5, 7};
  for (size_t i = 0; i < shared.size(); ++i) shared[i] = static_cast<int32_t>(3 + i % 60);
  std::vector<Prompt> prompts;
  for (uint64_t seed = 0; seed < 6; ++seed)
    prompts.push_back({seed == 2 ? other : shared,
                       {.max_new_tokens = 6 + 3 * static_cast<int64_t>(seed), .temperature = 1, .seed = seed}});
  std::vector<int64_t> lengths;
  for (const Prompt& prompt : prompts) lengths.push_back(prompt.sequence_tokens());
  const auto answer = [&](int64_t at_once) {
    Generator generator({.model = kGoldenModels / "qwen3", .sizes = generation_sizes(lengths, at_once)}, pool);
    std::vector<std::pair<std::vector<int32_t>, std::vector<double>>> result;
    for (const Generated& one : generator.generate(prompts, {.logprobs = true}))
      result.emplace_back(one.ids, one.logprobs);
    return result;
  };
  const auto alone = answer(1);
  CHECK(answer(6) == alone);
  CHECK(answer(4) == alone);
  CHECK(alone[0].first != alone[1].first);
}

TEST_CASE("whatever memory it may take, a generator answers the same, reading weights from the model's files") {
  const TemporaryFolder folder;
  const std::filesystem::path& model = folder.path();
  write_deep_model(model, 8);
  ThreadPool pool(2);
  const std::vector<Prompt> prompts = {{{3, 5, 7}, {.max_new_tokens = 12}}, {{4}, {.max_new_tokens = 20}}};
  struct Outcome {
    std::vector<std::vector<double>> logprobs;
    int64_t device_bytes;
  };
  const auto answer = [&](std::optional<int64_t> device_bytes) {
    GeneratorOptions options{
        .model = model, .sizes = generation_sizes({15, 21}), .budget = {.device_bytes = device_bytes}};
    options.budget.machine.link_bytes_per_second.fill(1e9);
    Generator generator(options, pool);
    Outcome outcome{.device_bytes = generator.peak_bytes()};
    for (const Generated& one : generator.generate(prompts, {.logprobs = true}))
      outcome.logprobs.push_back(one.logprobs);
    return outcome;
  };
  const Outcome kept = answer({});
  int64_t least = kept.device_bytes;
  std::string message;
  while (message.empty()) {
    CAPTURE(least);
    try {
      const Outcome smaller = answer(least - 1);
      CHECK(smaller.logprobs == kept.logprobs);
      REQUIRE(smaller.device_bytes < least);
      least = smaller.device_bytes;
    } catch (const InputError& error) {
      message = error.what();
    }
  }
  CHECK(message.starts_with("[--memory.device] expected at least"));
  CHECK(kept.device_bytes - least > static_cast<int64_t>(std::filesystem::file_size(model / "model.safetensors")) / 4);
}

TEST_CASE("weights that do not fit the memory of a device stay in the host's, with the same answers") {
  const TemporaryFolder folder;
  write_deep_model(folder.path(), 8);
  ThreadPool pool(1);
  spillway::testing::DelayedDevice device(1, 10);
  const auto answer = [&](std::optional<int64_t> device_bytes, int64_t host_bytes) {
    GeneratorOptions options{.model = folder.path(),
                             .sizes = generation_sizes({15}),
                             .budget = {.device_bytes = device_bytes, .host_bytes = host_bytes}};
    options.budget.machine.link_bytes_per_second.fill(1e9);
    nth(options.budget.machine.link_bytes_per_second, Lane::kDiskRead) = 1e8;
    Generator generator(options, pool, device);
    const Prompt prompt{{3, 5, 7}, {.max_new_tokens = 12}};
    return std::pair(generator.generate({&prompt, 1}, {.logprobs = true})[0].logprobs,
                     std::pair(generator.peak_bytes(), generator.peak_bytes(Tier::kHost)));
  };
  const auto [kept, all] = answer({}, 0);
  CHECK(all.second == 0);
  const auto weights = static_cast<int64_t>(std::filesystem::file_size(folder.path() / "model.safetensors"));
  for (const int64_t host_bytes : {int64_t{0}, weights / 4, weights}) {
    CAPTURE(host_bytes);
    const auto [logprobs, bytes] = answer(all.first - weights / 3, host_bytes);
    CHECK(logprobs == kept);
    CHECK(bytes.first <= all.first - weights / 3);
    CHECK(bytes.second <= host_bytes);
    CHECK((bytes.second > 0) == (host_bytes > 0));
  }
}

TEST_CASE("a mixture answers the same if only the experts that its tokens reach are read") {
  ThreadPool pool(2);
  const std::vector<Prompt> prompts = {{{3, 5, 7}, {.max_new_tokens = 12}}};
  for (const std::string_view name : {"qwen3_moe", "mixtral", "gpt_oss_mxfp4", "deepseek_v2"}) {
    CAPTURE(name);
    const std::filesystem::path model = kGoldenModels / name;
    const auto answer = [&](std::optional<int64_t> device_bytes) {
      GeneratorOptions options{
          .model = model, .sizes = generation_sizes({15}), .budget = {.device_bytes = device_bytes}};
      options.budget.machine.link_bytes_per_second.fill(1e5);
      Generator generator(options, pool);
      return std::pair(generator.generate(prompts, {.logprobs = true}).front().logprobs, generator.peak_bytes());
    };
    const auto [kept, most] = answer({});
    for (const double share : {0.98, 0.95}) {
      CAPTURE(share);
      const auto [logprobs, device_bytes] = answer(static_cast<int64_t>(share * static_cast<double>(most)));
      CHECK(logprobs == kept);
      CHECK(device_bytes < most);
    }
  }
}

TEST_CASE("prompts are read in longer runs where these wait for weights, with the same bits") {
  const TemporaryFolder folder;
  write_deep_model(folder.path(), 48);
  ThreadPool pool(2);
  std::vector<Prompt> prompts(2);
  for (int32_t i = 0; i < 2000; ++i) prompts[i < 1700 ? 0 : 1].ids.push_back(1 + i * i % 11);
  for (Prompt& prompt : prompts) prompt.sampling.max_new_tokens = 2;
  struct Outcome {
    std::vector<std::vector<double>> logprobs;
    int64_t prompt_tokens = 0;
  };
  const auto answer = [&](std::optional<int64_t> device_bytes, double bytes_per_second) {
    GeneratorOptions options{
        .model = folder.path(), .sizes = generation_sizes({1702, 302}, 2, 2), .budget = {.device_bytes = device_bytes}};
    options.budget.machine.link_bytes_per_second.fill(bytes_per_second);
    Generator generator(options, pool);
    Outcome outcome{.prompt_tokens = generator.prompt_tokens()};
    for (const Generated& one : generator.generate(prompts, {.logprobs = true}))
      outcome.logprobs.push_back(one.logprobs);
    return outcome;
  };
  const Outcome kept = answer({}, 1e9);
  CHECK(kept.prompt_tokens == 256);
  const auto weights = static_cast<int64_t>(std::filesystem::file_size(folder.path() / "model.safetensors"));
  const auto most = Generator({.model = folder.path(), .sizes = generation_sizes({1702, 302})}, pool).peak_bytes();
  CHECK(answer(most, 1e5).prompt_tokens == 256);  // no weight is read
  const Outcome waiting = answer(most - weights / 2, 1e5);
  CHECK(waiting.prompt_tokens > 256);
  CHECK(waiting.logprobs == kept.logprobs);
}

TEST_CASE("with keys and values in host memory a longer context fits the same device memory, with the same bits") {
  const TemporaryFolder folder;
  write_deep_model(folder.path(), 8);
  ThreadPool pool(1);
  const InferenceModel inference = read_inference_model(folder.path(), {});
  struct Outcome {
    int64_t device_bytes = 0, host_bytes = 0;
    std::vector<double> logprobs;
  };
  const auto answer = [&](int64_t rows, std::optional<int64_t> device, const std::vector<Rule>& rules) {
    const GenerationGraphs graphs = build_generation_graphs(*inference.model, inference.options,
                                                            {.cache_rows = rows, .longest = rows, .prompt_tokens = 64});
    const Graph &decode = graphs.decode.graph, &prompt = graphs.prompt.graph;
    const Machine machine = tiered_machine();
    const Budget budget{.device = device, .host = 1 << 30};
    Policy policy = saved_policy(ActivationPolicy::kKeep);
    policy.rules = {{.pattern = {}, .home = Tier::kDevice}};
    policy.rules.insert(policy.rules.end(), rules.begin(), rules.end());
    const Plan first = make_plan(decode, machine, budget, policy);
    const Plan second = make_plan_beside(decode, first.choices, prompt, machine, budget);
    CHECK((first.fits && second.fits));
    CHECK(verify(decode, first.program, budget).empty());
    CHECK(verify(prompt, second.program, budget).empty());
    REQUIRE(verify_shared_homes(decode, first.program, prompt, second.program).empty());
    const std::array<const Program*, 2> programs = {&first.program, &second.program};
    Memory memory(programs, pool, {});
    Executor of_decode(decode, first.program, memory), of_prompt(prompt, second.program, memory);
    inference.load(graphs.decode.model.parameters, of_decode.values());
    Prompt asked{{}, {.max_new_tokens = 12}};
    for (int64_t i = 0; i < std::min<int64_t>(rows - 64, 600); ++i)
      asked.ids.push_back(static_cast<int32_t>(3 + i % 60));
    return Outcome{peak_bytes_of({first, second}), first.peaks[1].bytes,
                   generate({{decode, graphs.decode.model, of_decode},
                             {prompt, graphs.prompt.model, of_prompt},
                             graphs.decode.choice,
                             pool},
                            {&asked, 1}, {.logprobs = true})[0]
                       .logprobs};
  };
  const Outcome near = answer(512, {}, {}), longer = answer(2048, {}, {});
  CHECK(longer.device_bytes > near.device_bytes);
  const Outcome on_host = answer(2048, near.device_bytes, {{{.kind = ValueKind::kCache}, Tier::kHost}});
  CHECK(on_host.device_bytes <= near.device_bytes);
  CHECK(on_host.host_bytes > 0);
  CHECK(on_host.logprobs == longer.logprobs);
  CHECK(on_host.logprobs.size() == 12);
}

TEST_CASE("weights are read from the model's files beside an adapter, too, and where codes have scales in two parts") {
  const TemporaryFolder folder;
  const std::filesystem::path model = folder.path() / "model", adapter = folder.path() / "adapter";
  std::filesystem::create_directories(model);
  write_deep_model(model, 8);
  write_adapter(model, adapter);
  quantise_model(model, folder.path() / "nf4");
  ThreadPool pool(2);
  const Prompt prompt{{3, 5, 7}, {.max_new_tokens = 6}};
  for (const char* base : {"model", "nf4"}) {
    CAPTURE(base);
    const auto answer = [&](std::optional<int64_t> device_bytes) {
      GeneratorOptions options{.model = folder.path() / base,
                               .adapter = adapter,
                               .sizes = generation_sizes({prompt.sequence_tokens()}),
                               .budget = {.device_bytes = device_bytes}};
      options.budget.machine.link_bytes_per_second.fill(1e9);
      Generator generator(options, pool);
      return std::pair(generator.generate({&prompt, 1}, {.logprobs = true})[0].logprobs, generator.peak_bytes());
    };
    const auto [kept, all] = answer({});
    const auto [streamed, some] = answer(all - 1);
    CHECK(streamed == kept);
    CHECK(some < all);
  }
}
