#include "runtime/captured_sections.h"

#include <algorithm>

#include "base/clock.h"

namespace spillway {
namespace {

// The steps before a capture: a library's first use of a kernel may load code or choose an algorithm, and a replay
// gives no times of instructions. Calibration learns from five traced steps, without the first two, and the report
// shows one.
constexpr int64_t kStepsBefore = 5;
// The most numbers of rows for which a section is kept: packed streams have ever new ones, and each takes device
// memory.
constexpr size_t kMaxKept = 4;

bool is_kernels_alone(const Program& program, const SectionRange& section) {
  const auto begin = program.instructions.begin() + section.begin, end = program.instructions.begin() + section.end;
  return begin != end && std::all_of(begin, end, [](const Instruction& i) {
           return i.lane == Lane::kCompute && i.kind == Instruction::Kind::kRun;
         });
}

int64_t runs_before(const SectionRange& section, const LaneProfile& profile) {
  return kStepsBefore * runs_per_step(section.repeats, std::max<int64_t>(1, profile.traced_micro_steps()));
}

}  // namespace

CapturedSections::CapturedSections(LoadedProgram& loaded, LaneProfile& profile) : loaded_(loaded), profile_(profile) {
  if (!loaded.is_asynchronous(Lane::kCompute)) return;
  for (const SectionRange& section : loaded.program().sections) {
    if (!is_kernels_alone(loaded.program(), section)) continue;
    Candidate& candidate = candidates_.emplace_back();
    candidate.section = section;
    candidate.runs_before = runs_before(section, profile);
    for (int32_t i = section.begin; i < section.end; ++i) candidate.follows_rows |= loaded.follows_rows(i);
  }
  if (candidates_.empty()) return;
  begin_ = loaded.device().make_event();
  end_ = loaded.device().make_event();
}

bool CapturedSections::run(const SectionRange& section) {
  const auto candidate = std::find_if(candidates_.begin(), candidates_.end(),
                                      [&](const Candidate& one) { return one.section.begin == section.begin; });
  if (candidate == candidates_.end()) return false;
  const CapturedWork* const work = work_for(*candidate);
  if (work) replay(*work);
  return work != nullptr;
}

const CapturedWork* CapturedSections::work_for(Candidate& candidate) {
  static const std::vector<int64_t> kAnyRows;
  const std::vector<int64_t>& rows = candidate.follows_rows ? loaded_.rows() : kAnyRows;
  for (const Kept& kept : candidate.kept) {
    if (kept.rows == rows) return kept.work.get();
  }
  if (candidate.rows != rows) candidate.runs = 0;
  candidate.rows = rows;
  if (candidate.kept.size() == kMaxKept || candidate.runs++ < candidate.runs_before) return nullptr;
  // If the device cannot capture, null is kept, so that it is not tried again.
  candidate.kept.push_back({rows, loaded_.memory().device_queue(Lane::kCompute).capture([&] {
                              for (int32_t i = candidate.section.begin; i < candidate.section.end; ++i)
                                loaded_.execute(i);
                            })});
  return candidate.kept.back().work.get();
}

void CapturedSections::replay(const CapturedWork& work) {
  DeviceQueue& queue = loaded_.memory().device_queue(Lane::kCompute);
  queue.record(*begin_);
  const double start = now_seconds();  // the queue is empty, so this is when it happens
  queue.replay(work);
  queue.record(*end_);
  queue.finish();
  profile_.record_section(Lane::kCompute, start, start + end_->seconds_since(*begin_));
}

}  // namespace spillway
