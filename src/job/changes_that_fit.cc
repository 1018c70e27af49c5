#include "job/changes_that_fit.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/index.h"
#include "job/model_folders.h"
#include "job/suggested_changes.h"

namespace spillway::train {
namespace {

// A suggestion is worth asking for if it saves at least 1/kWorthAsking of a larger budget.
constexpr int64_t kWorthAsking = 8;

// A change of several keys at once.
struct Combination {
  Overrides more_memory;
  std::map<size_t, Overrides> chosen;  // by suggestion: the grade of it

  [[nodiscard]] Overrides overrides() const {
    Overrides all = more_memory;
    for (const auto& [suggestion, grade] : chosen) all.insert(all.end(), grade.begin(), grade.end());
    return all;
  }
  [[nodiscard]] Combination with(size_t suggestion, Overrides grade) const {
    Combination combination = *this;
    combination.chosen[suggestion] = std::move(grade);
    return combination;
  }
  [[nodiscard]] Combination without(size_t suggestion) const {
    Combination combination = *this;
    combination.chosen.erase(suggestion);
    return combination;
  }
};

std::string text_of(const Overrides& overrides) {
  std::string text;
  for (const config::ConfigOverride& one : overrides)
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", one.key, one.value);
  return text;
}

class SuggestionSearch {
 public:
  SuggestionSearch(const config::LoadedConfig& loaded, const Job& job, const Plan& plan, const Machine& machine)
      : loaded_(loaded),
        job_(job),
        plan_(plan),
        machine_(machine),
        suggestions_(suggested_changes(loaded, job, plan, machine)) {
    const PlanContext context = {.ranks = job.config.ranks.count,
                                 .accumulation = micro_batches_of_rank(job),
                                 .group = job.graph.micro_batches,
                                 .updates = updates_per_step(job)};
    nearest_ = &(trials_[""] = trial_of(plan, context, ""));
  }

  ChangesThatFit run() {
    look_at_sets({}, &SuggestionSearch::with_larger_budgets);
    look_at_single_changes();
    look_at_sets(helpers_, &SuggestionSearch::within_budgets);
    SuggestionSet same;
    std::copy_if(helpers_.begin(), helpers_.end(), std::back_inserter(same),
                 [&](size_t suggestion) { return suggestions_[suggestion].trains.empty(); });
    look_at_sets(same, &SuggestionSearch::with_larger_budgets);
    look_at_sets(helpers_, &SuggestionSearch::with_larger_budgets);
    if (found_.empty()) look_at_last_resorts();
    std::stable_sort(found_.begin(), found_.end(), [](const PlanContext::Change& a, const PlanContext::Change& b) {
      if (a.trains.empty() != b.trains.empty()) return a.trains.empty();
      return a.step_seconds < b.step_seconds;
    });
    ChangesThatFit result{.changes = found_};
    if (found_.empty()) result.least = least();
    result.searches = searches_;
    return result;
  }

 private:
  // The plan of a changed config.
  struct Trial {
    bool fits = false;
    std::array<int64_t, kTiers> missing_bytes{};
    PlanContext::Change change;
  };
  using SuggestionSet = std::vector<size_t>;  // ascending
  using Suffices = std::function<bool(const Trial&)>;
  static constexpr auto kFits = [](const Trial& trial) { return trial.fits; };

  [[nodiscard]] bool wants_more() const { return found_.size() < kMaxChanges && searches_ < kMaxSearches; }

  // Returns nothing where a key beside a change does not go with it, or two suggestions change the same one.
  [[nodiscard]] std::optional<Job> changed_job(const Overrides& overrides) const {
    for (size_t i = 0; i < overrides.size(); ++i) {
      const auto is_same = [&](const config::ConfigOverride& other) { return other.key == overrides[i].key; };
      if (std::any_of(overrides.begin() + static_cast<ptrdiff_t>(i) + 1, overrides.end(), is_same)) return {};
    }
    try {
      config::Config config = config::load_changed(loaded_.source, overrides).config;
      use_model_folders(config, hub::FolderUse::kConfig);
      place_on_hosts(config.ranks, machine_for(config));
      // Ranks of a described machine that are on more hosts than the job's need its rate between hosts.
      if (config.ranks.count > job_.config.ranks.count && machine_.ranks_per_host > 0)
        check_peer_rates(machine_, config.ranks.count, "num_processes");
      return make_job(config, machine_for(config), {.now = job_.now, .rows = &job_});
    } catch (const InputError&) {
      return {};
    }
  }

