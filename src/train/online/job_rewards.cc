#include "train/online/job_rewards.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/index.h"
#include "job/online/online_job.h"
#include "train/rank_text.h"

namespace spillway::train {
namespace {

using TokenScores = std::vector<std::vector<float>>;  // by batch

// Returns the sequences of batches for a model, in a text that is not empty.
std::string text_of_batches(size_t model, std::span<const data::MicroBatch> batches) {
  TextWriter text;
  text.add(model);
  for (const data::MicroBatch& batch : batches) {
    text.add_list(batch.seq_offsets);
    text.add_list(batch.ids);
  }
  return text.take();
}

// Reads the batches back, and returns those that the rank with this number runs, `together` at most: the last rank's
// where there are none for it.
std::vector<data::MicroBatch> batches_of_rank(TextReader& text, int rank, int64_t together) {
  std::vector<data::MicroBatch> batches;
  for (int before = 0; before <= rank && !text.is_at_end(); ++before) {
    batches.clear();
    while (std::ssize(batches) < together && !text.is_at_end()) {
      const std::vector<int32_t> offsets = text.take_list<int32_t>(), ids = text.take_list<int32_t>();
      data::MicroBatch& batch = batches.emplace_back();
      for (size_t i = 0; i + 1 < offsets.size(); ++i)
        data::add_sequence(batch, {}, subspan_of(std::span(ids), offsets[i], offsets[i + 1] - offsets[i]));
    }
  }
  return batches;
}

}  // namespace

// The runs of models in the session. Rank 0 leads: the others run what it asks for, until it says that it is done.
class JobRewards::Runs {
 public:
  void attach(TrainingSession& session, Ranks& ranks) {
    session_ = &session;
    ranks_ = &ranks;
  }

  // Returns the scores of the tokens of each batch. Each rank runs as many of them at a time as its plan computes
  // together.
  TokenScores run(size_t model, std::span<const data::MicroBatch> batches) {
    SPILLWAY_CHECK(session_ != nullptr, "a reward model before there is a session");
    TokenScores scores;
    for (size_t first = 0; first < batches.size(); first = scores.size()) {
      const size_t count = std::min(static_cast<size_t>(ranks_->size() * together(model)), batches.size() - first);
      (void)run_together(text_of_batches(model, batches.subspan(first, count)));
      for (const std::string& text : texts_) {
        TextReader reader(text);
        while (scores.size() < first + count && !reader.is_at_end()) scores.push_back(reader.take_list<float>());
      }
    }
    return scores;
  }

  std::string of_first(const std::function<std::string()>& body) {
    SPILLWAY_CHECK(session_ != nullptr, "rewards before there is a session");
    if (!ranks_->are_several()) return body();
    return ranks_->exchange([&] { return ranks_->is_first() ? led(body) : followed(); }).front();
  }

 private:
  [[nodiscard]] int64_t together(size_t model) const {
    return session_->planned().together(JobProgram::Kind::kReward, model);
  }

  std::string led(const std::function<std::string()>& body) {
    others_wait_ = true;
    try {
      std::string text = body();
      end();
      return text;
    } catch (...) {
      end();
      throw;
    }
  }

  std::string followed() {
    while (run_together("")) continue;
    return "";
  }

  // An error on the way to here that all ranks have has ended the others' waiting.
  void end() {
    if (others_wait_) (void)run_together("");
    others_wait_ = false;
  }

  // Runs what rank 0 asks for on all ranks, and keeps the results as texts. Returns false if that is nothing: it is
  // done.
  bool run_together(std::string_view asked) {
    others_wait_ = false;
    const std::string order = ranks_->of_first([&] { return std::string(asked); });
    if (order.empty()) return false;
    const std::span<const std::string> texts = ranks_->exchange([&] {
      TextReader asked_of_all(order);
      const auto model = asked_of_all.take<size_t>();
      const std::vector<data::MicroBatch> batches = batches_of_rank(asked_of_all, ranks_->rank(), together(model));
      TextWriter text;
      for (const std::vector<float>& scores : session_->score_texts(model, batches)) text.add_list(scores);
      return text.take();
    });
    texts_.assign(texts.begin(), texts.end());
    others_wait_ = true;
    return true;
  }

  TrainingSession* session_ = nullptr;
  Ranks* ranks_ = nullptr;
  std::vector<std::string> texts_;  // the results of the last run, by rank
  bool others_wait_ = false;        // for what rank 0 asks for next
};

class JobRewards::SessionProgram final : public infer::RewardProgram {
 public:
  SessionProgram(std::shared_ptr<Runs> runs, size_t model, const infer::RewardRoom& room)
      : runs_(std::move(runs)), model_(model), room_(room) {}

  [[nodiscard]] infer::RewardRoom prepare(int64_t, int64_t) override { return room_; }
  [[nodiscard]] TokenScores run(std::span<const data::MicroBatch> batches) override {
    return runs_->run(model_, batches);
  }

 private:
  std::shared_ptr<Runs> runs_;
  size_t model_;
  infer::RewardRoom room_;
};

JobRewards::JobRewards(const Job& job) : job_(job), runs_(std::make_shared<Runs>()) {}

void JobRewards::attach(TrainingSession& session, Ranks& ranks) { runs_->attach(session, ranks); }

std::string JobRewards::of_first(const std::function<std::string()>& body) { return runs_->of_first(body); }

rewards::ModelRewardFactory JobRewards::factory() {
  return [this](const rewards::RewardEntry& entry) {
    const std::vector<JobRewardModel>& models = online_of(job_).reward_models;
    const auto found = std::find_if(models.begin(), models.end(),
                                    [&](const JobRewardModel& one) { return one.model->folder() == entry.folder; });
    SPILLWAY_CHECK(found != models.end(), "the job has no reward model {}", entry.folder);
    const auto number = static_cast<size_t>(found - models.begin());
    return infer::model_reward(found->model, std::make_shared<SessionProgram>(runs_, number, found->room),
                               entry.reads_ids);
  };
}

}  // namespace spillway::train
