// The lanes over one step or round, predicted and measured, one below the other on the same axis.

const kRow = { height: 22, gap: 5, label: 112, top: 24, bottom: 22, right: 18 };

// Instructions of each lane in order, with the stalls of the compute lane.
function laneSpans(source, timeline) {
  const unit = source.unit_seconds, lanes = kLanes.map(() => []);
  source.instructions.forEach((row, i) => {
    lanes[row[0]].push({ start: timeline.start[i] * unit, finish: (timeline.start[i] + timeline.duration[i]) * unit, row });
  });
  for (const [start, duration, cause] of timeline.stalls) {
    lanes[0].push({ start: start * unit, finish: (start + duration) * unit, cause: source.instructions[cause] });
  }
  for (const lane of lanes) lane.sort((a, b) => a.start - b.start);
  return lanes;
}

function className(index) { return index < kKinds.length ? kKinds[index] : kWork[index - kKinds.length]; }

function describe(row) {
  const { strings, blocks } = view.timeline;
  const [lane, index, what, value, block, bytes, count] = row;
  const rows = [["lane", kNames[kLanes[lane]]]];
  if (block >= 0) rows.push(["block", blocks[block]]);
  rows.push([index < kKinds.length ? "kind" : "phase", kNames[className(index)], className(index)]);
  rows.push([index < kKinds.length ? "moves" : "writes", formatBytes(bytes)]);
  const more = count > 1 ? ` and ${count - 1} more` : "";
  return { title: `${strings[what]}: ${strings[value]}${more}`, rows };
}

// The colours of kinds of values and of phases, by name; what is recomputed is hatched.
function fillsOf(target) {
  const fills = Object.fromEntries([...kKinds, ...kWork].map((name) => [name, color(name)]));
  const tile = document.createElement("canvas");
  tile.width = tile.height = 4;
  const pen = tile.getContext("2d");
  pen.fillStyle = fills.forward;
  pen.fillRect(0, 0, 4, 4);
  pen.strokeStyle = fills.backward;
  pen.lineWidth = 1.4;
  pen.beginPath();
  for (const shift of [-4, 0, 4]) { pen.moveTo(shift, 4); pen.lineTo(shift + 4, 0); }
  pen.stroke();
  fills.recompute = target.createPattern(tile, "repeat");
  return fills;
}

class LanePanel {
  constructor(name, source) {
    const timeline = source[name];
    this.name = name;
    this.timeline = timeline;
    this.lanes = laneSpans(source, timeline);
    this.used = new Set(source.instructions.map((row) => row[0]));  // lanes that the plan does not use have no row
    this.canvas = element("canvas", { tabindex: "0", role: "img", "aria-label": `Lanes, ${name}` });
    const waiting = timeline.stalls.reduce((sum, stall) => sum + stall[1], 0) * source.unit_seconds;
    this.box = element("div", { class: "timeline" }, element("div", { class: "caption" },
      element("h3", {}, timeline.step ? `${name}, step ${timeline.step}` : name),
      element("span", {}, `${formatSeconds(timeline.seconds)}, of which compute waits ${formatSeconds(waiting)}`)), this.canvas);
    this.listen();
  }

  rowTop(lane) {
    const above = [...this.used].filter((other) => other < lane).length;
    return kRow.top + above * (kRow.height + kRow.gap);
  }
  x(t) { return kRow.label + (this.width - kRow.label - kRow.right) * (t - view.from) / (view.to - view.from); }
  timeAt(x) { return view.from + (view.to - view.from) * (x - kRow.label) / (this.width - kRow.label - kRow.right); }