  // The ranks of the job as it is are where they are; others fill the hosts.
  void place_on_hosts(config::RankSettings& ranks, const Machine& machine) const {
    const config::RankSettings& own = job_.config.ranks;
    if (ranks.count == own.count && (ranks.shards_by_host || ranks.sums_by_host)) ranks = own;
    if (ranks.count != own.count) ranks.place_on_hosts(std::gcd(ranks.count, machine.ranks_on_host));
  }

  // Returns the machine as a rank of the changed job sees it.
  [[nodiscard]] Machine machine_for(const config::Config& config) const {
    const int64_t ranks = config.ranks.count;
    return ranks == job_.config.ranks.count ? machine_ : share_of_rank(machine_, ranks);
  }

  [[nodiscard]] static Trial trial_of(const Plan& plan, const PlanContext& context, const std::string& text) {
    Trial trial{.fits = plan.fits, .missing_bytes = plan.missing_bytes, .change = {.text = text}};
    for (size_t tier = 0; tier < kBudgetedTiers; ++tier) trial.change.bytes[tier] = plan.peaks[tier].bytes;
    trial.change.step_seconds = context.step_seconds(plan.simulation);
    return trial;
  }

  // Returns true if the config can be changed so. Remembers the answer, as many sets of suggestions begin alike.
  [[nodiscard]] bool is_possible(const Overrides& overrides) {
    const auto [known, is_new] = possible_.try_emplace(text_of(overrides), false);
    if (is_new) known->second = changed_job(overrides).has_value();
    return known->second;
  }

  // Returns the trial of a combination; null if the config cannot be changed so, or no more plans may be made.
  const Trial* tried(const Combination& combination) {
    const Overrides overrides = combination.overrides();
    const std::string text = text_of(overrides);
    if (const auto known = trials_.find(text); known != trials_.end()) return &known->second;
    if (searches_ == kMaxSearches) return nullptr;
    if (const auto known = possible_.find(text); known != possible_.end() && !known->second) return nullptr;
    const std::optional<Job> changed = changed_job(overrides);
    possible_[text] = changed.has_value();
    if (!changed) return nullptr;
    ++searches_;
    const PlannedJob planned = plan_job(*changed, machine_for(changed->config));
    Trial& trial = trials_[text] = trial_of(planned.plan, planned.context, text);
    trial.fits = train::fits(planned);
    const auto rank = [this](const Trial& of) { return std::pair(needed_bytes(of), of.change.text.size()); };
    if (combination.more_memory.empty() && rank(trial) < rank(*nearest_)) nearest_ = &trial;
    return &trial;
  }

  [[nodiscard]] bool fits(const Combination& combination) {
    const Trial* trial = tried(combination);
    return trial && trial->fits;
  }

  // Applies suggestions as far as they go, except for those that cannot be combined with those before them.
  [[nodiscard]] Combination all_of(const SuggestionSet& suggestions) {
    Combination combination;
    for (const size_t suggestion : suggestions) {
      Combination more = combination.with(suggestion, suggestions_[suggestion].grades.back());
      if (is_possible(more.overrides())) combination = std::move(more);
    }
    return combination;
  }

