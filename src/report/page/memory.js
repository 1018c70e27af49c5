// The memory of each tier over one step or round: a stack by kind of value, under the arena and the budget.

// The things that have pictures, the clock they follow, and the part of the time they show.
const view = {
  what: report.round ? "round" : "step",
  get timeline() { return this.what === "round" ? report.round.timeline : report.timeline; },
  get memory() { return this.what === "round" ? report.round.memory : report.memory_over_step; },
  // [{name, runs, start, seconds}] of a round by a clock.
  phases(clock) {
    if (this.what !== "round") return [];
    return report.round.phases.map(({ name, runs, [clock]: [start, seconds] }) => ({ name, runs, start, seconds }));
  },
  chosen: null,  // the clock that the reader chose
  get clock() { return this.timeline.measured ? this.chosen ?? "measured" : "predicted"; },
  from: 0, to: 0,
  seconds() {
    const both = [this.timeline.predicted, this.timeline.measured].filter(Boolean);
    return Math.max(...both.map((timeline) => timeline.seconds));
  },
  set(from, to) {
    const whole = this.seconds(), width = Math.min(whole, Math.max(to - from, whole * 1e-5));
    this.from = Math.min(Math.max(0, from), whole - width);
    this.to = this.from + width;
  },
};

const kMemoryLayout = { left: 74, right: 18, top: 22, bottom: 26, height: 210 };