  draw() {
    this.width = Math.max(320, this.box.clientWidth);
    this.height = this.rowTop(kLanes.length) + kRow.bottom;
    const scale = devicePixelRatio || 1;
    this.canvas.width = this.width * scale;
    this.canvas.height = this.height * scale;
    this.canvas.style.height = `${this.height}px`;
    this.pen = this.canvas.getContext("2d");
    this.pen.scale(scale, scale);
    this.pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    this.pen.textBaseline = "middle";
    this.drawAxis();
    this.used.forEach((lane) => this.drawLane(lane));
    this.drawLabels();
    if (this.drag) {
      this.pen.fillStyle = color("accent");
      this.pen.globalAlpha = 0.18;
      this.pen.fillRect(Math.min(...this.drag), kRow.top, Math.abs(this.drag[1] - this.drag[0]), this.height - kRow.top - kRow.bottom);
      this.pen.globalAlpha = 1;
    }
  }

  drawAxis() {
    const { pen } = this, bottom = this.height - kRow.bottom;
    pen.textAlign = "center";
    for (const tick of secondTicks(view.from, view.to, this.width / 110)) {
      pen.fillStyle = color("grid");
      pen.fillRect(Math.round(this.x(tick.at)), kRow.top - 4, 1, bottom - kRow.top + 4);
      pen.fillStyle = color("soft");
      pen.fillText(tick.text, this.x(tick.at), bottom + 12);
    }
    for (const [name, from, to] of this.phases()) {
      const left = Math.max(kRow.label, this.x(from)), right = Math.min(this.width - kRow.right, this.x(to));
      if (right - left < 2) continue;
      pen.fillStyle = color("line");
      pen.fillRect(left, kRow.top - 8, right - left - 1, 2);
      pen.fillStyle = color("soft");
      if (right - left > pen.measureText(name).width + 6) pen.fillText(name, (left + right) / 2, 7);
    }
  }

  // [name, from, to] of forward, backward and update, or of what a round consists of.
  phases() {
    if (view.what === "round")
      return view.phases(this.name).map(({ name, start, seconds }) => [name, start, start + seconds]);
    const phases = [["forward", Infinity, 0], ["backward", Infinity, 0], ["update", Infinity, 0]];
    for (const { start, finish, row } of this.lanes.flat()) {
      if (!row || row[1] < kKinds.length) continue;
      const phase = phases[[0, 1, 1, 2][row[1] - kKinds.length]];
      phase[1] = Math.min(phase[1], start);
      phase[2] = Math.max(phase[2], finish);
    }
    return phases.filter((phase) => phase[2] > phase[1]);
  }

  drawLane(lane) {
    const { pen } = this, top = this.rowTop(lane), height = kRow.height, fills = fillsOf(pen);
    const left = kRow.label, right = this.width - kRow.right;
    pen.fillStyle = color("grid");
    const end = Math.min(right, this.x(this.timeline.seconds));
    pen.fillRect(left, top, end - left, height);
    pen.save();
    pen.beginPath();
    pen.rect(left, top, right - left, height);
    pen.clip();
    pen.textAlign = "center";
    const stall = color("stall");
    for (const { start, finish, row } of this.lanes[lane]) {
      if (finish < view.from || start > view.to) continue;
      const from = this.x(start), width = this.x(finish) - from;
      pen.fillStyle = row ? fills[className(row[1])] : stall;
      // A copy or a wait must not vanish, however short; computation has neighbours that it may not cover.
      const least = row && row[1] >= kKinds.length ? 0.5 : 1;
      pen.fillRect(from, top, Math.max(width - (width > 5 ? 0.7 : 0), least), height);
    }
    pen.restore();
  }

  drawLabels() {
    const { pen } = this;
    pen.textAlign = "right";
    pen.fillStyle = color("ink");
    this.used.forEach((lane) => pen.fillText(kNames[kLanes[lane]], kRow.label - 10, this.rowTop(lane) + kRow.height / 2 + 1));
  }

