// The memory of each tier over one step: a stack by kind of value, under the arena and the budget.

// Which clock the pictures of a step follow, and which part of the step they show.
const view = {
  clock: report.timeline.measured ? "measured" : "predicted",
  from: 0, to: 0,
  seconds() {
    const both = [report.timeline.predicted, report.timeline.measured].filter(Boolean);
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
  const curve = report.memory_over_step[tier], numbers = report.tiers[tier];
  const times = curve[`${view.clock}_seconds`], end = report.timeline[view.clock].seconds;
  const arena = numbers.planned_peak_bytes, budget = numbers.budget_bytes;
  const { left, right, top, bottom } = kMemoryLayout, height = kMemoryLayout.height;
  const high = budget > 0 && budget < 1.6 * arena ? Math.max(budget, arena) * 1.04 : arena * 1.12;
  const x = (t) => left + (width - left - right) * (t - view.from) / (view.to - view.from);
  const y = (bytes) => height - bottom - (height - top - bottom) * bytes / high;
  const clip = `clip-${tier}`;
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Memory of the ${tier} tier over one step` },
  svg("clipPath", { id: clip }, svg("rect", { x: left, y: 0, width: width - left - right, height: height - bottom })));

  for (const tick of byteTicks(high, 4)) {
    chart.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(tick.at), y2: y(tick.at) }),
      svg("text", { x: left - 8, y: y(tick.at) + 4, "text-anchor": "end" }, tick.text));
  }
  for (const tick of secondTicks(view.from, view.to, width / 110)) {
    chart.append(svg("text", { x: x(tick.at), y: height - 7, "text-anchor": "middle" }, tick.text));
  }

  const plot = svg("g", { "clip-path": `url(#${clip})` });
  let below = times.map(() => 0);
  for (const kind of kStack.filter((name) => curve.kinds[name])) {
    const above = below.map((bytes, i) => bytes + curve.kinds[kind][i]);
    let path = "";
    times.forEach((t, i) => {
      const next = x(i + 1 < times.length ? times[i + 1] : end);
      path += `${i ? "L" : "M"}${x(t).toFixed(1)},${y(above[i]).toFixed(1)}H${next.toFixed(1)}`;
    });
    for (let i = times.length - 1; i >= 0; --i) {
      const next = x(i + 1 < times.length ? times[i + 1] : end);
      path += `L${next.toFixed(1)},${y(below[i]).toFixed(1)}H${x(times[i]).toFixed(1)}`;
    }
    plot.append(svg("path", { d: `${path}Z`, fill: `var(--${kind})` }));
    below = above;
  }
  chart.append(plot);

  const line = (bytes, text, name, dashes) => chart.append(
    svg("line", { x1: left, x2: width - right, y1: y(bytes), y2: y(bytes), stroke: `var(--${name})`, "stroke-width": 1.5,
      "stroke-dasharray": dashes }),
    svg("text", { class: "strong", x: width - right, y: y(bytes) - 5, "text-anchor": "end", style: `fill: var(--${name})` }, text));
  const measured = numbers.measured_peak_bytes;
  const same = measured === null || measured === arena;
  const near = budget > 0 && budget <= high && Math.abs(y(budget) - y(arena)) < 16;
  let text = measured === null ? `arena ${formatBytes(arena)}` : same ? `arena and measured peak ${formatBytes(arena)}`
    : `arena ${formatBytes(arena)}, measured peak ${formatBytes(measured)}`;
  if (near) text += ` of a budget of ${formatBytes(budget)}`;
  line(Math.max(arena, near ? budget : 0), text, near ? "budget" : "ink", near ? "" : "5 3");
  if (near && y(arena) - y(budget) > 1.5) {
    chart.append(svg("line", { x1: left, x2: width - right, y1: y(arena), y2: y(arena), stroke: "var(--ink)",
      "stroke-dasharray": "5 3" }));
  }
  if (budget > 0 && budget <= high && !near) line(budget, `budget ${formatBytes(budget)}`, "budget", "");
  if (!same) {
    chart.append(svg("line", { x1: left, x2: width - right, y1: y(measured), y2: y(measured), stroke: "var(--ink)",
      "stroke-width": 1.5 }));
  }
  followPointer(chart, tier, times, { left, right, width, x, height, bottom });
  return chart;
}

function followPointer(chart, tier, times, { left, right, width, x, height, bottom }) {
  const curve = report.memory_over_step[tier];
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
    const numbers = report.tiers[tier], curve = report.memory_over_step[tier];
    if (!curve) continue;
    Object.keys(curve.kinds).forEach((kind) => used.add(kind));
    const budget = numbers.budget_bytes > 0 ? `budget ${formatBytes(numbers.budget_bytes)}` : "no budget";
    target.append(element("div", { class: "tier" },
      element("div", { class: "caption" }, element("h3", {}, tier), element("span", {}, `highest at ${numbers.peak_at} · ${budget}`)),
      memoryChart(tier, width)));
  }
  const idle = ["device", "host", "disk"].filter((tier) => !report.memory_over_step[tier]);
  if (idle.length) target.append(element("p", { class: "hint" }, `Nothing lives in: ${idle.join(", ")}.`));
  legend(document.getElementById("kinds"), kStack.filter((kind) => used.has(kind)));
}
