// Small line charts as SVG.

import { make, svg } from "./dom.js";

const WIDTH = 340, HEIGHT = 120, LEFT = 46, RIGHT = 8, TOP = 8, BOTTOM = 24;

export function number(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) >= 100 ? value.toFixed(0) : Math.abs(value) >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export const seconds = (value) => (value === null || value === undefined ? "–" : `${number(value)} s`);

function range(values, from, to) {
  const known = values.filter((value) => value !== null && value !== undefined);
  const low = Math.min(...known, from ?? Infinity), high = Math.max(...known, to ?? -Infinity);
  return high > low ? [low, high] : [low - 0.5, high + 0.5];
}

// Runs of neighbours that have a value: a line is broken where one is missing.
function runs(points) {
  const all = [[]];
  for (const point of points) {
    if (point[1] === null || point[1] === undefined) all.push([]);
    else all.at(-1).push(point);
  }
  return all.filter((run) => run.length > 0);
}

function curve(line, x, y) {
  return runs(line.points).map((run) => {
    if (run.length === 1) return svg("circle", { class: line.name, cx: x(run[0][0]), cy: y(run[0][1]), r: 3 });
    const points = run.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    return svg("polyline", { class: line.name, points });
  });
}

const across = (name, at) => svg("line", { class: name, x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at });

// lines: [{name, points: [[x, y], ...]}]; limit: a dashed level; events: x of vertical marks.
export function lineChart({ label, lines, limit, events = [], from, to }) {
  const values = lines.flatMap((line) => line.points.map((point) => point[1]));
  const places = lines.flatMap((line) => line.points.map((point) => point[0]));
  const [low, high] = range(limit === undefined ? values : [...values, limit], from, to);
  const [first, last] = [Math.min(...places), Math.max(...places)];
  const x = (at) => LEFT + ((at - first) / Math.max(last - first, 1)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const text = (content, attributes) => svg("text", attributes, content);
  const marks = events.filter((at) => at >= first && at <= last);
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    across("grid", TOP), across("grid", HEIGHT - BOTTOM),
    text(number(high), { x: LEFT - 6, y: TOP + 4, "text-anchor": "end" }),
    text(number(low), { x: LEFT - 6, y: HEIGHT - BOTTOM + 4, "text-anchor": "end" }),
    text(number(first), { x: LEFT, y: HEIGHT - 4 }),
    text(`group ${number(last)}`, { x: WIDTH - RIGHT, y: HEIGHT - 4, "text-anchor": "end" }),
    limit === undefined ? null : across("limit", y(limit)),
    ...marks.map((at) => svg("line", { class: "event", x1: x(at), x2: x(at), y1: TOP, y2: HEIGHT - BOTTOM })),
    ...lines.flatMap((line) => curve(line, x, y)));
}

export const legend = (names) =>
  make("div", { class: "legend" }, ...Object.entries(names).map(([name, text]) => make("span", { class: name }, text)));
