// Panels of a Grafana dashboard, drawn as SVG from what Prometheus's API below the session answers. Queries come ready with the page.
"use strict";
const page = document.body.dataset, api = new URL(page.api || ".", location.href);
const step = Number(page.step), refresh = Number(page.refresh);
let from = Number(page.from), to = Number(page.to);

// Grafana's classic palette.
const palette = ["#73BF69", "#F2CC0C", "#5794F2", "#FF780A", "#F2495C", "#5195CE", "#B877D9", "#37872D", "#8AB8FF", "#E02F44", "#A352CC",
  "#C0D8FF", "#FFB357", "#56A64B", "#FF9830", "#1F60C4", "#DEB6F2", "#96D98D", "#FA6400", "#3274D9"];
const maxSeries = 100; // drawn in one panel
const maxTip = 20; // listed at the pointer

function make(tag, attributes = {}, ...children) {
  const e = tag.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) name.startsWith("on") ? e[name] = value : e.setAttribute(name, value);
  e.append(...children);
  return e;
}

// Units, as Grafana names them: a factor to the next larger one, and their names from the smallest on. Others follow the number as they are.
const units = {
  short: [1000, "", " K", " Mil", " Bil", " Tri"], bytes: [1024, " B", " KiB", " MiB", " GiB", " TiB", " PiB"],
  decbytes: [1000, " B", " kB", " MB", " GB", " TB"], Bps: [1000, " B/s", " kB/s", " MB/s", " GB/s", " TB/s"],
  GBs: [1000, " GB/s", " TB/s", " PB/s"], mwatt: [1000, " mW", " W", " kW"], ms: [[1000, 60, 60, 24], " ms", " s", " min", " hour", " day"],
  s: [[60, 60, 24], " s", " min", " hour", " day"], percent: [Infinity, "%"], percentunit: [Infinity, "%"], "%": [Infinity, "%"],
  ops: [1000, " ops/s", "K ops/s"], qps: [1000, " qps", "K qps"], rowsps: [1000, " rows/s", "K rows/s"], celsius: [Infinity, " °C"], none: [Infinity, ""], "": [1000, "", " K", " Mil", " Bil"],
};

function format(value, unit) {
  if (value === null || value === undefined) return "";
  if (!Number.isFinite(value)) return String(value);
  if (unit === "percentunit") value *= 100;
  if (unit === "s" && value && Math.abs(value) < 1) [value, unit] = [value * 1000, "ms"];
  const [factors, ...names] = Object.hasOwn(units, unit) ? units[unit] : [1000, ...["", " K", " Mil", " Bil"].map(k => k + " " + unit)];
  let i = 0;
  for (; i < names.length - 1; i++) {
    const factor = Array.isArray(factors) ? factors[i] : factors;
    if (Math.abs(value) < factor) break;
    value /= factor;
  }
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : Math.abs(value) >= .1 || !value ? 2 : 4;
  const written = Number(value.toFixed(digits)).toLocaleString("en");
  return written + (written === "1" && names[i] === " " + unit ? names[i].replace(/([a-z])s$/i, "$1") : names[i]); // "1 node"
}

// clock writes times, as ISO 8601 does, in the zone that the dashboard shows.
function clock(options) {
  for (const timeZone of [page.timezone || window.rayHistory.zone?.(), "UTC"]) {
    try { return new Intl.DateTimeFormat("sv-SE", { timeZone: timeZone || "UTC", hourCycle: "h23", ...options }); } catch (error) { /* no such zone */ }
  }
}
const exact = () => clock({ dateStyle: "short", timeStyle: "medium" });
const time = { hour: "2-digit", minute: "2-digit" }, date = { day: "2-digit", month: "2-digit" };

// ask gives the data of an answer. The server answers a few queries at a time and asks others to come back: no more than three are sent.
let free = 3;
const waiting = [];
async function ask(path, parameters, at = api) {
  if (free > 0) free--;
  else await new Promise(turn => waiting.push(turn));
  try {
    return (await window.rayHistory.json(new URL(path + "?" + new URLSearchParams(parameters), at))).data;
  } finally {
    if (waiting.length) waiting.shift()();
    else free++;
  }
}

