// Headline numbers, the strip of choices, and the tables.

function number(label, value, unit, details, share, bad) {
  const box = element("div", { class: bad ? "number bad" : "number" }, element("div", { class: "label" }, label),
    element("div", { class: "value" }, value, ...(unit ? [" ", element("small", {}, unit)] : [])));
  if (share !== undefined) {
    box.append(element("div", { class: "meter" }, element("i", { style: `width: ${Math.min(100, 100 * share).toFixed(1)}%` })));
  }
  box.append(...details.map((text) => element("div", { class: "detail" }, text)));
  return box;
}

function tierNumber(tier) {
  const { budget_bytes: budget, planned_peak_bytes: planned, measured_peak_bytes: measured } = report.tiers[tier];
  const shown = measured ?? planned, [value, unit] = formatBytes(shown).split(" ");
  const details = [];
  if (measured !== null) details.push(measured === planned ? "exactly as planned" : `planned ${formatBytes(planned)}`);
  else details.push("planned");
  details.push(budget > 0 ? `${formatShare(shown / budget)} of ${formatBytes(budget)}` : "no budget");
  return number(`${kTierNames[tier]}, peak`, value, unit, details, budget > 0 ? shown / budget : undefined,
    measured > planned || (budget > 0 && shown > budget));
}

function drawNumbers() {
  const step = report.step, boxes = [];
  const tokens = report.micro_steps_per_step * report.tokens_per_micro_step;
  if (report.tokens_per_second) {
    boxes.push(number("throughput", formatNumber(report.tokens_per_second, report.tokens_per_second < 100 ? 1 : 0), "tokens/s",
      [`${formatNumber(report.steps)} ${report.steps === 1 ? "step" : "steps"},`, `up to ${formatNumber(tokens)} tokens each`]));
  } else {
    boxes.push(number("throughput", formatNumber(tokens / step.predicted_seconds), "tokens/s", ["predicted"]));
  }
  const [value, unit] = formatSeconds(step.median_seconds || step.predicted_seconds).split(" ");
  if (step.median_seconds) {
    const off = step.median_seconds / step.predicted_seconds - 1;
    const word = Math.abs(off) < 0.0005 ? "exactly as" : `${formatShare(Math.abs(off))} ${off > 0 ? "longer" : "shorter"} than`;
    boxes.push(number("step, median", value, unit,
      [word, `predicted (${formatSeconds(step.predicted_seconds)})`]));
    const share = step.median_seconds > 0 ? step.compute_stall_seconds / step.median_seconds : 0;
    const [wait, waitUnit] = formatSeconds(step.compute_stall_seconds).split(" ");
    boxes.push(number("compute waits", wait, waitUnit, [`${formatShare(share)} of a step,`, "for other lanes"]));
  } else {
    boxes.push(number("step, predicted", value, unit, []));
  }
  for (const tier of ["device", "host", "disk"]) {
    if (report.tiers[tier].planned_peak_bytes > 0) boxes.push(tierNumber(tier));
  }
  if (report.process) {
    const {peak_rss_bytes: peak, predicted_rss_bytes: predicted, outside_arenas_bytes: outside} = report.process;
    const [rss, rssUnit] = formatBytes(peak ?? predicted).split(" ");
    const notes = peak ? [`${formatBytes(outside)} outside the arenas`] : [];
    if (peak && predicted) notes.unshift(`predicted ${formatBytes(predicted)}`);
    boxes.push(number(peak ? "process, peak RSS" : "process, predicted RSS", rss, rssUnit, notes));
  }
  const numbers = document.getElementById("numbers");
  numbers.style.setProperty("--columns", boxes.length > 6 ? Math.ceil(boxes.length / 2) : boxes.length);
  const reasons = step.differs_because ?? [];
  if (reasons.length) boxes.push(element("p", { class: "note" }, `Why steps took another time than predicted: ${reasons.join("; ")}.`));
  numbers.replaceChildren(...boxes);
}

const kTreatments = { keep: "kept on the device", recompute: "recomputed", host: "in host memory", disk: "on disk" };
// A home on the device is what a treatment of "keep" is.
const kRows = [
  ["attention outputs", (block) => block.saved.attention], ["product outputs", (block) => block.saved.product],
  ["elementwise outputs", (block) => block.saved.elementwise], ["block outputs", (block) => block.saved.boundary],
  ["frozen weights", (block) => block.frozen_weights], ["trainable weights", (block) => block.trainable_weights],
  ["optimizer state", (block) => block.optimizer_state],
];
const kUpdates = ["update", (block) => block.update], kSites = { keep: "runs on the device", host: "runs on the CPU" };

