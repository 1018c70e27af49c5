// Puts the page together, and draws again what depends on its width, its colours or the part of the step in view.

const [modelName, ...jobParts] = report.title.split(" · ");
document.title = `${modelName} · Spillway report`;
document.getElementById("name").textContent = modelName;
document.getElementById("job").textContent = jobParts.join(" · ");

const panels = makeLanePanels();

function drawStep() {
  drawMemory();
  panels.forEach((panel) => panel.draw());
}

function showPart(from, to) {
  view.set(from, to);
  drawStep();
}

for (const button of document.querySelectorAll("[data-zoom]")) {
  const factor = Number(button.dataset.zoom);
  button.addEventListener("click", () => (factor ? zoomBy(factor) : showPart(0, view.seconds())));
}

if (report.timeline.measured) {
  const names = ["predicted", "measured"];
  const buttons = names.map((name) => element("button", { type: "button", "aria-pressed": `${view.clock === name}` }, `${name} time`));
  buttons.forEach((button, i) => button.addEventListener("click", () => {
    view.clock = names[i];
    buttons.forEach((other, j) => other.setAttribute("aria-pressed", `${i === j}`));
    drawMemory();
  }));
  document.getElementById("clock").append(...buttons);
} else {
  document.getElementById("clock").remove();
}

// Before a run there is nothing to say of computing time and loss, and the frontier takes the place.
const isRun = report.steps > 0;
if (!isRun) {
  document.getElementById("operations").replaceWith(document.getElementById("frontier"));
  document.getElementById("loss").parentElement.remove();
}

function draw() {
  drawStep();
  if (isRun) drawLoss();
  if (isRun) drawMetrics();
  drawFrontier();
}

drawShortage();
drawNumbers();
drawChoices();
drawMoved();
if (isRun) drawOperations();
if (isRun) drawSamples();
view.set(0, view.seconds());
draw();
addEventListener("resize", draw);
addEventListener("beforeprint", draw);
addEventListener("afterprint", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
