// Trains a small model on one rank and on ranks that share sequences, as threads: sums over tokens agree as two orders
// of summation do, and plans change no bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/index.h"
#include "base/math.h"
#include "base/random.h"
#include "base/temporary_folder.h"
#include "dist/testing/local_peers.h"
#include "graph/verify.h"
#include "infer/batch.h"
#include "io/scratch.h"
#include "job/state_tensors.h"
#include "job/training_graph.h"
#include "model/decoder/decoder.h"
#include "model/fresh_factors.h"
#include "plan/planner.h"
#include "plan/verify.h"
#include "runtime/executor.h"
#include "runtime/part_store.h"

using namespace spillway;

namespace {

constexpr int64_t kStreamTokens = 45, kSharedSteps = 3;
constexpr int32_t kStreamWords = 120;

struct SharedSetup {
  int64_t heads = 4, kv_heads = 2;
  bool lora = false, splits_weights = false;
  double neftune_noise_alpha = 0;
};

train::TrainingGraph shared_graph(const SharedSetup& setup, int ranks) {
  train::TrainingGraphOptions options;
  options.model = {.tokens = kStreamTokens, .context_ranks = ranks, .max_sequences = 6, .sequence_len = 16};
  options.model.train_base = !setup.lora;
  options.model.neftune_noise_alpha = setup.neftune_noise_alpha;
  if (setup.lora) options.model.lora = LoraOptions{.r = 4, .alpha = 8, .dropout = 0.2};
  options.accumulates = true;
  options.ranks = ranks;
  options.splits_states = options.splits_weights = setup.splits_weights;
  const ModelPtr model = make_decoder(parse_decoder_config(
      fmt::format(R"({{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
        "hidden_size": {}, "intermediate_size": 160, "max_position_embeddings": 64, "num_attention_heads": {},
        "num_hidden_layers": 3, "num_key_value_heads": {}, "head_dim": 16, "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0, "tie_word_embeddings": false, "vocab_size": {}}})",
                  setup.heads * 16, setup.heads, setup.kv_heads, kStreamWords),
      "test"));
  return train::build_training_graph(*model, options);
}

// The rows that the job is trained on: packed sequences, one of them of a single token.
struct Stream {
  std::vector<int32_t> ids, labels, positions, seq_offsets;

  Stream(int64_t step, int64_t tokens) {
    RandomStream random(static_cast<uint64_t>(step), 2);
    for (int32_t i = 0; i < tokens; ++i) {
      const bool begins = i == 0 || i == 13 || i == 14 || i == 41;
      if (begins) seq_offsets.push_back(i);
      ids.push_back(static_cast<int32_t>(random.below(kStreamWords)));
      positions.push_back(i - seq_offsets.back());
      labels.push_back(i + 1 == tokens || i % 7 == 3 ? -100 : static_cast<int32_t>(random.below(kStreamWords)));
    }
    seq_offsets.push_back(static_cast<int32_t>(tokens));
  }
  [[nodiscard]] const std::vector<int32_t>& column(std::string_view name) const {
    return name == "ids" ? ids : name == "labels" ? labels : name == "positions" ? positions : seq_offsets;
  }
};

struct SharedOutcome {
  std::map<std::string, std::vector<std::byte>> values;
  std::vector<double> norms, losses;  // losses of this rank's rows
  bool operator==(const SharedOutcome&) const = default;
};

class SharedRun {
 public:
  SharedRun(const train::TrainingGraph& training, const Plan& plan, Peers* peers, int64_t tokens)
      : training_(training),
        rank_(peers ? peers->rank() : 0),
        rows_(rows_of_rank(tokens, peers ? peers->size() : 1)),
        tokens_(tokens) {
    TierOptions tiers;
    if (const int64_t bytes = nth(plan.program.arena_bytes, Tier::kDisk); bytes > 0) {
      scratch_.emplace(ScratchOptions{.folders = {folder_.path()}, .bytes = align_up(bytes, kDiskAlignment)});
      tiers.scratch = &*scratch_;
    }
    executor_.emplace(training.graph, plan.program, pool_, ExecutorOptions{.tiers = tiers, .peers = peers});
    if (peers) {
      parts_.emplace(executor_->values(), training.graph, training.parts, *peers);
      executor_->set_contributors(peers->size());
    }
    load();
  }

