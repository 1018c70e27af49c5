// The loss and other numbers over the run, and the frontier of step time against device memory.

const kCurve = { height: 260, left: 64, right: 16, top: 16, bottom: 40 };

// An empty chart with both axes: {chart, x, y}.
function axes(label, width, xTicks, yTicks, xRange, yRange, xTitle, height = kCurve.height) {
  const { left, right, top, bottom } = kCurve;
  const scale = ([low, high], from, to) => (value) => from + (to - from) * (value - low) / (high - low || 1);
  const x = scale(xRange, left, width - right), y = scale(yRange, height - bottom, top);
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const tick of yTicks) {
    chart.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(tick.at), y2: y(tick.at) }),
      svg("text", { x: left - 8, y: y(tick.at) + 4, "text-anchor": "end" }, tick.text));
  }
  for (const tick of xTicks) {
    chart.append(svg("text", { x: x(tick.at), y: height - bottom + 18, "text-anchor": "middle" }, tick.text));
  }
  chart.append(svg("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, xTitle));
  return { chart, x, y };
}

function linePath(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
}

function tickText(value) {
  const size = Math.abs(value);
  return size !== 0 && size < 1e-3 ? value.toExponential(1) : `${+value.toPrecision(5)}`;
}
function shortNumber(value, digits = 4) {
  const size = Math.abs(value);
  if (size >= 1000) return formatNumber(value);
  return size !== 0 && size < 0.01 ? value.toExponential(2) : value.toFixed(digits);
}

// The numbers of a run, step by step: {name, training, evaluation} with points [step, value], null where a number is not
// finite.
function drawOverRun(target, title, { name, training, evaluation }, height = kCurve.height) {
  const width = Math.max(280, target.clientWidth);
  const finite = (points) => points.filter((point) => point[1] !== null);
  const lines = [{ color: "accent", name, points: finite(training) },
    { color: "gradient", name: `eval_${name}`, points: finite(evaluation) }].filter((line) => line.points.length);
  const all = lines.flatMap((line) => line.points), values = all.map((point) => point[1]), steps = all.map((point) => point[0]);
  const low = Math.min(...values), high = Math.max(...values), margin = (high - low || Math.abs(high) || 1) * 0.08;
  const yRange = [low - margin, high + margin], xRange = [Math.min(...steps), Math.max(...steps)];
  const plain = (value) => ({ at: value, text: tickText(value) });
  const xTicks = ticks(xRange[0], xRange[1], Math.min(6, width / 90)).filter((value) => Number.isInteger(value)).map(plain);
  const { chart, x, y } = axes(title, width, xTicks, ticks(...yRange, height > 200 ? 5 : 3).map(plain), xRange, yRange,
    "optimizer step", height);
  const place = ([step, value]) => [xRange[0] === xRange[1] ? (kCurve.left + width) / 2 : x(step), y(value)];
  for (const line of lines) {
    const dashes = line.color === "gradient" ? { "stroke-dasharray": "4 3" } : {};
    chart.append(svg("path", { d: linePath(line.points.map(place)), fill: "none", stroke: `var(--${line.color})`, "stroke-width": 1.7,
      "stroke-linejoin": "round", ...dashes }));
    if (line.points.length > 60) continue;
    for (const point of line.points) {
      const [cx, cy] = place(point);
      const mark = svg("circle", { cx, cy, r: 3.2, fill: `var(--${line.color})` });
      mark.addEventListener("pointermove", (event) => tip.show(event, `step ${point[0]}`, [[line.name, shortNumber(point[1], 5)]]));
      mark.addEventListener("pointerleave", () => tip.hide());
      chart.append(mark);
    }
  }
  const names = element("div", { class: "legend" });
  const texts = Object.fromEntries(lines.map((line) => [line.color, `${line.name}, last ${shortNumber(line.points.at(-1)[1])}`]));
  legend(names, Object.keys(texts), texts);
  target.replaceChildren(names, chart);
}

function drawLoss() {
  const target = document.querySelector("#loss .chart");
  drawRates();
  if (!report.loss.some((point) => point[1] !== null)) {
    target.replaceChildren(element("p", { class: "empty" }, "No step has been trained."));
    return;
  }
  drawOverRun(target, "Loss over the run", { name: "loss", training: report.loss, evaluation: report.eval_loss });
}

// The metrics of steps beside the loss.
function drawRates() {
  const charts = [["learning rate", report.learning_rate], ["gradient norm", report.grad_norm], ["tokens/s", report.step_tokens_per_second]]
    .filter(([, points]) => points?.some((point) => point[1] !== null));
  const grid = document.getElementById("rates");
  grid.replaceChildren(...charts.map(() => element("div", { class: "chart" })));
  charts.forEach(([name, training], i) => drawOverRun(grid.children[i], `${name} over the run`, { name, training, evaluation: [] }, 170));
}

// A chart for each metric of the objective.
function drawMetrics() {
  const shown = report.metrics.filter((metric) => [...metric.training, ...metric.evaluation].some((point) => point[1] !== null));
  document.getElementById("metrics").hidden = !shown.length;
  const grid = document.querySelector("#metrics .grid");
  grid.replaceChildren(...shown.map(() => element("div", { class: "chart" })));
  shown.forEach((metric, i) => drawOverRun(grid.children[i], `${metric.name} over the run`, metric));
}

function drawFrontier() {
  const target = document.querySelector("#frontier .chart"), width = Math.max(280, target.clientWidth);
  const points = report.frontier;
  if (points.length < 2) {
    target.replaceChildren(element("p", { class: "empty" }, points.length
      ? "There is only one plan: less memory is not possible, more is of no use."
      : "Not computed for this run; `spillway plan` shows it."));
    return;
  }
  const chosen = [report.tiers.device.planned_peak_bytes, report.step.predicted_seconds];
  const measured = report.step.median_seconds || null;
  const seconds = [...points.map((point) => point.step_seconds), chosen[1], ...(measured === null ? [] : [measured])];
  const bytes = [...points.map((point) => point.device_bytes), chosen[0]];
  const yRange = [0, Math.max(...seconds) * 1.12], xRange = [0, Math.max(...bytes) * 1.06];
  const { chart, x, y } = axes("Step time against device memory", width, byteTicks(xRange[1], width / 100),
    secondTicks(0, yRange[1], 4), xRange, yRange, "device memory");
  const budget = report.tiers.device.budget_bytes, showsBudget = budget > 0 && budget <= xRange[1];
  if (showsBudget) {
    chart.append(svg("line", { x1: x(budget), x2: x(budget), y1: kCurve.top, y2: kCurve.height - kCurve.bottom, stroke: "var(--budget)" }));
  }
  const sorted = [...points].sort((a, b) => a.device_bytes - b.device_bytes);
  chart.append(svg("path", { d: `${stairs(sorted, x, y)}H${width - kCurve.right}`, fill: "none", stroke: "var(--backward)",
    "stroke-width": 1.6 }));
  const chosenName = report.shortage ? "smallest plan found" : "chosen plan";
  drawPlans(chart, sorted, chosen, chosenName, x, y);
  const texts = { backward: "fastest plan for the memory", accent: measured === null ? chosenName : "chosen plan (ring: measured)" };
  if (showsBudget) texts.budget = `budget ${formatBytes(budget)}`;
  const names = element("div", { class: "legend" });
  legend(names, Object.keys(texts), texts);
  target.replaceChildren(names, chart);
}

// Between two plans nothing is promised but the slower one's time.
function stairs(sorted, x, y) {
  return sorted.map((point, i) => {
    const px = x(point.device_bytes).toFixed(1), py = y(point.step_seconds).toFixed(1);
    return i ? `H${px}V${py}` : `M${px},${py}`;
  }).join("");
}

// A point for each plan of the frontier, for the chosen one ([bytes, seconds]), and for what it took in the run.
function drawPlans(chart, sorted, chosen, chosenName, x, y) {
  const mark = (bytes, seconds, attributes, title, rows) => {
    const circle = svg("circle", { cx: x(bytes), cy: y(seconds), ...attributes });
    circle.addEventListener("pointermove", (event) => tip.show(event, title, rows));
    circle.addEventListener("pointerleave", () => tip.hide());
    chart.append(circle);
  };
  for (const point of sorted) {
    mark(point.device_bytes, point.step_seconds, { r: 3.6, fill: "var(--backward)" }, "a plan",
      [["step, predicted", formatSeconds(point.step_seconds)], ["device", formatBytes(point.device_bytes)],
        ["host", formatBytes(point.host_bytes)], ["disk", formatBytes(point.disk_bytes)]]);
  }
  const device = ["device", formatBytes(chosen[0])], measured = report.step.median_seconds || null;
  mark(...chosen, { r: 6, fill: "var(--accent)" }, chosenName, [["step, predicted", formatSeconds(chosen[1])], device]);
  if (measured !== null) {
    mark(chosen[0], measured, { r: 5.2, fill: "var(--card)", stroke: "var(--accent)", "stroke-width": 2 },
      "the plan that ran", [["step, measured", formatSeconds(measured)], device]);
  }
}

// Draws the steps in which each layer was trained, of a run that draws layers.
function drawLayers() {
  const draws = report.layer_draws, last = report.step_now;
  if (!draws.length || !last) return;
  document.getElementById("layers").hidden = false;
  const target = document.querySelector("#layers .chart"), width = Math.max(280, target.clientWidth);
  const layers = Math.max(report.choices.blocks.length, ...draws.flatMap((draw) => draw.layers.map((layer) => layer + 1)));
  const height = kCurve.top + kCurve.bottom + layers * Math.max(4, Math.min(12, 320 / layers));
  const steps = ticks(1, last, width / 90).filter(Number.isInteger), numbers = ticks(0, layers - 1, 8).filter(Number.isInteger);
  const { chart, x, y } = axes("The layers trained in each step", width, steps.map((step) => ({ at: step + 0.5, text: formatNumber(step) })),
    numbers.map((layer) => ({ at: layer + 0.5, text: `${layer}` })), [1, last + 1], [layers, 0], "optimizer step", height);
  const trained = new Array(layers).fill(0);
  draws.forEach((draw, i) => {
    const end = i + 1 < draws.length ? draws[i + 1].from_step : last + 1;
    for (const layer of draw.layers) {
      trained[layer] += end - draw.from_step;
      const bar = svg("rect", { x: x(draw.from_step), width: Math.max(0.5, x(end) - x(draw.from_step)), y: y(layer) + 0.5,
        height: Math.max(1, y(layer + 1) - y(layer) - 1), fill: "var(--backward)" });
      bar.append(svg("title", {}, `layer ${layer}: steps ${draw.from_step} to ${end - 1}`));
      chart.append(bar);
    }
  });
  target.replaceChildren(chart);
  const never = trained.filter((count) => !count).length;
  document.querySelector("#layers .note").textContent = "The layers, from the first at the top, and the steps in which each was trained; "
    + `what is outside the layers is always trained. ${never ? `${never} of ${layers} were not drawn.` : "All were drawn."}`;
}