  // Removes the suggestions that are not needed, those that ask most first; then applies each only as far as necessary.
  // REQUIRES: the combination suffices.
  [[nodiscard]] Combination reduced(Combination combination, const Suffices& suffices) {
    const auto is_enough = [&](const Combination& less) {
      const Trial* trial = tried(less);
      return trial && suffices(*trial);
    };
    const Combination all = combination;
    for (auto one = all.chosen.rbegin(); one != all.chosen.rend(); ++one) {
      if (Combination less = combination.without(one->first); is_enough(less)) combination = std::move(less);
    }
    for (auto& [suggestion, chosen] : combination.chosen) {
      const std::vector<Overrides>& grades = suggestions_[suggestion].grades;
      size_t too_little = 0, enough = grades.size() - 1;  // grades before `too_little` are not enough
      while (too_little < enough) {
        const size_t middle = too_little + (enough - too_little) / 2;
        if (is_enough(combination.with(suggestion, grades[middle]))) {
          enough = middle;
        } else {
          too_little = middle + 1;
        }
      }
      chosen = grades[enough];
    }
    return combination;
  }

  // Sets the budget of each tier that was given as a whole to what the plan takes of it, or half as much again, since
  // the search may end elsewhere with less room. REQUIRES: the combination fits.
  [[nodiscard]] Combination with_tiers_as_used(Combination combination) {
    const Combination whole = combination;
    for (const auto& [suggestion, chosen] : whole.chosen) {
      const std::optional<Tier> tier = suggestions_[suggestion].opens;
      if (!tier) continue;
      const int64_t used = nth(tried(combination)->change.bytes, *tier);
      for (const int64_t bytes : {used, used + used / 2}) {
        Combination enough = combination.with(suggestion, {budget_of(job_, *tier, bytes)});
        if (!fits(enough)) continue;
        combination = std::move(enough);
        break;
      }
    }
    return combination;
  }

  void add(const Combination& combination) {
    PlanContext::Change change = tried(combination)->change;
    const auto is_it = [&](const PlanContext::Change& one) { return one.text == change.text; };
    if (std::any_of(found_.begin(), found_.end(), is_it)) return;
    for (const auto& [suggestion, grade] : combination.chosen) {
      const std::string_view trains = suggestions_[suggestion].trains;
      if (!trains.empty()) change.trains += fmt::format("{}{}", change.trains.empty() ? "" : ", ", trains);
    }
    found_.push_back(std::move(change));
  }

  void look_at_single_changes() {
    for (size_t suggestion = 0; suggestion < suggestions_.size() && wants_more(); ++suggestion) {
      if (suggestions_[suggestion].is_last_resort) continue;
      const std::optional<Combination> combination =
          suggestions_[suggestion].is_enough_alone ? within_budgets({suggestion}) : std::nullopt;
      if (combination) {
        add(*combination);
      } else if (!does_harm(suggestion)) {
        helpers_.push_back(suggestion);
      }
    }
  }

  // Tries each suggestion alone, and then together with all that help.
  void look_at_last_resorts() {
    SuggestionSet suggestions = helpers_;
    for (size_t suggestion = 0; suggestion < suggestions_.size(); ++suggestion) {
      if (suggestions_[suggestion].is_last_resort) suggestions.push_back(suggestion);
    }
    if (suggestions.size() == helpers_.size()) return;
    look_at_sets(suggestions, &SuggestionSearch::within_budgets);
    look_at_sets(suggestions, &SuggestionSearch::with_larger_budgets);
  }

  // If fewer rows start accumulation, gradients stay in memory that otherwise would not.
  [[nodiscard]] bool does_harm(size_t suggestion) {
    if (!suggestions_[suggestion].is_enough_alone) return false;
    const Trial* trial = tried(all_of({suggestion}));
    return !trial || needed_bytes(*trial) > needed_bytes(trials_.at(""));
  }

  // Combinations of some of these suggestions. From each that is found others lead off that do without one of its
  // suggestions, so none is a part of another. Source: R. Reiter, A theory of diagnosis from first principles, 1987.
  void look_at_sets(const SuggestionSet& suggestions,
                    std::optional<Combination> (SuggestionSearch::*combination_of)(const SuggestionSet&)) {
    std::vector<SuggestionSet> forbidden = {{}};
    for (size_t next = 0; next < forbidden.size() && wants_more(); ++next) {
      const SuggestionSet without = forbidden[next];
      SuggestionSet allowed;
      std::set_difference(suggestions.begin(), suggestions.end(), without.begin(), without.end(),
                          std::back_inserter(allowed));
      const std::optional<Combination> combination = (this->*combination_of)(allowed);
      if (!combination) continue;
      add(*combination);
      for (auto one = combination->chosen.rbegin(); one != combination->chosen.rend(); ++one) {
        SuggestionSet& more = forbidden.emplace_back(without);
        more.insert(std::lower_bound(more.begin(), more.end(), one->first), one->first);
      }
    }
  }