function drawChoices() {
  const { blocks } = report.choices, target = document.getElementById("strip");
  const isShared = blocks.some((block) => block.update === "device" && block.optimizer_state === "host");
  const rows = isShared ? [...kRows, kUpdates] : kRows;
  const treatment = (name) => (name === "device" ? "keep" : name === "files" ? "disk" : name);
  if (!blocks.length) {
    target.replaceChildren(element("p", { class: "empty" }, "The model has no blocks."));
  } else {
    const grid = element("div", { class: "strip", style: `grid-template-columns: max-content repeat(${blocks.length}, minmax(7px, 1fr))` });
    for (const [label, choice] of rows) {
      grid.append(element("div", { class: "row" }, label));
      blocks.forEach((block) => {
        const name = treatment(choice(block));
        const cell = element("div", name === "recompute" ? { class: "cell hatched" } : { class: "cell", style: `background: var(--${name})` });
        cell.addEventListener("pointermove", (event) => tip.show(event, block.block, [[label, (label === "update" ? kSites : kTreatments)[name], name]]));
        cell.addEventListener("pointerleave", () => tip.hide());
        grid.append(cell);
      });
    }
    grid.append(element("div", { class: "row" }, ""));
    const ticks = Math.max(1, Math.min(16, Math.floor((target.clientWidth - 130) / 24)));  // that have room
    const every = Math.max(1, Math.ceil(blocks.length / ticks));
    blocks.forEach((_, i) => grid.append(element("div", { class: "tick" }, i % every ? "" : `${i}`)));
    const seen = new Set(blocks.flatMap((block) => rows.map(([, choice]) => treatment(choice(block)))));
    const names = element("div", { class: "legend", style: "margin-bottom: .7rem" });
    legend(names, Object.keys(kTreatments).filter((name) => seen.has(name)), kTreatments);
    target.replaceChildren(names, grid);
  }
  const { outer_weights: outer, gradients, optimizer_state: state, update } = report.choices;
  const places = { device: "in device memory", host: "in host memory", disk: "on disk", files: "in the model's files" };
  document.getElementById("homes").textContent =
    `Outside the blocks (embedding, final norm, head), weights ${outer === state ? "" : `live ${places[outer]} `}and optimizer state `
    + `live ${places[state]}. `
    + `All gradients live ${places[gradients]}. `
    + (isShared ? "The CPU updates some of what is in host memory; the rest comes to the device for its update."
      : update === "host" ? "The CPU updates what is in host memory." : "The update runs on the device.");
}

function table(head, rows) {
  return element("table", {}, element("thead", {}, element("tr", {}, ...head.map((text) => element("th", { scope: "col" }, text)))),
    element("tbody", {}, ...rows));
}

// The memory that a plan lacks, and the changes that would fit; absent for a plan that fits.
function drawShortage() {
  if (!report.shortage) return;
  const { missing, nearest } = report.shortage, section = document.getElementById("shortage");
  section.hidden = false;
  const parts = Object.entries(missing).map(([tier, bytes]) => `${formatBytes(bytes)} of ${kTierNames[tier]}`);
  const is = parts.length === 1 ? "is" : "are";
  section.querySelector(".missing").textContent = `${parts.join(" and ")} ${is} missing.`;
  const target = section.querySelector(".scroll");
  if (!nearest.length) {
    target.replaceChildren(element("p", { class: "empty" }, "No change was found that makes it fit."));
    return;
  }
  const tiers = ["device", "host", "disk"].filter((tier) => nearest.some((change) => change[`${tier}_bytes`] > 0));
  const cell = (bytes) => element("td", {}, bytes ? formatBytes(bytes) : "");
  target.replaceChildren(table(["what would fit", "step, predicted", ...tiers.map((tier) => `${tier}, peak`)],
    nearest.map((change) => element("tr", {}, element("td", {}, element("code", {}, change.change),
      change.trains ? `, which trains something else: ${change.trains}` : ""),
      element("td", {}, formatSeconds(change.step_seconds)), ...tiers.map((tier) => cell(change[`${tier}_bytes`]))))));
}

function drawMoved() {
  const target = document.querySelector("#moved .scroll"), rows = report.moved_bytes_per_step;
  if (!target) return;
  if (!rows.length) {
    target.closest(".pair").classList.add("stacked");
    target.closest("section").remove();
    return;
  }
  const lanes = kLanes.filter((lane) => rows.some((row) => row[lane]));
  if (lanes.length > 3) target.closest(".pair").classList.add("stacked");
  const cell = (bytes) => element("td", {}, bytes ? formatBytes(bytes) : "");
  const body = rows.map((row) => element("tr", {}, element("td", {}, swatch(row.kind), kNames[row.kind]), ...lanes.map((lane) => cell(row[lane]))));
  const sums = lanes.map((lane) => rows.reduce((sum, row) => sum + (row[lane] ?? 0), 0));
  body.push(element("tr", { class: "total" }, element("td", {}, "together"), ...sums.map(cell)));
  target.replaceChildren(table(["kind of value", ...lanes.map((lane) => kNames[lane])], body));
  drawExperts(document.querySelector("#moved .note"));
}