// other is by how much the session that is drawn over this one began later, in milliseconds; null if there is none.
const other = !page.other ? Promise.resolve(null) : window.rayHistory.json(new URL("session_activity", new URL(page.other, location.href)))
  .then(life => life.from - Number(page.begin) || 1);
other.catch(error => { document.querySelector(".with").textContent += ": " + error.message; });

// What happened is marked on every panel.
const happened = [...document.querySelectorAll(".happened li")].map(item => ({ at: Number(item.dataset.at), severity: item.className, item }));

// named is a series' name by a query's legend, such as {{instance}}.
function named(metric, legend) {
  if (legend && legend !== "__auto") return legend.replace(/\{\{([^{}]*)\}\}/g, (_, label) => Object.hasOwn(metric, label.trim()) ? metric[label.trim()] : "");
  const { __name__: name = "", ...labels } = metric;
  const list = Object.entries(labels).map(([label, value]) => `${label}="${value}"`).join(", ");
  return name + (list && `{${list}}`) || "Value";
}

// load gives a panel's series, each with a value or null for each step from first on.
async function load(panel) {
  const seconds = step / 1000, first = Math.floor(from / step) * seconds, last = Math.ceil(to / step) * seconds;
  const count = Math.round((last - first) / seconds) + 1, series = [];
  const add = (answers, begin, over) => answers.forEach((data, i) => {
    for (const { metric, values } of data.result) {
      const points = new Array(count).fill(null);
      for (const [t, v] of values) {
        const value = Number(v.replace("Inf", "Infinity"));
        if (Number.isFinite(value)) points[Math.round((t - begin) / seconds)] = value;
      }
      series.push({ name: named(metric, panel.queries[i].legend), points, over });
    }
  });
  add(await Promise.all(panel.queries.map(q => ask("query_range", { query: q.expr, start: first, end: last, step: seconds }))), first);
  const own = series.length, shift = await other;
  if (shift) {
    const begin = first + Math.round(shift / step) * seconds;
    add(await Promise.all(panel.queries.map(q => ask("query_range", { query: q.expr.replaceAll(page.session, page.with), start: begin, end: begin + last - first, step: seconds }, new URL("api/v1/", new URL(page.other, location.href))))), begin, true);
  }
  const overrides = panel.overrides || [];
  series.forEach((s, i) => {
    const twin = s.over ? series.slice(0, own).findIndex(t => t.name === s.name) : i; // the same colour in both sessions
    s.color = palette[(twin < 0 ? i : twin) % palette.length];
    s.stack = panel.stack && !shift; // one stack would hide the other
    s.fill = shift ? 0 : panel.fill || 0;
    for (const o of overrides) if (applies(o.alias, s.name)) Object.assign(s, { color: o.color || s.color, dashes: o.dashes, stack: s.stack && o.stack !== false, fill: o.fill ?? s.fill, hidden: o.hiddenSeries || s.hidden });
    if (s.over) Object.assign(s, { name: "other: " + s.name, dashes: true });
    if (shift) Object.assign(s, { stack: false, fill: 0 });
    const known = s.points.filter(v => v !== null);
    s.current = known.at(-1) ?? null;
    s.max = known.length ? known.reduce((a, b) => Math.max(a, b)) : null;
    s.min = known.length ? known.reduce((a, b) => Math.min(a, b)) : null;
    s.total = known.reduce((a, b) => a + b, 0);
    s.avg = known.length ? s.total / known.length : null;
  });
  return { first: first * 1000, count, series };
}

// applies says whether an override is for a series: by its name or, as in /FAILED|DEAD/, by one of several texts in it. Ray has no other
// patterns, and stored ones are not to run as such.
function applies(alias, name) {
  const texts = /^\/(.*)\/$/.exec(alias);
  return texts ? texts[1].split("|").some(text => text && name.includes(text)) : alias === name;
}