  [[nodiscard]] std::optional<Combination> within_budgets(const SuggestionSet& suggestions) {
    const Combination all = all_of(suggestions);
    if (!fits(all)) return {};
    const Combination combination = reduced(all, kFits);
    // When no more plans may be made, an unnecessary suggestion may be left.
    if (searches_ == kMaxSearches) return {};
    return with_tiers_as_used(combination);
  }

  // Returns the budgets of the tiers that are too small, plus what the trial lacks of any tier.
  [[nodiscard]] int64_t needed_bytes(const Trial& trial) const {
    int64_t sum = 0;
    for (size_t tier = 0; tier < kBudgetedTiers; ++tier) {
      if (plan_.missing_bytes[tier] > 0) sum += job_.budget.of(static_cast<Tier>(tier)).value_or(0);
      sum += trial.missing_bytes[tier];
    }
    return sum;
  }

  // If suggestions do not keep the budgets, finds those that reduce the memory that must be added.
  [[nodiscard]] std::optional<Combination> with_larger_budgets(const SuggestionSet& suggestions) {
    const Combination all = all_of(suggestions);
    const Trial* farthest = tried(all);
    if (!farthest || farthest->fits || raised_budgets(job_, farthest->missing_bytes, machine_).empty()) return {};
    const int64_t most = needed_bytes(*farthest) / kWorthAsking * (kWorthAsking + 1);
    Combination combination = reduced(all, [&](const Trial& trial) { return needed_bytes(trial) <= most; });
    combination.more_memory = raised_budgets(job_, tried(combination)->missing_bytes, machine_);
    if (combination.more_memory.empty() || !fits(combination)) return {};
    // Budgets are whole MiB: the rounding may make a suggestion unnecessary.
    combination = reduced(std::move(combination), kFits);
    if (searches_ == kMaxSearches) return {};
    return with_tiers_as_used(std::move(combination));
  }

  // Returns the best of all trials, which include all helpers at once, and all without those that do not help.
  [[nodiscard]] PlanContext::Change least() {
    const Combination all = all_of(helpers_);
    if (const Trial* farthest = tried(all)) {
      const int64_t needed = needed_bytes(*farthest);
      (void)reduced(all, [&](const Trial& trial) { return needed_bytes(trial) <= needed; });
    }
    PlanContext::Change change = nearest_->change;
    for (size_t tier = 0; tier < kBudgetedTiers; ++tier) {
      if (const int64_t missing = nearest_->missing_bytes[tier])
        change.bytes[tier] = missing + job_.budget.of(static_cast<Tier>(tier)).value_or(0);
    }
    return change;
  }

  const config::LoadedConfig& loaded_;
  const Job& job_;
  const Plan& plan_;
  const Machine& machine_;
  std::vector<SuggestedChange> suggestions_;
  SuggestionSet helpers_;                 // that are not enough alone
  std::map<std::string, Trial> trials_;   // by the text of the change
  std::map<std::string, bool> possible_;  // by the same text
  const Trial* nearest_ = nullptr;        // to the budgets as they are; of the same bytes that with the shortest text
  std::vector<PlanContext::Change> found_;
  int searches_ = 0;
};

}  // namespace

ChangesThatFit changes_that_fit(const config::LoadedConfig& loaded, const Job& job, const Plan& plan,
                                const Machine& machine) {
  return SuggestionSearch(loaded, job, plan, machine).run();
}

void add_changes_that_fit(const config::LoadedConfig& loaded, const Job& job, const Machine& machine,
                          PlannedJob& planned) {
  ChangesThatFit found = changes_that_fit(loaded, job, planned.plan, machine);
  planned.context.nearest = std::move(found.changes);
  planned.context.least = std::move(found.least);
}

}  // namespace spillway::train
