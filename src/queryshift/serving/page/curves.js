// The live curves of a tenant: what each one measures, what it means, what to do when it moves.

import { lineChart, legend, number } from "./charts.js";
import { $, make, show } from "./dom.js";

const SHIFTED = 3; // standard errors: above it a group is unlike the reference queries
const IN_TABLE = 12;

const measure = (name) => ({ [name]: (rows) => rows.map((row) => [row.batch, row[name]]) });

// The sum over the groups shown, up to each of them.
function sum(amount) {
  return (rows) => {
    let total = 0;
    return rows.map((row) => [row.batch, (total += amount(row))]);
  };
}

const CURVES = [
  { title: "Shift score", lines: measure("shift_score"), limit: SHIFTED, from: 0,
    means: "How much farther these queries are from their nearest candidates than the reference queries, in standard errors. Above the dashed line the traffic has shifted: look at the latest queries and at what produces them.",
    missing: "Not measured yet: give the collection reference queries (PUT …/reference)." },
  { title: "Agreement", lines: measure("agreement"), from: 0, to: 1,
    means: "Share of queries for which source and adapted model have the same top-1 result. It falls as the tenant learns: compare the answers below, and roll back if the adapted ones are worse.",
    missing: "Not measured yet: it needs the answers of both models, as in shadow mode." },
  { title: "Entropy", lines: measure("entropy"),
    means: "How undecided the model is between candidates, in nats. Up: the queries got harder. Updates bring it down. If it falls to 0 and the answers below look wrong, roll back." },
  { title: "Gap", lines: measure("gap"),
    means: "Distance between the mean query and the mean of what the queries find. Up: the queries moved away from the candidates. Updates should bring it down again; if not, stay in shadow." },
  { title: "Spread", lines: measure("spread"),
    means: "Mean distance of the queries from their mean. Down: the model separates them less well, as with noise or blur. Check where they come from." },
  { title: "Updates and drops", lines: { updates: sum((row) => (row.updated ? 1 : 0)), drops: sum((row) => row.dropped) }, from: 0, to: 1,
    legend: { updates: "learned", drops: "dropped" },
    means: "Groups learned from, and groups dropped because answers came first. If drops keep growing, there is more traffic than this machine can learn from. Answers are not affected." },
  { title: "Learning delay", lines: measure("delay"), from: 0, to: 0.1,
    means: "Seconds from a group's last query until it was learned. Up: more traffic than this machine can learn from at once. Every tenant still gets its turn.",
    missing: "Not measured yet: it comes with the next group." },
  { title: "Guard", lines: { guard: sum((row) => (row.guard ? 1 : 0)) }, from: 0, to: 1,
    means: "How often the guard stepped in (red lines in the other curves). If it happens several times in a row, switch to shadow and read the guard events below." },
];

const valuesOf = (line) => line.points.map((point) => point[1]).filter((value) => value !== null && value !== undefined);
const hasValues = (line) => valuesOf(line).length > 0;
const lastOf = (line) => valuesOf(line).at(-1);

function drawn(curve, rows) {
  const lines = Object.entries(curve.lines).map(([name, points]) => ({ name, points: points(rows) }));
  const latest = lines.map((line) => number(lastOf(line))).join(" / ");
  const events = rows.filter((row) => row.guard).map((row) => row.batch);
  const label = `${curve.title}: ${latest} at the last of ${rows.length} groups`;
  const measured = lines.some(hasValues);
  return make("figure", {},
    make("div", { class: "curve-head" }, make("h3", {}, curve.title), make("output", {}, latest)),
    measured ? lineChart({ ...curve, label, lines: lines.filter(hasValues), events }) : null,
    measured && curve.legend ? legend(curve.legend) : null,
    make("figcaption", {}, measured ? curve.means : curve.missing ?? curve.means));
}

const COLUMNS = ["batch", "queries", "shift_score", "agreement", "entropy", "gap", "spread", "updated", "dropped", "guard"];
const HEADINGS = { batch: "group", shift_score: "shift score" };

function cell(value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "string" ? value : number(value);
}

function drawTable(rows) {
  const [head, body] = [$("batches").querySelector("thead"), $("batches").querySelector("tbody")];
  show(head, make("tr", {}, ...COLUMNS.map((column) => make("th", { scope: "col" }, HEADINGS[column] ?? column))));
  const last = rows.slice(-IN_TABLE).reverse();
  show(body, ...last.map((row) => make("tr", {}, ...COLUMNS.map((column) => make("td", {}, cell(row[column]))))));
}

export function drawCurves(rows) {
  $("no-traffic").hidden = rows.length > 0;
  $("batches").hidden = rows.length === 0;
  show($("curves"), ...(rows.length ? CURVES.map((curve) => drawn(curve, rows)) : []));
  if (rows.length) drawTable(rows);
}