  SharedOutcome train() {
    SharedOutcome outcome;
    for (int64_t step = 0; step < kSharedSteps; ++step) {
      *executor_->home(training_.learning_rate).as<float>() = 1e-2f;
      *executor_->home(training_.step).as<int32_t>() = static_cast<int32_t>(step + 1);
      const ValueId seed = training_.group.front().dropout_seed;
      if (seed != kNone) *executor_->home(seed).as<int64_t>() = 1000 + step;
      fill(Stream(step, tokens_));
      executor_->set_rows(kTokenAxis, rows_);
      executor_->run(training_.forward);
      outcome.losses.push_back(*executor_->result(training_.objective.loss_result).as<float>());
      executor_->run(training_.backward);
      executor_->run(training_.update);
      outcome.norms.push_back(*executor_->result(training_.norm_result).as<float>());
    }
    for (const train::TrainedWeight& t : training_.trained) {
      store().read(t.weight, [&](const TensorView& piece, int64_t) {
        std::vector<std::byte>& bytes = outcome.values[training_.graph.value(t.weight).name];
        bytes.insert(bytes.end(), piece.as<std::byte>(), piece.as<std::byte>() + piece.bytes());
      });
    }
    return outcome;
  }
  [[nodiscard]] int64_t measured_peak() const { return executor_->measured_peak_bytes(Tier::kDevice); }
  [[nodiscard]] int64_t sent_bytes() const { return executor_->lanes().totals(Lane::kPeer).bytes; }

 private:
  [[nodiscard]] ValueStore& store() { return parts_ ? static_cast<ValueStore&>(*parts_) : executor_->values(); }

  // Fills weights with small numbers, norms with ones, and sums and states with nothing.
  void load() {
    const Graph& graph = training_.graph;
    for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
      if (!graph.is_persistent(id)) continue;
      const Value& value = graph.value(id);
      const bool is_weight = value.kind == ValueKind::kFrozenWeight || value.kind == ValueKind::kTrainableWeight;
      const bool is_norm = value.name.find("norm") != std::string::npos;
      store().write(id, [&](const TensorView& piece, int64_t first) {
        for (int64_t i = 0; i < piece.elems(); ++i) {
          const uint64_t mixed =
              (random_stream_of(value.name) + static_cast<uint64_t>(first + i)) * 0x9E3779B97F4A7C15u;
          piece.as<float>()[i] = !is_weight ? 0 : is_norm ? 1 : static_cast<float>(mixed >> 56) / 1024 - 0.125f;
        }
      });
    }
  }

  void fill(const Stream& stream) {
    for (const auto& [column, number, value] : training_.objective.columns) {
      const bool is_own = column.name == kOwnOffsets.name;
      std::vector<int32_t> content = stream.column(is_own ? "seq_offsets" : column.name);
      if (is_own)
        for (int32_t& offset : content) offset -= static_cast<int32_t>(rank_ * rows_);
      if (training_.graph.value(value).type.follows_axis()) {
        content.resize(static_cast<size_t>((rank_ + 1) * rows_), content.back());
        content.erase(content.begin(), content.begin() + rank_ * rows_);
        content.resize(static_cast<size_t>(rows_));
      }
      infer::copy_column(training_.graph.value(value), std::as_bytes(std::span(content)), executor_->home(value));
    }
    *executor_->home(training_.objective.scale).as<float>() = 1.0f / static_cast<float>(tokens_);
  }

