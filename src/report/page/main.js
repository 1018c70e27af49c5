// Puts the page together, and draws again what depends on its width, its colours or the part of the step in view.

const [modelName, ...jobParts] = report.title.split(" · ");
document.getElementById("name").textContent = modelName;
document.getElementById("job").textContent = jobParts.join(" · ");

let panels = [];

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

// A job that generates what it is trained on has pictures of a whole round and of a training step.
const whats = ["round", "step"];
const whatButtons = [...document.querySelectorAll(".what")].flatMap((box) => whats.map((what) => {
  const button = element("button", { type: "button" }, what === "round" ? "a whole round" : "a training step");
  box.append(button);
  button.addEventListener("click", () => {
    view.what = what;
    view.set(0, view.seconds());
    makePictures();
    drawStep();
  });
  return { what, button };
}));
function drawWhat() {
  for (const box of document.querySelectorAll(".what")) box.hidden = !report.round;
  for (const { what, button } of whatButtons) button.setAttribute("aria-pressed", `${view.what === what}`);
  for (const name of document.querySelectorAll(".what-name")) name.textContent = view.what;
}

const clock = document.getElementById("clock");
const clockNames = ["predicted", "measured"];
const clockButtons = clockNames.map((name) => element("button", { type: "button" }, `${name} time`));
clock.append(...clockButtons);
clockButtons.forEach((button, i) => button.addEventListener("click", () => {
  view.chosen = clockNames[i];
  drawClock();
  drawMemory();
}));
function drawClock() {
  clock.hidden = !view.timeline.measured;
  clockButtons.forEach((button, i) => button.setAttribute("aria-pressed", `${view.clock === clockNames[i]}`));
}

// Before a run there is nothing to say of computing time and loss, and the frontier takes the place.
const isRun = Boolean(report.state);
if (!isRun) {
  document.getElementById("operations").replaceWith(document.getElementById("frontier"));
  document.getElementById("loss").remove();
}

function draw() {
  drawStep();
  if (isRun) drawLoss();
  if (isRun) drawMetrics();
  if (isRun) drawLayers();
  if (isRun) drawRanks();
  drawFrontier();
}

function makePictures() {
  drawWhat();
  panels = makeLanePanels();
  drawClock();
}

function drawAll() {
  drawState();
  drawShortage();
  drawNumbers();
  drawChoices();
  drawMoved();
  if (isRun) drawOperations();
  if (isRun) drawSamples();
  if (isRun) drawTimesteps();
  drawConfig();
  drawRound();
  makePictures();
  draw();
}

view.set(0, view.seconds());
drawAll();
addEventListener("resize", draw);
addEventListener("beforeprint", draw);
addEventListener("afterprint", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
if (canRefresh) setInterval(refresh, kRefreshMs);
