// The part of a run's report that says what each of several ranks has measured.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

#include "job/planned_job.h"
#include "report/run_record.h"
#include "train/ranks.h"

namespace spillway {

class RankReports {
 public:
  // Collects what each rank has measured, of which `report` makes the whole report. All ranks call it.
  void take(train::Ranks& ranks, const train::PlannedJob& planned, const RunRecord& record,
            const std::function<nlohmann::ordered_json()>& report);
  // Adds that to the report of rank 0, and makes the loads of experts those of all ranks. REQUIRES: take() on rank 0.
  void add_to(nlohmann::ordered_json& report, const train::PlannedJob& planned) const;

 private:
  nlohmann::ordered_json reports_ = nlohmann::ordered_json::array(), timelines_;  // by rank
};

}  // namespace spillway