  const train::TrainingGraph& training_;
  int64_t rank_, rows_, tokens_;
  TemporaryFolder folder_;
  ThreadPool pool_{1};
  std::optional<Scratch> scratch_;
  std::optional<Executor> executor_;
  std::optional<PartStore> parts_;  // of several ranks
};

Plan shared_plan(const train::TrainingGraph& training, ActivationPolicy activations) {
  for (const std::string& violation : verify(training.graph)) FAIL_CHECK(violation);
  Machine machine{.threads = 1};
  machine.link_bytes_per_second.fill(1e9);
  const Plan plan = plan_for(training.graph, machine, uniform_choices(training.graph, activations));
  for (const std::string& violation : verify(training.graph, plan.program)) FAIL_CHECK(violation);
  return plan;
}

// Returns the outcomes of all ranks, whose losses are of their rows.
std::vector<SharedOutcome> outcomes_of(const train::TrainingGraph& training, const Plan& plan, int ranks,
                                       int64_t tokens) {
  std::vector<SharedOutcome> outcomes(static_cast<size_t>(ranks));
  if (ranks == 1) {
    outcomes[0] = SharedRun(training, plan, nullptr, tokens).train();
    return outcomes;
  }
  const std::vector<std::string> errors = run_ranks(ranks, [&](Peers& peers) {
    SharedRun run(training, plan, &peers, tokens);
    nth(outcomes, peers.rank()) = run.train();
    if (run.measured_peak() != nth(plan.program.arena_bytes, Tier::kDevice)) throw std::runtime_error("another peak");
  });
  for (const std::string& error : errors) CHECK(error == "");
  return outcomes;
}

void check_shared_training(const SharedSetup& setup, std::initializer_list<int> numbers_of_ranks, int64_t tokens) {
  const train::TrainingGraph alone = shared_graph(setup, 1);
  const SharedOutcome expected = outcomes_of(alone, shared_plan(alone, ActivationPolicy::kKeep), 1, tokens).front();
  for (const int ranks : numbers_of_ranks) {
    CAPTURE(ranks);
    CAPTURE(tokens);
    const train::TrainingGraph training = shared_graph(setup, ranks);
    std::optional<std::vector<SharedOutcome>> kept;
    for (const ActivationPolicy activations :
         {ActivationPolicy::kKeep, ActivationPolicy::kRecompute, ActivationPolicy::kDisk}) {
      const std::vector<SharedOutcome> got = outcomes_of(training, shared_plan(training, activations), ranks, tokens);
      if (kept) {
        const bool same_bits = got == *kept;
        CHECK(same_bits);
        continue;
      }
      kept = got;
      for (int64_t step = 0; step < kSharedSteps; ++step) {
        double loss = 0;
        for (const SharedOutcome& one : got) loss += nth(one.losses, step);
        CHECK(loss == doctest::Approx(nth(expected.losses, step)).epsilon(1e-5));
        for (const SharedOutcome& one : got)
          CHECK(nth(one.norms, step) == doctest::Approx(nth(expected.norms, step)).epsilon(1e-5));
      }
      for (const SharedOutcome& one : got) CHECK((one.values == got.front().values));
    }
  }
}

}  // namespace

TEST_CASE("ranks that share sequences have the losses and norms of one rank, and the same bits by any plan") {
  check_shared_training({}, {2, 4}, kStreamTokens);
  check_shared_training({.heads = 3, .kv_heads = 3}, {2}, 37);
  check_shared_training({.heads = 5, .kv_heads = 1}, {4}, kStreamTokens);
  check_shared_training({}, {4}, 3);  // fewer tokens than ranks
}

TEST_CASE("dropout and noise on embeddings of shared sequences are those of one rank") {
  check_shared_training({.lora = true, .neftune_noise_alpha = 5}, {2, 4}, kStreamTokens);
}

TEST_CASE("ranks that share sequences split weights and states, too") {
  check_shared_training({.splits_weights = true}, {2, 4}, kStreamTokens);
}
