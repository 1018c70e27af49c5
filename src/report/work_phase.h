// The phase of a step that an instruction computes in, as the report's pictures show it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/index.h"
#include "plan/program.h"

namespace spillway {

enum class WorkPhase : int8_t { kForward, kBackward, kRecompute, kUpdate };

// Returns the section that is differentiated; passes that only score stand before it.
[[nodiscard]] inline int32_t differentiated_section(const Graph& graph) {
  const auto is_differentiated = [](const Section& section) { return section.recomputable; };
  const auto found = std::find_if(graph.sections.begin(), graph.sections.end(), is_differentiated);
  return static_cast<int32_t>(found - graph.sections.begin());
}

// Returns the phase of an instruction of that section; passes that only score are forward passes, too.
[[nodiscard]] inline WorkPhase phase_of(const Graph& graph, int32_t section, const Instruction& instruction) {
  if (instruction.recompute) return WorkPhase::kRecompute;
  if (nth(graph.sections, section).repeats == Repeats::kStep) return WorkPhase::kUpdate;
  return section <= differentiated_section(graph) ? WorkPhase::kForward : WorkPhase::kBackward;
}

}  // namespace spillway
