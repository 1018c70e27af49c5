// Shows the progress of a run, and newer numbers while it goes on, from the server that the page came from (`spillway watch`).

const kRefreshMs = 2000;
const canRefresh = isWatched();
let newest = null;       // the ETag of what is shown
let server = "unknown";  // what it says of the run: "held", "gone", or "lost" where the server does not answer

function isWatched() { return report.state && location.protocol.startsWith("http"); }

function clockText(seconds) {
  const whole = Math.ceil(seconds), two = (value) => `${value}`.padStart(2, "0");
  const hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60;
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

function stateText() {
  const { state, step_now: step, total_steps: total } = report, at = `step ${formatNumber(step)} of ${formatNumber(total)}`;
  if (server === "lost") return `No answer from the server; this was ${at}.`;
  if (state === "done") return report.ended_early ? `Ended after ${at}: ${report.ended_early}.` : `Finished: ${at}.`;
  if (state === "failed") return `Failed after ${at}: ${report.ended_early}`;
  if (state === "interrupted") return `Interrupted after ${at}.`;
  if (server === "gone") return `The run is gone without a last report, perhaps killed; the last that it showed was ${at}.`;
  if (!canRefresh) return `Running when this was written: ${at}. Load the page again for more, or let \`spillway watch\` do it.`;
  const left = report.steps > 0 && report.tokens_per_second ? clockText((total - step) * report.step.mean_seconds) : null;
  return `Running: ${at}${left ? `, about ${left} left` : ""}.`;
}

function drawState() {
  document.title = `${report.state === "running" ? `${report.step_now}/${report.total_steps} · ` : ""}${modelName} · Spillway report`;
  const box = document.getElementById("state");
  box.hidden = !report.state;
  if (!report.state) return;
  box.classList.toggle("lost", server === "lost" || report.state === "failed" || (server === "gone" && report.state === "running"));
  const share = report.total_steps > 0 ? report.step_now / report.total_steps : 0;
  box.replaceChildren(element("span", {}, stateText()));
  if (report.state === "running")
    box.append(element("div", { class: "meter" }, element("i", { style: `width: ${(100 * Math.min(1, share)).toFixed(1)}%` })));
}

// The new numbers in the place of the old ones. What the reader looks at stays: the place on the page, the zoom, the clock.
function show(newer) {
  const isSame = ["started", "title"].every((part) => newer[part] === report[part]);
  if (!isSame || newer.timeline.instructions.length !== report.timeline.instructions.length) {
    location.reload();  // another run
    return;
  }
  const sawAll = view.from <= 0 && view.to >= view.seconds() * (1 - 1e-9);
  report = newer;
  if (sawAll) view.set(0, view.seconds());
  const { scrollX, scrollY } = window;
  drawAll();
  scrollTo(scrollX, scrollY);
}

async function refresh() {
  if (document.hidden) return;
  try {
    const response = await fetch("report.html", { cache: "no-cache" });
    const tag = response.headers.get("etag"), said = server;
    if (!response.ok) throw new Error(response.statusText);
    server = response.headers.get("spillway-run") ?? "unknown";
    const changed = tag === null || tag !== newest;
    if (changed) {
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      newest = tag;
      show(JSON.parse(page.getElementById("report").textContent));
    } else if (said !== server) {
      drawState();
    }
  } catch {
    server = "lost";
    drawState();
  }
}
