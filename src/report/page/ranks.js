// The same step on every rank, one below the other on one axis: computation, waits for other ranks, and exchanges.

const kRankRow = { height: 14, strip: 4, gap: 6, label: 150, top: 8, bottom: 22, right: 18 };

const rankName = (rank) => `rank ${rank} on ${report.ranks[rank].host}`;
const sumOf = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

// Returns, for each rank, the seconds that all the others together waited for it.
function waitedFor(timelines) {
  const sums = timelines.ranks.map(() => 0);
  for (const { waited_seconds: waited } of timelines.ranks)
    for (const [rank, seconds] of Object.entries(waited)) sums[rank] += seconds;
  return sums;
}

class RankPicture {
  constructor(timelines, width) {
    this.timelines = timelines;
    this.unit = timelines.unit_seconds;
    this.width = Math.max(480, width);
    this.height = kRankRow.top + kRankRow.bottom + timelines.ranks.length * this.pitch();
    this.canvas = element("canvas", { role: "img", "aria-label": "Timelines of the ranks" });
    const scale = devicePixelRatio || 1;
    this.canvas.width = this.width * scale;
    this.canvas.height = this.height * scale;
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.pen = this.canvas.getContext("2d");
    this.pen.scale(scale, scale);
    this.pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    this.pen.textBaseline = "middle";
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => tip.hide());
  }

  pitch() { return kRankRow.height + kRankRow.strip + kRankRow.gap; }
  top(rank) { return kRankRow.top + rank * this.pitch(); }
  x(time) {
    return kRankRow.label + (this.width - kRankRow.label - kRankRow.right) * time * this.unit / this.timelines.seconds;
  }

  draw() {
    const { pen, timelines } = this, fills = fillsOf(pen);
    pen.textAlign = "center";
    for (const tick of secondTicks(0, timelines.seconds, this.width / 110)) {
      const x = Math.round(this.x(tick.at / this.unit));
      pen.fillStyle = color("grid");
      pen.fillRect(x, kRankRow.top, 1, this.height - kRankRow.top - kRankRow.bottom);
      pen.fillStyle = color("soft");
      pen.fillText(tick.text, x, this.height - kRankRow.bottom + 12);
    }
    timelines.ranks.forEach((one, rank) => {
      const top = this.top(rank), box = (start, duration, y, height) =>
        pen.fillRect(this.x(start), y, Math.max(0.5, this.x(start + duration) - this.x(start)), height);
      for (const [start, duration, phase] of one.spans) {
        pen.fillStyle = fills[kWork[phase]];
        box(start, duration, top, kRankRow.height);
      }
      pen.fillStyle = color("stall");
      for (const [start, duration] of one.waits) box(start, duration, top, kRankRow.height);
      pen.fillStyle = color("accent");
      for (const [start, duration] of one.exchanges) box(start, duration, top + kRankRow.height + 1, kRankRow.strip);
      pen.textAlign = "right";
      pen.fillStyle = color("ink");
      pen.fillText(rankName(rank), kRankRow.label - 10, top + kRankRow.height / 2 + 1, kRankRow.label - 12);
    });
    return this.canvas;
  }

  hover(event) {
    const box = this.canvas.getBoundingClientRect();
    const rank = Math.floor((event.clientY - box.top - kRankRow.top) / this.pitch()), one = this.timelines.ranks[rank];
    const share = (event.clientX - box.left - kRankRow.label) / (this.width - kRankRow.label - kRankRow.right);
    const time = share * this.timelines.seconds / this.unit;
    const at = ([start, duration]) => start <= time && time <= start + duration;
    const wait = one?.waits.find(at), span = wait ?? one?.spans.find(at);
    if (!span) { tip.hide(); return; }
    tip.show(event, wait ? `waits for ${rankName(wait[2])}` : kNames[kWork[span[2]]],
      [["rank", rankName(rank)], ["starts", formatSeconds(span[0] * this.unit)], ["takes", formatSeconds(span[1] * this.unit)]]);
  }
}

function drawRanks() {
  const section = document.getElementById("ranks"), timelines = report.rank_timelines;
  section.hidden = !timelines;
  if (!timelines) return;
  const sums = waitedFor(timelines), others = timelines.ranks.length - 1;
  const most = sums.indexOf(Math.max(...sums));
  const unseen = report.ranks.length - timelines.ranks.length;
  section.querySelector(".note").textContent = `Step ${timelines.step}: one of its micro-batches and the update. `
    + (sums[most] > 0 ? `Most of the waiting was for ${rankName(most)}: ${formatSeconds(sums[most] / others)} of each other rank, on average. `
      : "No rank waited for another. ")
    + "The thin line below a rank is its exchanges with others. The clocks of hosts are laid so that exchanges end together."
    + (unseen ? ` ${formatNumber(unseen)} more ranks are not shown.` : "");
  const phases = new Set(timelines.ranks.flatMap((one) => one.spans.map((span) => kWork[span[2]])));
  legend(section.querySelector(".legend"), [...kWork.filter((name) => phases.has(name)), "stall", "accent"],
    { ...kNames, stall: "waits for another rank", accent: "exchanges" });
  const target = section.querySelector(".ranks");
  target.replaceChildren(new RankPicture(timelines, target.clientWidth).draw());
  const seconds = (sum) => (sum > 0 ? formatSeconds(sum) : "");
  section.querySelector(".waits").replaceChildren(table(["rank", "computes", "waits for others", "most of it for", "others wait for it"],
    timelines.ranks.map((one, rank) => {
      const waits = Object.entries(one.waited_seconds), longest = waits.sort((a, b) => b[1] - a[1])[0];
      return element("tr", {}, element("td", {}, rankName(rank)),
        element("td", {}, formatSeconds(sumOf(one.spans.map((span) => span[1])) * timelines.unit_seconds)),
        element("td", {}, seconds(sumOf(waits.map((wait) => wait[1])))),
        element("td", {}, longest ? `rank ${longest[0]}` : ""), element("td", {}, seconds(sums[rank])));
    })));
}