// scale gives values from low to high, about count of them, that are round in a unit: bytes are counted by 1024. They are least apart.
function scale(low, high, count, unit, least = 0) {
  if (units[unit]?.[0] === 1024) {
    const larger = 1024 ** Math.max(0, Math.floor(Math.log(Math.max(Math.abs(low), Math.abs(high), 1)) / Math.log(1024)));
    return scale(low / larger, high / larger, count).map(v => v * larger);
  }
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  const every = Math.max(least, [1, 2, 2.5, 5, 10].map(n => n * power).find(n => n >= rough * .999));
  const ticks = [];
  for (let i = Math.floor(low / every + 1e-9); ; i++) {
    ticks.push(i * every);
    if (i * every >= high - 1e-9 * every || ticks.length > 50) return ticks;
  }
}

// stacked adds to each series its floor and top: lines of their own, or on those before.
function stacked(series) {
  let below = null;
  for (const s of series) {
    s.floor = s.points.map((v, i) => s.stack && below ? below[i] : 0);
    s.top = s.points.map((v, i) => v === null ? null : v + s.floor[i]);
    if (s.stack) below = s.floor.map((v, i) => v + (s.points[i] || 0));
  }
}

// plot draws lines over time into a box.
function plot(box, panel, { first, count, series }) {
  const shown = series.filter(s => !s.hidden), width = box.clientWidth || 400, height = box.clientHeight || 200;
  stacked(shown);
  const tops = shown.flatMap(s => [s.max === null ? 0 : s.top.reduce((a, b) => b === null ? a : Math.max(a, b), -Infinity)]).filter(Number.isFinite);
  const lows = shown.filter(s => s.min !== null).map(s => s.stack ? Math.min(0, s.min) : s.min);
  const limit = value => value === null || value === undefined || value === "" || !Number.isFinite(Number(value)) ? null : Number(value);
  let low = limit(panel.min) ?? (lows.length ? lows.reduce((a, b) => Math.min(a, b)) : 0), high = limit(panel.max) ?? (tops.length ? tops.reduce((a, b) => Math.max(a, b)) : 1);
  if (high <= low) high = low + (Math.abs(low) || 1);
  const counted = [undefined, "", "short", "none"].includes(panel.unit) || !Object.hasOwn(units, panel.unit); // such as nodes: there is no half of one
  const whole = counted && shown.every(s => s.points.every(v => v === null || Number.isInteger(v)));
  const ticks = scale(low, high, Math.max(2, Math.floor(height / 45)), panel.unit, whole ? 1 : 0);
  [low, high] = [ticks[0], ticks.at(-1)];
  const labels = ticks.map(v => format(v, panel.unit)), left = Math.min(width / 3, 14 + 6.4 * labels.reduce((most, l) => Math.max(most, l.length), 3)), bottom = height - 18;
  const last = first + (count - 1) * step, span = Math.max(step, last - first);
  const x = i => left + (width - left - 8) * (i * step) / span, y = v => bottom - (bottom - 8) * (Math.min(Math.max(v, low), high) - low) / (high - low);
  const svg = make("svg:svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Lines over time" });
  ticks.forEach((v, i) => svg.append(make("svg:line", { class: "grid", x1: left, x2: width - 8, y1: y(v), y2: y(v) }), make("svg:text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, labels[i])));
  const marks = Math.max(2, Math.floor((width - left) / 90)), day = 86400000;
  const label = clock(span > 3 * day ? date : span > day ? { ...date, ...time } : span < 600000 ? { ...time, second: "2-digit" } : time);
  const every = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800].map(s => s * 1000).find(s => span / s <= marks) || span / marks;
  for (const t of window.rayHistory.ticks(first, last, every, label.resolvedOptions().timeZone)) {
    if (x((t - first) / step) < width - 24) svg.append(make("svg:text", { x: x((t - first) / step), y: height - 4, "text-anchor": "middle" }, label.format(t)));
  }
  for (const s of shown) {
    const line = [], area = [];
    let run = [];
    const close = () => {
      if (!run.length) return;
      line.push(run.map((i, n) => `${n ? "L" : "M"}${x(i).toFixed(1)} ${y(s.top[i]).toFixed(1)}`).join("") + (run.length === 1 ? "h.1" : ""));
      area.push(line.at(-1) + run.reverse().map(i => `L${x(i).toFixed(1)} ${y(s.floor[i]).toFixed(1)}`).join("") + "Z");
      run = [];
    };
    s.points.forEach((v, i) => { if (v !== null) run.push(i); else if (panel.nulls !== "connected") close(); });
    close();
    if (s.fill > 0) svg.append(make("svg:path", { d: area.join(""), fill: s.color, "fill-opacity": s.fill / 10 * (s.stack ? .8 : .3) }));
    svg.append(make("svg:path", { d: line.join(""), fill: "none", stroke: s.color, "stroke-width": 1.5, "stroke-linecap": "round", "stroke-dasharray": s.dashes ? "8 6" : "none" }));
  }
  const cursor = make("svg:line", { class: "cursor", y1: 8, y2: bottom, visibility: "hidden" }), tip = make("div", { class: "tip", hidden: "" });
  svg.append(cursor);
  const xOf = at => x((at - first) / step), atOf = px => first + (px - left) / (width - left - 8) * span;
  for (const together of near(happened.filter(({ at }) => at >= first && at <= last), ({ at }) => xOf(at))) {
    const px = xOf(together[0].at), severity = ["error", "node", "warning"].find(name => together.some(m => m.severity === name)) || together[0].severity;
    const titles = together.slice(0, maxTip).map(({ item }) => item.textContent.trim());
    if (together.length > maxTip) titles.push(`and ${together.length - maxTip} more`);
    svg.append(make("svg:g", { class: "mark " + severity }, make("svg:line", { x1: px, x2: px, y1: 8, y2: bottom }), make("svg:rect", { x: px - 4, y: 8, width: 8, height: bottom - 8 }), make("svg:title", {}, titles.join("\n"))));
  }
  zoomable(svg, px => atOf(Math.min(Math.max(px, left), width - 8)), bottom);
  svg.onpointermove = event => {
    const at = Math.round((event.offsetX - left) / (width - left - 8) * span / step);
    const there = at < 0 || at >= count ? [] : shown.filter(s => s.points[at] !== null).sort((a, b) => b.points[at] - a.points[at]);
    tip.hidden = !there.length;
    cursor.setAttribute("visibility", there.length ? "visible" : "hidden");
    if (!there.length) return;
    cursor.setAttribute("x1", x(at));
    cursor.setAttribute("x2", x(at));
    tip.replaceChildren(exact().format(first + at * step), table([], there.slice(0, maxTip).map(s => [s, format(s.points[at], panel.unit)])), there.length > maxTip ? `and ${there.length - maxTip} more` : "");
    tip.style.width = Math.min(360, width / 2 - 22) + "px";
    tip.style.left = x(at) > width / 2 ? "auto" : x(at) + 14 + "px";
    tip.style.right = x(at) > width / 2 ? width - x(at) + 14 + "px" : "auto";
  };
  svg.onpointerleave = () => { tip.hidden = true; cursor.setAttribute("visibility", "hidden"); };
  box.replaceChildren(svg, tip);
}

// near gives lists of those marks that would stand closer than 24 pixels to the first of them: more lines would hide the figures.
function near(marks, x) {
  const lists = [];
  for (const mark of marks.sort((a, b) => a.at - b.at)) {
    const list = lists.at(-1);
    if (list && x(mark) - x(list[0]) < 24) list.push(mark);
    else lists.push([mark]);
  }
  return lists;
}

// zoomable has the page show the range that is dragged over: the page is loaded again, because its queries depend on the range.
function zoomable(svg, atOf, bottom) {
  if (document.body.classList.contains("one")) return;
  let begun = null;
  const brush = make("svg:rect", { class: "brush", y: 8, height: bottom - 8, visibility: "hidden" });
  svg.append(brush);
  svg.addEventListener("pointerdown", event => {
    if (event.button || event.pointerType === "touch") return;
    begun = event.offsetX;
    svg.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  svg.addEventListener("pointermove", event => {
    if (begun === null) return;
    brush.setAttribute("x", Math.min(begun, event.offsetX));
    brush.setAttribute("width", Math.abs(event.offsetX - begun));
    brush.setAttribute("visibility", "visible");
  });
  svg.addEventListener("pointercancel", () => { begun = null; brush.setAttribute("visibility", "hidden"); });
  svg.addEventListener("pointerup", event => {
    const [low, high] = [Math.min(begun, event.offsetX), Math.max(begun, event.offsetX)].map(atOf);
    if (begun === null) return;
    begun = null;
    brush.setAttribute("visibility", "hidden");
    if (high - low < 1000 || brush.getAttribute("width") < 4) return;
    const address = new URL(location.href);
    address.searchParams.delete("last");
    address.searchParams.set("from", Math.round(low));
    address.searchParams.set("to", Math.round(high));
    try { sessionStorage.panels = JSON.stringify([scrollY, ...[...document.querySelectorAll(".panels details")].map(row => row.open)]); } catch { /* not stored */ }
    location.assign(address);
  });
}

// table lists series with what is told of each; press is called with the one that is chosen.
function table(head, rows, press) {
  const body = rows.map(([s, ...cells]) => {
    const name = make(press ? "button" : "span", press ? { class: "name", type: "button", title: s.name, "aria-pressed": String(!s.hidden), onclick: () => press(s) } : { class: "name" }, s.name || "–");
    name.style.setProperty("--color", s.color);
    return make("tr", {}, make("td", {}, name), ...cells.map(cell => make("td", {}, cell)));
  });
  return make("table", {}, ...(head.length ? [make("thead", {}, make("tr", {}, make("th", {}, "Series"), ...head.map(title => make("th", {}, title))))] : []), make("tbody", {}, ...body));
}

function graph(section, panel, data) {
  const box = make("div", { class: "chart" }), legend = make("div", { class: "legend" }), kept = panel.legend || {};
  const columns = ["min", "max", "avg", "current", "total"].filter(name => kept[name]);
  const listed = data.series.filter(s => !(kept.hideZero && !s.max && !s.min)).sort((a, b) => kept.sort && columns.includes(kept.sort) ? (kept.sortDesc ? b[kept.sort] - a[kept.sort] : a[kept.sort] - b[kept.sort]) : 0);
  section.chosen ??= new Map(); // what was hidden and shown by hand, by name: it stays when the panel is drawn again
  for (const s of data.series) s.hidden = section.chosen.get(s.name) ?? s.hidden;
  const press = s => { s.hidden = !s.hidden; section.chosen.set(s.name, s.hidden); draw(); };
  const draw = () => {
    if (kept.show !== false) legend.replaceChildren(table(columns, listed.map(s => [s, ...columns.map(name => format(s[name], panel.unit))]), press));
    plot(box, panel, data);
  };
  show(section, box, legend);
  draw();
  section.redraw = draw;
}

function stats(section, panel, data) {
  const most = Number(panel.max) || data.series.reduce((top, s) => Math.max(top, s.current || 0), 0) || 1, low = Number(panel.min) || 0;
  show(section, make("div", { class: "stats" }, ...data.series.map(s => {
    const value = make("b", {}, format(s.current, panel.unit)), stat = make("div", { class: "stat" }, value, s.name);
    value.style.setProperty("--color", s.color);
    if (panel.type === "gauge") {
      const part = Math.min(1, Math.max(0, (s.current - low) / (most - low || 1)));
      const arc = share => `M10 70A55 55 0 0 1 ${(65 - 55 * Math.cos(Math.PI * share)).toFixed(1)} ${(70 - 55 * Math.sin(Math.PI * share)).toFixed(1)}`;
      stat.prepend(make("svg:svg", { viewBox: "0 0 130 76", "aria-hidden": "true" }, make("svg:path", { class: "grid", d: arc(1), fill: "none", "stroke-width": 12 }), make("svg:path", { d: arc(part), fill: "none", stroke: s.color, "stroke-width": 12 })));
    }
    return stat;
  })));
}

function pie(section, panel, data) {
  const series = data.series.filter(s => s.current > 0), total = series.reduce((sum, s) => sum + s.current, 0) || 1;
  const svg = make("svg:svg", { viewBox: "-105 -105 210 210", role: "img", "aria-label": "Shares" });
  let share = 0;
  for (const s of series) {
    const at = part => `${(100 * Math.sin(2 * Math.PI * part)).toFixed(2)} ${(-100 * Math.cos(2 * Math.PI * part)).toFixed(2)}`;
    const end = Math.min(share + s.current / total, share + .99999);
    svg.append(make("svg:path", { d: `M0 0L${at(share)}A100 100 0 ${end - share > .5 ? 1 : 0} 1 ${at(end)}Z`, fill: s.color }));
    share = end;
  }
  show(section, make("div", { class: "chart" }, svg), make("div", { class: "legend" }, table(["share", "value"], data.series.map(s => [s, format(100 * (s.current || 0) / total, "percent"), format(s.current, panel.unit)]))));
}

// show replaces all of a panel but its title.
function show(section, ...content) { section.replaceChildren(section.firstElementChild, ...content); }

function message(section, text) { show(section, make("div", { class: "message", role: "status" }, text)); }

async function draw(section) {
  const panel = JSON.parse(section.dataset.panel);
  if (section.busy) return;
  section.busy = true;
  section.redraw = null;
  try {
    const data = await load(panel), all = data.series.length;
    data.series = data.series.slice(0, maxSeries);
    if (!data.series.some(s => s.current !== null)) return message(section, "No data");
    ({ graph, timeseries: graph, stat: stats, gauge: stats, piechart: pie }[panel.type] || listing)(section, panel, data);
    if (all > maxSeries) section.append(make("div", { class: "faint" }, `${maxSeries} of ${all} series`));
  } catch (error) {
    message(section, error.message);
  } finally {
    section.busy = false;
  }
}

// listing is for tables, and for all other types.
function listing(section, panel, data) { show(section, make("div", { class: "legend" }, table(["current"], data.series.map(s => [s, format(s.current, panel.unit)])))); }

// After a zoom the page stands where it stood.
try {
  const [top, ...open] = JSON.parse(sessionStorage.panels || "[0]");
  delete sessionStorage.panels;
  open.forEach((is, i) => { const row = document.querySelectorAll(".panels details")[i]; if (row) row.open = is; });
  if (top) scrollTo(0, top);
} catch { /* not stored */ }

// Panels are drawn when they are first seen.
const seen = new Set(), sections = document.querySelectorAll(".panel");
const watch = new IntersectionObserver(entries => {
  for (const { isIntersecting, target } of entries) if (isIntersecting && !seen.has(target)) { seen.add(target); message(target, "…"); draw(target); }
}, { rootMargin: "200px" });
sections.forEach(section => watch.observe(section));
let resized;
const redraw = () => sections.forEach(section => section.redraw?.());
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(redraw, 150); });
addEventListener("rayhistoryzone", redraw);
if (refresh > 0) setInterval(() => { from += refresh; to += refresh; seen.forEach(draw); }, refresh);

// The form's variables get the values that are stored; what is chosen shows at once.
const form = document.querySelector(".options form");
if (form) form.onchange = event => {
  if (event.target.name === "last") form.elements.from.value = form.elements.to.value = "";
  else if (["from", "to"].includes(event.target.name)) form.elements.last.value = "";
  if (!event.target.multiple) form.requestSubmit();
};
document.querySelectorAll("select[data-label]").forEach(async select => {
  const { label, match, expr } = select.dataset, range = { start: from / 1000, end: to / 1000 };
  if (!label) return;
  try {
    const found = expr ? (await ask("query", { query: expr, time: to / 1000 })).result.map(({ metric }) => metric[label])
      : await ask(`label/${encodeURIComponent(label)}/values`, match ? { ...range, "match[]": match } : range);
    const known = new Set(Array.from(select.options, option => option.value));
    for (const value of found) if (value && !known.has(value)) select.append(make("option", {}, value));
  } catch (error) {
    select.title = error.message;
  }
});

// In a frame of the session's dashboard the page follows the moment that the dashboard's bar moves to: that changes what the frame's address
// is relative to.
const frame = window.frameElement;
if (frame) {
  const gone = new AbortController();
  parent.addEventListener("focus", () => {
    const now = new URL(frame.src);
    if (now.pathname !== location.pathname) location.replace(now.pathname + location.search);
  }, { signal: gone.signal });
  addEventListener("pagehide", () => gone.abort());
}