function memoryChart(tier, width) {
  const curve = view.memory[tier], { planned_peak_bytes: arena, budget_bytes: budget } = report.tiers[tier];
  const { left, right, top, bottom, height } = kMemoryLayout;
  const high = budget > 0 && budget < 1.6 * arena ? Math.max(budget, arena) * 1.04 : arena * 1.12;
  const x = (t) => left + (width - left - right) * (t - view.from) / (view.to - view.from);
  const y = (bytes) => height - bottom - (height - top - bottom) * bytes / high;
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Memory of the ${tier} tier over one ${view.what}` });
  for (const tick of byteTicks(high, 5)) {
    chart.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(tick.at), y2: y(tick.at) }),
      svg("text", { x: left - 8, y: y(tick.at) + 4, "text-anchor": "end" }, tick.text));
  }
  for (const tick of secondTicks(view.from, view.to, width / 110)) {
    chart.append(svg("text", { x: x(tick.at), y: height - 7, "text-anchor": "middle" }, tick.text));
  }
  const clip = `clip-${tier}`, area = svg("rect", { x: left, y: 0, width: width - left - right, height: height - bottom });
  chart.append(svg("clipPath", { id: clip }, area), svg("g", { "clip-path": `url(#${clip})` }, ...stackedKinds(curve, x, y)));
  drawPhases(chart, x, { left, right, width, top, bottom, height });
  drawLimits(chart, report.tiers[tier], budget <= high, width, y);
  followPointer(chart, tier, curve[`${view.clock}_seconds`], { left, right, width, x, height, bottom });
  return chart;
}

// An area for each kind of value, one upon the other, with a step at each time.
function stackedKinds(curve, x, y) {
  const times = curve[`${view.clock}_seconds`], end = view.timeline[view.clock].seconds;
  const next = (i) => x(i + 1 < times.length ? times[i + 1] : end).toFixed(1);
  let below = times.map(() => 0);
  return kStack.filter((kind) => curve.kinds[kind]).map((kind) => {
    const above = below.map((bytes, i) => bytes + curve.kinds[kind][i]);
    let path = "";
    times.forEach((t, i) => { path += `${i ? "L" : "M"}${x(t).toFixed(1)},${y(above[i]).toFixed(1)}H${next(i)}`; });
    for (let i = times.length - 1; i >= 0; --i) path += `L${next(i)},${y(below[i]).toFixed(1)}H${x(times[i]).toFixed(1)}`;
    below = above;
    return svg("path", { d: `${path}Z`, fill: `var(--${kind})` });
  });
}

// Where the phases of a round begin, and what they are called where there is room.
function drawPhases(chart, x, { left, right, width, top, bottom, height }) {
  for (const { name, start, seconds } of view.phases(view.clock)) {
    const from = Math.max(left, x(start)), to = Math.min(width - right, x(start + seconds));
    if (to - from < 1) continue;
    if (x(start) > left) chart.append(svg("line", { class: "phase", x1: from, x2: from, y1: top - 14, y2: height - bottom }));
    if (to - from > kCharacterWidth * name.length)
      chart.append(svg("text", { x: (from + to) / 2, y: height - bottom - 6, "text-anchor": "middle", class: "strong" }, name));
  }
}

// Lines for the arena, the budget where it is in the picture, and the measured peak; those close together share a text.
function drawLimits(chart, numbers, showsBudget, width, y) {
  const { planned_peak_bytes: arena, budget_bytes: budget, measured_peak_bytes: measured } = numbers;
  const { left, right } = kMemoryLayout;
  const line = (bytes, name, dashes) => chart.append(svg("line", { x1: left, x2: width - right, y1: y(bytes), y2: y(bytes),
    stroke: `var(--${name})`, "stroke-width": 1.5, "stroke-dasharray": dashes }));
  const label = (bytes, name, ...parts) => {
    const lines = linesOf(parts, width - right);
    lines.forEach((text, i) => chart.append(svg("text", { class: "strong", x: width - right, "text-anchor": "end",
      y: y(bytes) - 5 - kLineHeight * (lines.length - 1 - i), style: `fill: var(--${name})` }, text)));
  };
  const hasBudget = budget > 0 && showsBudget;
  const isNear = hasBudget && Math.abs(y(budget) - y(arena)) < 16;
  const same = measured === null || measured === arena;
  const parts = [measured === null || !same ? `arena ${formatBytes(arena)}` : `arena and measured peak ${formatBytes(arena)}`];
  if (!same) parts[0] += ",", parts.push(`measured peak ${formatBytes(measured)}`);
  if (isNear) parts.push(`of a budget of ${formatBytes(budget)}`);
  if (hasBudget) line(budget, "budget", "");
  if (!isNear || Math.abs(y(arena) - y(budget)) > 1.5) line(arena, "ink", "5 3");
  if (!same) line(measured, "ink", "");
  label(isNear ? Math.max(arena, budget) : arena, isNear ? "budget" : "ink", ...parts);
  if (hasBudget && !isNear) label(budget, "budget", `budget ${formatBytes(budget)}`);
}

function followPointer(chart, tier, times, { left, right, width, x, height, bottom }) {
  const curve = view.memory[tier];
  const cross = svg("line", { y1: 0, y2: height - bottom, stroke: "var(--soft)", visibility: "hidden" });
  chart.append(cross);
  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    const at = (event.clientX - box.left) * width / box.width;
    if (at < left || at > width - right) { cross.setAttribute("visibility", "hidden"); tip.hide(); return; }
    const t = view.from + (view.to - view.from) * (at - left) / (width - left - right);
    let i = times.findIndex((start) => start > t) - 1;
    if (i === -2) i = times.length - 1;
    if (i < 0) i = 0;
    cross.setAttribute("x1", x(t));
    cross.setAttribute("x2", x(t));
    cross.setAttribute("visibility", "visible");
    const kinds = kStack.filter((kind) => curve.kinds[kind] && curve.kinds[kind][i] > 0).reverse();
    const sum = kinds.reduce((bytes, kind) => bytes + curve.kinds[kind][i], 0);
    tip.show(event, `${tier} at ${formatSeconds(t)}`,
      [...kinds.map((kind) => [kNames[kind], formatBytes(curve.kinds[kind][i]), kind]), ["together", formatBytes(sum)]]);
  });
  chart.addEventListener("pointerleave", () => { cross.setAttribute("visibility", "hidden"); tip.hide(); });
}

function drawMemory() {
  const target = document.getElementById("tiers"), width = Math.max(320, target.clientWidth);
  target.replaceChildren();
  const used = new Set();
  for (const tier of ["device", "host", "disk"]) {
    const numbers = report.tiers[tier], curve = view.memory[tier];
    if (!curve) continue;
    Object.keys(curve.kinds).forEach((kind) => used.add(kind));
    const budget = numbers.budget_bytes > 0 ? `budget ${formatBytes(numbers.budget_bytes)}` : "no budget";
    target.append(element("div", { class: "tier" },
      element("div", { class: "caption" }, element("h3", {}, tier),
        element("span", {}, view.what === "step" ? `highest at ${numbers.peak_at} · ${budget}` : budget)),
      memoryChart(tier, width)));
  }
  const idle = ["device", "host", "disk"].filter((tier) => !view.memory[tier]);
  const unused = idle.map((tier) => kTierNames[tier]).join(" or ");
  if (idle.length) target.append(element("p", { class: "hint" }, `The plan uses no ${unused}.`));
  legend(document.getElementById("kinds"), kStack.filter((kind) => used.has(kind)));
}
