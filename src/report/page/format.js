"use strict";

// The document of report.json; another one while a run goes on (live.js).
let report = JSON.parse(document.getElementById("report").textContent);

// Units, names and colours, and the few functions that make elements. Text only ever enters the page as text.

const kKinds = ["frozen_weight", "trainable_weight", "optimizer_state", "gradient", "saved_activation", "transient", "batch",
  "cache"];
// From the bottom of a stack upwards: what stays first, what comes and goes last.
const kStack = ["frozen_weight", "trainable_weight", "optimizer_state", "gradient", "cache", "batch", "saved_activation",
  "transient"];
const kWork = ["forward", "backward", "recompute", "update"];
const kLanes = ["compute", "host_to_device", "device_to_host", "disk_read", "disk_write", "host_compute", "peer"];
const kNames = {
  frozen_weight: "frozen weights", trainable_weight: "trainable weights", optimizer_state: "optimizer state",
  gradient: "gradients", saved_activation: "saved activations", transient: "transient", batch: "batch", cache: "cache",
  forward: "forward", backward: "backward", recompute: "recomputed", update: "update",
  compute: "compute", host_to_device: "host to device", device_to_host: "device to host", disk_read: "disk read",
  disk_write: "disk write", host_compute: "host compute", peer: "peer",
};
const kTierNames = { device: "device memory", host: "host memory", disk: "disk space" };

function bytesUnit(bytes) {
  if (bytes >= 2 ** 30) return { size: 2 ** 30, name: "GiB", digits: 2 };
  if (bytes >= 2 ** 20 / 10) return { size: 2 ** 20, name: "MiB", digits: 1 };
  if (bytes >= 2 ** 10) return { size: 2 ** 10, name: "KiB", digits: 1 };
  return { size: 1, name: "B", digits: 0 };
}
function formatBytes(bytes) {
  const unit = bytesUnit(bytes);
  return `${(bytes / unit.size).toFixed(unit.digits)} ${unit.name}`;
}
function formatSeconds(seconds) {
  if (!isFinite(seconds)) return "never";
  if (seconds === 0) return "0 s";
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  if (seconds >= 0.1) return `${(seconds * 1e3).toFixed(0)} ms`;
  if (seconds >= 1e-3) return `${(seconds * 1e3).toFixed(2)} ms`;
  return `${(seconds * 1e6).toFixed(seconds >= 1e-5 ? 0 : 1)} µs`;
}
function formatNumber(value, digits = 0) {
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
function formatShare(share) {
  return `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// element("p", {class: "note"}, "text", child, ...)
function element(tag, attributes = {}, ...children) {
  const result = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) result.setAttribute(name, value);
  result.append(...children);
  return result;
}
function swatch(name) {
  if (name === "recompute") return element("i", { class: "swatch hatched" });
  return element("i", { class: "swatch", style: `background: var(--${name})` });
}
function legend(target, names, texts = kNames) {
  target.replaceChildren(...names.map((name) => element("span", {}, swatch(name), texts[name])));
}

const kSvg = document.getElementById("pen").namespaceURI;
function svg(tag, attributes = {}, ...children) {
  const result = document.createElementNS(kSvg, tag);
  for (const [name, value] of Object.entries(attributes)) result.setAttribute(name, value);
  result.append(...children);
  return result;
}

// About what a character of a chart's text takes, and from one line to the next.
const kCharacterWidth = 7, kLineHeight = 14;
// Parts of a text in as few lines as are at most `width` wide; a part stays whole.
function linesOf(parts, width) {
  const lines = [];
  for (const part of parts) {
    const longer = lines.length ? `${lines.at(-1)} ${part}` : part;
    if (lines.length && longer.length * kCharacterWidth <= width) lines[lines.length - 1] = longer;
    else lines.push(part);
  }
  return lines;
}

// Round numbers in [low, high], about as many as wanted.
function ticks(low, high, wanted) {
  const raw = (high - low) / wanted;
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
  const result = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) result.push(i * step);
  return result;
}
function byteTicks(high, wanted) {
  const unit = bytesUnit(high);
  const text = (value) => (value ? `${+value.toPrecision(6)} ${unit.name}` : "0");
  return ticks(0, high / unit.size, wanted).map((value) => ({ at: value * unit.size, text: text(value) }));
}
function secondTicks(low, high, wanted) {
  const unit = high >= 1 ? [1, "s"] : high >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"];
  const text = (value) => (value ? `${+value.toPrecision(6)} ${unit[1]}` : "0");
  return ticks(low / unit[0], high / unit[0], wanted).map((value) => ({ at: value * unit[0], text: text(value) }));
}

const tip = {
  box: document.getElementById("tip"),
  // rows: [text, value] or [text, value, colour's name]
  show(event, title, rows) {
    this.box.replaceChildren(element("b", {}, title), ...rows.map(([text, value, name]) => {
      const left = element("span", {}, ...(name ? [swatch(name)] : []), text);
      return element("div", {}, left, element("span", {}, value));
    }));
    this.box.hidden = false;
    const { width, height } = this.box.getBoundingClientRect();
    const x = event.clientX + 16 + width > innerWidth ? event.clientX - 16 - width : event.clientX + 16;
    const y = event.clientY + 16 + height > innerHeight ? event.clientY - 16 - height : event.clientY + 16;
    this.box.style.left = `${Math.max(4, x)}px`;
    this.box.style.top = `${Math.max(4, y)}px`;
  },
  hide() { this.box.hidden = true; },
};