  spanAt(event) {
    const box = this.canvas.getBoundingClientRect(), y = event.clientY - box.top, t = this.timeAt(event.clientX - box.left);
    const lane = [...this.used].find((one) => y >= this.rowTop(one) && y < this.rowTop(one) + kRow.height);
    if (lane === undefined) return null;
    const slack = 1.5 * (view.to - view.from) / this.width;
    const near = this.lanes[lane].filter((span) => span.start - slack <= t && t <= span.finish + slack);
    return near.find((span) => span.start <= t && t <= span.finish) ?? near[0] ?? null;
  }

  hover(event) {
    const span = this.spanAt(event);
    if (!span) { tip.hide(); return; }
    const takes = span.finish - span.start, middle = (span.start + span.finish) / 2;
    const phase = view.phases(this.name).find((one) => one.start <= middle && middle <= one.start + one.seconds);
    const when = phase
      ? [["part of the round", phase.name], ["takes", `${formatSeconds(takes)} of ${formatNumber(phase.runs)} runs`]]
      : [["starts", formatSeconds(span.start)], ["takes", formatSeconds(takes)]];
    if (!span.row) {
      const cause = describe(span.cause);
      tip.show(event, "compute waits", [...when, ["for", kNames[kLanes[span.cause[0]]]], ["", cause.title]]);
      return;
    }
    const { title, rows } = describe(span.row);
    if (span.row[1] < kKinds.length && takes > 0)
      when.push(["rate", `${((phase ? phase.runs : 1) * span.row[5] / takes / 1e9).toFixed(2)} GB/s`]);
    tip.show(event, title, [...rows, ...when]);
  }

  listen() {
    const { canvas } = this, inside = (event) => {
      const x = event.clientX - canvas.getBoundingClientRect().left;
      return Math.min(Math.max(x, kRow.label), this.width - kRow.right);
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      this.drag = [inside(event), inside(event)];
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.drag) { this.hover(event); return; }
      this.drag[1] = inside(event);
      this.draw();
    });
    canvas.addEventListener("pointerup", () => {
      const drag = this.drag;
      this.drag = null;
      if (drag && Math.abs(drag[1] - drag[0]) > 4) showPart(this.timeAt(Math.min(...drag)), this.timeAt(Math.max(...drag)));
    });
    canvas.addEventListener("pointerleave", () => tip.hide());
    canvas.addEventListener("dblclick", () => showPart(0, view.seconds()));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoomBy(event.deltaY > 0 ? 1.25 : 0.8, this.timeAt(inside(event)));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const part = (view.to - view.from) / 5;
      const act = { "+": () => zoomBy(0.5), "=": () => zoomBy(0.5), "-": () => zoomBy(2),
        ArrowLeft: () => showPart(view.from - part, view.to - part), ArrowRight: () => showPart(view.from + part, view.to + part) }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
  }
}

function zoomBy(factor, center = (view.from + view.to) / 2) {
  showPart(center - (center - view.from) * factor, center + (view.to - center) * factor);
}

function makeLanePanels() {
  const panels = ["predicted", "measured"].filter((name) => view.timeline[name])
    .map((name) => new LanePanel(name, view.timeline));
  document.getElementById("timelines").replaceChildren(...panels.map((panel) => panel.box));
  const classes = new Set(view.timeline.instructions.map((row) => className(row[1])));
  const stalls = panels.some((panel) => panel.timeline.stalls.length);
  legend(document.getElementById("work"), [...kWork.filter((name) => classes.has(name)), ...kStack.filter((name) => classes.has(name)),
    ...(stalls ? ["stall"] : [])], { ...kNames, stall: "compute waits" });
  const many = report.micro_steps_per_step;
  const what = view.what === "round" ? "One run of each program, as long as all of its runs in a round take"
    : many > 1 ? `One micro-batch of ${many} and the update` : "Every instruction of a step";
  document.getElementById("lanes-note").textContent =
    `${what}, on the lane that runs it. ` + ([...classes].some((name) => kKinds.includes(name))
      ? "Grey is computation, colour is the kind of value that moves, red is computation that waits."
      : `Nothing moves between tiers: all that a ${view.what} needs is on the device.`);
  return panels;
}