function drawExperts(note) {
  const experts = report.experts;
  note.hidden = !experts?.loads;
  if (note.hidden) return;
  const reached = experts.reached === null ? "" : `Tokens reached ${formatNumber(experts.reached)} experts, counted in `
    + "each layer of each micro-batch. ";
  note.textContent = `${reached}Experts were loaded ${formatNumber(experts.loads)} times in the run so far, `
    + `${formatBytes(experts.load_bytes)} in all.`;
}

function drawOperations() {
  const target = document.querySelector("#operations .scroll");
  const whole = report.operations.reduce((sum, operation) => sum + operation.seconds, 0);
  if (!(whole > 0)) {
    target.replaceChildren(element("p", { class: "empty" }, "No step has been trained."));
    return;
  }
  const shown = report.operations.slice(0, 9), rest = report.operations.slice(9);
  if (rest.length) {
    shown.push({ name: `${rest.length} others`, calls: rest.reduce((sum, operation) => sum + operation.calls, 0),
      seconds: rest.reduce((sum, operation) => sum + operation.seconds, 0) });
  }
  target.replaceChildren(table(["operation", "", "share", "calls", "time"], shown.map((operation) => element("tr", {},
    element("td", {}, operation.name),
    element("td", { class: "bar" }, element("i", { style: `width: ${(100 * operation.seconds / whole).toFixed(1)}%` })),
    element("td", {}, formatShare(operation.seconds / whole)), element("td", {}, formatNumber(operation.calls)),
    element("td", {}, formatSeconds(operation.seconds))))));
}

// The answers to one prompt below each other, so that one sees them change.
function drawSamples() {
  if (!report.samples.length) return;
  const prompts = [...new Set(report.samples.map((sample) => sample.prompt))];
  const hasRewards = report.samples.some((sample) => sample.reward !== null);
  const reward = (sample) => hasRewards ? [element("td", {}, sample.reward === null ? "" : sample.reward.toFixed(3))] : [];
  const rows = prompts.flatMap((prompt) => report.samples.filter((sample) => sample.prompt === prompt).map((sample, i) =>
    element("tr", {}, element("td", { class: "text" }, i ? "" : prompt), element("td", {}, sample.pictures.length && sample.text ? sample.text : formatNumber(sample.step)),
      ...reward(sample), element("td", { class: "text" }, sample.pictures.length ? "" : sample.text,
        ...sample.pictures.map((src) => element("img", { src, alt: `${prompt}, step ${sample.step}` }))))));
  const head = ["prompt", "step", ...(hasRewards ? ["reward"] : []), "answer"];
  document.querySelector("#samples .scroll").replaceChildren(table(head, rows));
  document.getElementById("samples").hidden = false;
}

// The parts of a round and their times.
function drawRound() {
  const section = document.getElementById("round");
  section.hidden = !report.round;
  if (!report.round) return;
  const clock = report.round.timeline.measured ? "measured" : "predicted";
  const { phases } = report.round, sum = (name) => phases.reduce((all, phase) => all + (phase[name]?.[1] ?? 0), 0);
  const most = Math.max(...phases.map((phase) => phase[clock][1]));
  const columns = clock === "measured" ? ["predicted", "measured"] : ["predicted"];
  const cell = (span) => element("td", {}, span[1] > 0 ? formatSeconds(span[1]) : "");
  const rows = phases.map((phase) => element("tr", {}, element("td", {}, phase.name),
    element("td", {}, formatNumber(phase.runs, Number.isInteger(phase.runs) ? 0 : 1)),
    element("td", { class: "bar" }, element("i", { style: `width: ${(100 * phase[clock][1] / most).toFixed(1)}%` })),
    ...columns.map((name) => cell(phase[name]))));
  rows.push(element("tr", { class: "total" }, element("td", {}, "together"), element("td"), element("td"),
    ...columns.map((name) => element("td", {}, formatSeconds(sum(name))))));
  section.querySelector(".scroll").replaceChildren(table(["", "runs", "", ...columns], rows));
}

function drawTimesteps() {
  const parts = report.loss_by_timestep.filter((part) => part.samples);
  if (!parts.length) return;
  const most = Math.max(...parts.map((part) => part.loss));
  document.querySelector("#timesteps .scroll").replaceChildren(table(["timesteps", "", "loss", "samples"],
    parts.map((part) => element("tr", {}, element("td", {}, `${part.from} to ${part.to}`),
      element("td", { class: "bar" }, element("i", { style: `width: ${(100 * part.loss / most).toFixed(1)}%` })),
      element("td", {}, part.loss.toFixed(4)), element("td", {}, formatNumber(part.samples))))));
  document.getElementById("timesteps").hidden = false;
}

// The config as it was given, and what the command line made of it.
function drawConfig() {
  const config = report.config, section = document.getElementById("config");
  section.hidden = !config;
  if (!config) return;
  const overrides = config.overrides.map(([key, value]) => `--${key} ${value}`);
  section.querySelector(".note").textContent = overrides.length ? `With ${overrides.join(" ")} on the command line.` : "";
  section.querySelector("pre").textContent = config.text;
}
