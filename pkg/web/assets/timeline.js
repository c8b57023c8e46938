// Draws a session's tasks and actors over time. The server adds up what is too narrow to be seen, so each range that is shown is asked for.
const page = document.querySelector(".timeline"), drawing = page.querySelector(".drawing"), box = page.querySelector(".canvas");
const rows = box.querySelector(".rows"), canvas = box.querySelector("canvas"), brush = box.querySelector(".brush"), legend = page.querySelector(".legend"), longest = page.querySelector(".longest tbody");
const [state, picked, colour, nodes] = ["state", "picked", "colour", "node"].map(name => page.querySelector(`[data-${name}]`));
const marks = [...page.querySelectorAll(".marks li")].map(item => ({
  at: Date.parse(item.dataset.at), severity: item.classList[1], title: item.querySelector("a").textContent, href: item.querySelector("a").href,
})).filter(mark => mark.at);
const AXIS = 22, MARKS = 16, NODE = 26, WORKER = 16; // heights
const number = n => n.toLocaleString("en");
const plural = (n, thing) => `${number(n)} ${thing}${n === 1 ? "" : "s"}`;

let data = null, view = null, whole = null, asked = 0, running = null, chosen = null, placed = [];

// --- Data

async function ask() {
  running?.abort();
  const mine = running = new AbortController(), query = new URLSearchParams({ colour: colour.value, pixels: Math.max(100, Math.round(width())) });
  box.removeAttribute("data-tasks");
  if (view) { query.set("from", Math.floor(view.from)); query.set("to", Math.ceil(view.to)); } else {
    for (const name of ["from", "to"]) if (given.get(name)) query.set(name, given.get(name)); // a time in any form
  }
  if (nodes.value) query.set("node_id", nodes.value);
  try {
    const waiting = why => { state.textContent = why; };
    const { data: got } = await window.rayHistory.json("api/history/timeline?" + query, { signal: mine.signal, waiting });
    data = got;
    whole ||= { from: got.begin, to: got.end };
    view ||= { from: got.from, to: got.to };
    describe();
    place();
    const id = chosen?.bar.id;
    if (id) chosen = bars().find(hit => hit.bar.id === id) || null; // what was chosen while this was asked for stays so
    draw();
  } catch (error) {
    if (error.name !== "AbortError") state.textContent = error.message;
  }
}

// look shows a range, at once by what is there and then by what the server says of it.
function look(from, to) {
  const least = 2, span = Math.min(Math.max(to - from, least), whole.to - whole.from || least);
  from = Math.min(Math.max(from, whole.from), whole.to - span);
  view = { from, to: from + span };
  const part = from > whole.from || view.to < whole.to;
  keep({ from: part && Math.floor(from), to: part && Math.ceil(view.to) });
  draw();
  clearTimeout(asked);
  asked = setTimeout(ask, 120);
}

// keep writes what is chosen into the page's address.
function keep(values) {
  const address = new URL(location.href);
  for (const [name, value] of Object.entries(values)) if (value) address.searchParams.set(name, value); else address.searchParams.delete(name);
  history.replaceState(null, "", address);
}

function choose() {
  keep({ colour: colour.selectedIndex > 0 && colour.value, node_id: nodes.value });
  ask();
}

function zoom(by, at = (view.from + view.to) / 2) { look(at - (at - view.from) * by, at + (view.to - at) * by); }
function pan(share) { const by = share * (view.to - view.from); look(view.from + by, view.to + by); }

function describe() {
  const unplaced = data.unplaced ? ` (of ${number(data.unplaced)} the node is not known)` : "";
  const on = plural(data.nodes.filter(node => node.id).length, "node") + (data.lanes.length ? ` and ${plural(data.lanes.length, "worker")}` : "");
  state.textContent = `${plural(data.tasks, "task attempt")} on ${on}${unplaced}, ${window.rayHistory.stamp(view.from)} to ${window.rayHistory.stamp(view.to)}. ` + data.notes.join(" ");
  legend.replaceChildren(...data.groups.flatMap((group, i) => {
    if (!group.tasks && colour.value !== "outcome") return [];
    const item = document.createElement("li"), key = document.createElement("span");
    key.className = "key";
    key.style.background = colourOf(i);
    item.append(key, ` ${group.name || "no name"} ${number(group.tasks)}`);
    return [item];
  }));
  for (const { id, name } of data.nodes) if (id) {
    const known = [...nodes.options].find(option => option.value === id);
    if (known) known.textContent = name; else nodes.add(new Option(name, id));
  }
  longest.replaceChildren(...data.longest.map(rowOf));
  page.querySelector("[data-longest]").hidden = !data.longest.length;
  box.dataset.tasks = data.tasks; // says that it is drawn
}

// taskPage is the task's page in the dashboard, which has it below that of the job only: a task's ID ends with its job's.
const taskPage = id => `./#/jobs/${id.slice(-8)}/tasks/${id}`;

// rowOf is the row of one of the longest attempts.
function rowOf(bar) {
  const row = document.createElement("tr"), name = document.createElement("th"), task = document.createElement("a");
  task.href = taskPage(bar.id);
  task.textContent = bar.n || bar.id;
  name.scope = "row";
  name.append(task);
  row.append(name, ...[lasting(bar.e - bar.s), clock(bar.s), bar.o || "finished", data.nodes[bar.node].name, bar.worker.slice(0, 8)].map(text => {
    const cell = document.createElement("td");
    cell.textContent = text;
    return cell;
  }));
  row.children[1].className = "number";
  return row;
}

// --- Drawing

const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "")) === "dark";
function colourOf(group) {
  if (colour.value === "outcome") return css(["--green", "--red", "--blue"][group]);
  if (group >= 12) return css("--faint");
  return `hsl(${(210 + group * 137.5) % 360} ${dark() ? "55% 62%" : "60% 45%"})`;
}

// css is a colour of the style sheet as a canvas takes it, which understands no light-dark().
const inks = new Map();
function css(name) {
  const key = dark() + name;
  if (!inks.has(key)) {
    canvas.style.color = `var(${name})`;
    inks.set(key, getComputedStyle(canvas).color);
  }
  return inks.get(key);
}

// clock is a time of the session: of one of more than a day with the day.
function clock(at) {
  const options = { timeZone: window.rayHistory.zone(), hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
  if (view.to - view.from < 5000) options.fractionalSecondDigits = 3;
  if (whole.to - whole.from > 864e5) Object.assign(options, { day: "2-digit", month: "2-digit" });
  return new Intl.DateTimeFormat("en-GB", options).format(at);
}

const gutter = () => (box.clientWidth < 600 ? 84 : 150);
const width = () => box.clientWidth - gutter();
const xOf = at => gutter() + (at - view.from) / (view.to - view.from) * width();
const timeOf = x => view.from + (x - gutter()) / width() * (view.to - view.from);

// place lists the rows with their places.
function place() {
  placed = [];
  let y = AXIS + (marks.length ? MARKS : 0);
  data.nodes.forEach((node, i) => {
    placed.push({ node, y, height: NODE });
    y += NODE;
    for (const lane of data.lanes) if (lane.node === i) {
      placed.push({ lane, node, y, height: WORKER });
      y += WORKER;
    }
  });
  rows.style.height = y + 8 + "px";
  box.style.height = Math.min(y + 12, Math.max(320, innerHeight - 420)) + "px";
}

function draw() {
  if (!data || !view) return;
  const scale = devicePixelRatio || 1, w = box.clientWidth, h = box.clientHeight;
  if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(h * scale)) {
    canvas.width = Math.round(w * scale);
    canvas.height = Math.round(h * scale);
    canvas.style.width = w + "px";
    canvas.style.height = h + "px";
  }
  const pen = canvas.getContext("2d"), top = box.scrollTop, left = gutter();
  const text = css("--text"), faint = css("--faint"), line = css("--line"), red = css("--red"), blue = css("--blue");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, w, h);
  pen.font = "12px Roboto, sans-serif";
  pen.textBaseline = "middle";
  pen.save();
  pen.beginPath();
  pen.rect(0, AXIS, w, h);
  pen.clip();
  const perPixel = (data.to - data.from) / data.pixels, cellX = x => xOf(data.from + x * perPixel);
  for (const row of placed) {
    const y = row.y - top;
    if (y + row.height < AXIS || y > h) continue;
    if (!row.lane) drawNode(pen, row, y, cellX, { text, faint, line, red, blue, w });
    else drawLane(pen, row, y, cellX, { faint, line, red, text });
  }
  pen.fillStyle = css("--paper");
  pen.fillRect(0, AXIS, left - 4, h);
  for (const row of placed) {
    const y = row.y - top;
    if (y + row.height < AXIS || y > h) continue;
    pen.fillStyle = row.lane ? faint : text;
    const name = row.lane ? row.lane.worker.slice(0, 8) : row.node.name;
    pen.fillText(name, row.lane ? 20 : 6, y + row.height / 2, left - (row.lane ? 28 : 14));
  }
  pen.restore();
  drawAxis(pen, w, h, { text, faint, line });
  drawMarks(pen, h, { red, orange: css("--orange"), faint });
}

function drawNode(pen, { node }, y, cellX, { line, red, blue, w }) {
  pen.fillStyle = line;
  pen.fillRect(gutter(), y, w, 1);
  const most = Math.max(1, ...node.cells.map(cell => cell.b));
  for (const cell of node.cells) {
    const x = cellX(cell.x), width = Math.max(1, cellX(cell.x + cell.w) - x), tall = Math.max(1, (NODE - 6) * cell.b / most);
    pen.globalAlpha = .55;
    pen.fillStyle = blue;
    pen.fillRect(x, y + NODE - 2 - tall, width, tall);
    pen.globalAlpha = 1;
    if (cell.f) {
      pen.fillStyle = red;
      pen.fillRect(x, y + 2, Math.max(2, width), 4);
    }
  }
  if (node.lost && node.end) {
    const x = xOf(node.end);
    pen.strokeStyle = red;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(x - 5, y + 6);
    pen.lineTo(x + 5, y + 16);
    pen.moveTo(x + 5, y + 6);
    pen.lineTo(x - 5, y + 16);
    pen.stroke();
  }
}

function drawLane(pen, { lane }, y, cellX, { faint, line, red, text }) {
  for (const actor of lane.actors) {
    pen.fillStyle = line;
    pen.fillRect(xOf(actor.s), y + 1, Math.max(2, xOf(actor.e) - xOf(actor.s)), WORKER - 2);
  }
  for (const cell of lane.cells) {
    const x = cellX(cell.x);
    pen.globalAlpha = Math.min(1, .35 + .65 * cell.b);
    pen.fillStyle = colourOf(cell.g);
    pen.fillRect(x, y + 3, Math.max(1, cellX(cell.x + cell.w) - x), WORKER - 6);
    pen.globalAlpha = 1;
    if (cell.f) {
      pen.fillStyle = red;
      pen.fillRect(x, y + WORKER - 4, Math.max(2, cellX(cell.x + cell.w) - x), 3);
    }
  }
  for (const bar of lane.bars) {
    const x = xOf(bar.s), width = Math.max(1, xOf(bar.e) - x - .5);
    pen.fillStyle = colourOf(bar.g);
    pen.globalAlpha = bar.o === "running" ? .6 : 1;
    pen.fillRect(x, y + 2, width, WORKER - 4);
    pen.globalAlpha = 1;
    if (bar.o === "failed") {
      pen.fillStyle = red;
      pen.fillRect(x, y + WORKER - 5, width, 3);
    }
    if (bar === chosen?.bar) {
      pen.strokeStyle = text;
      pen.lineWidth = 2;
      pen.strokeRect(x - 1, y + 1, width + 2, WORKER - 2);
    }
  }
  for (const actor of lane.actors) {
    const x = Math.max(gutter(), xOf(actor.s)) + 3, room = xOf(actor.e) - x - 4;
    if (actor.n && room > 40 && !lane.bars.some(bar => xOf(bar.e) > x && xOf(bar.s) < x + 60)) {
      pen.fillStyle = faint;
      pen.fillText(actor.n, x, y + WORKER / 2, room);
    }
  }
}

// STEPS are distances of the axis's times, in ms.
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5];
function drawAxis(pen, w, h, { text, line }) {
  const room = Math.max(90, pen.measureText(clock(view.to)).width + 12);
  const step = STEPS.find(ms => ms / (view.to - view.from) * width() >= room) || STEPS.at(-1);
  pen.fillStyle = text;
  for (const at of window.rayHistory.ticks(view.from, view.to, step, window.rayHistory.zone())) {
    const x = xOf(at);
    pen.fillText(clock(at), x + 3, AXIS / 2);
    pen.fillStyle = line;
    pen.fillRect(x, 0, 1, h);
    pen.fillStyle = text;
  }
  pen.fillStyle = line;
  pen.fillRect(0, AXIS - 1, w, 1);
}

function drawMarks(pen, h, { red, orange, faint }) {
  for (const mark of marks) {
    if (mark.at < view.from || mark.at > view.to) continue;
    const x = xOf(mark.at);
    pen.fillStyle = { error: red, warning: orange }[mark.severity] || faint;
    pen.globalAlpha = .5;
    pen.fillRect(x - .5, AXIS, 1, h);
    pen.globalAlpha = 1;
    pen.beginPath();
    pen.moveTo(x - 5, AXIS + 2);
    pen.lineTo(x + 5, AXIS + 2);
    pen.lineTo(x, AXIS + 12);
    pen.fill();
  }
}

// --- What is at a place

function at(x, y) {
  if (y < AXIS + MARKS && y >= AXIS && marks.length) {
    const mark = marks.find(m => Math.abs(xOf(m.at) - x) < 7);
    if (mark) return { mark };
  }
  const row = placed.find(r => y + box.scrollTop >= r.y && y + box.scrollTop < r.y + r.height && y > AXIS);
  if (!row || !data) return null;
  if (x < gutter()) return { node: row.node };
  const time = timeOf(x), near = 2 * (view.to - view.from) / width();
  if (row.lane) {
    const hit = list => list.find(bar => time >= bar.s && time <= bar.e) || list.find(bar => time >= bar.s - near && time <= bar.e + near);
    const bar = hit(row.lane.bars);
    if (bar) return { bar, row };
    const cell = cellAt(row.lane.cells, time);
    if (cell) return { cell, row };
    const actor = hit(row.lane.actors);
    return actor ? { actor, row } : null;
  }
  if (row.node.lost && Math.abs(xOf(row.node.end) - x) < 8) return { node: row.node, lost: true };
  const cell = cellAt(row.node.cells, time);
  return cell && { cell, row };
}

function cellAt(cells, time) {
  const x = (time - data.from) / (data.to - data.from) * data.pixels;
  return cells.find(cell => x >= cell.x && x < cell.x + cell.w);
}

const lasting = ms => (ms < 1000 ? `${ms.toFixed(ms < 10 ? 2 : 0)} ms` : ms < 120000 ? `${(ms / 1000).toFixed(2)} s` : `${(ms / 60000).toFixed(1)} min`);

function textOf(hit) {
  if (!hit) return "";
  const { bar, cell, actor, mark, node } = hit;
  if (mark) return `${mark.title}, ${clock(mark.at)}`;
  if (bar) return `${data.groups[bar.g].name}${bar.o ? `, ${bar.o}` : ""}: ${lasting(bar.e - bar.s)} from ${clock(bar.s)}, task ${bar.id}`;
  if (actor) return `Actor ${actor.n || ""} ${actor.id}, ${lasting(actor.e - actor.s)} from ${clock(actor.s)}`;
  if (cell) return `${plural(cell.n || 0, "attempt")} began here${cell.f ? `, ${number(cell.f)} failed` : ""}; ${cell.b} ran at a time` + (hit.row.lane ? `, mostly ${data.groups[cell.g]?.name}` : "");
  return hit.lost ? `${node.name} was lost: ${node.lost}` : `${node.name}: click to see its workers alone`;
}

function act(hit) {
  if (!hit) return;
  const { bar, cell, actor, mark, node } = hit;
  if (mark) location.href = mark.href;
  else if (bar) location.href = taskPage(bar.id);
  else if (actor) location.href = "./#/actors/" + actor.id;
  else if (cell) {
    const from = data.from + cell.x * (data.to - data.from) / data.pixels, to = data.from + (cell.x + cell.w) * (data.to - data.from) / data.pixels;
    look(from - (to - from), to + (to - from));
  } else if (hit.lost) location.href = "./#/cluster/nodes/" + node.id;
  else if (node?.id) { nodes.value = nodes.value ? "" : node.id; choose(); }
}

const bars = () => placed.flatMap(row => (row.lane ? row.lane.bars.map(bar => ({ bar, row })) : []));

function pick(by) {
  const all = bars();
  if (!all.length) return;
  const now = all.findIndex(hit => hit.bar === chosen?.bar), next = now < 0 ? (by > 0 ? 0 : all.length - 1) : (now + by + all.length) % all.length;
  chosen = all[next];
  const y = chosen.row.y - box.scrollTop;
  if (y < AXIS + MARKS || y + WORKER > box.clientHeight) box.scrollTop = chosen.row.y - box.clientHeight / 2;
  picked.textContent = textOf(chosen);
  draw();
}

// --- What people do

drawing.hidden = false;
const given = new URLSearchParams(location.search);
if ([...colour.options].some(option => option.value === given.get("colour"))) colour.value = given.get("colour");
if (given.get("node_id")) nodes.add(new Option(given.get("node_id").slice(0, 8), given.get("node_id"), true, true));
for (const select of [colour, nodes]) select.addEventListener("change", choose);
addEventListener("resize", () => { draw(); clearTimeout(asked); asked = setTimeout(ask, 300); });
box.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
const deeds = { in: () => zoom(.5), out: () => zoom(2), left: () => pan(-.5), right: () => pan(.5), all: () => look(whole.from, whole.to) };
for (const button of page.querySelectorAll("[data-do]")) button.addEventListener("click", () => view && deeds[button.dataset.do]());

const where = event => { const r = box.getBoundingClientRect(); return [event.clientX - r.left, event.clientY - r.top]; };
let drag = null;
box.addEventListener("pointerdown", event => {
  const [x, y] = where(event);
  if (event.button || !view || x > box.clientWidth) return;
  drag = { x, y, moved: false };
  if (event.pointerType === "mouse") box.setPointerCapture(event.pointerId);
});
box.addEventListener("pointermove", event => {
  if (!view) return;
  const [x, y] = where(event);
  if (!drag || event.pointerType !== "mouse") {
    const hit = at(x, y);
    box.style.cursor = hit ? "pointer" : "crosshair";
    picked.textContent = textOf(hit || chosen);
    return;
  }
  drag.moved ||= Math.abs(x - drag.x) > 4;
  if (!drag.moved) return;
  const from = Math.max(gutter(), Math.min(x, drag.x)), to = Math.min(box.clientWidth, Math.max(x, drag.x));
  brush.hidden = false;
  Object.assign(brush.style, { left: from + "px", width: to - from + "px", top: box.scrollTop + "px", height: box.clientHeight + "px" });
  drag.range = [from, to];
});
box.addEventListener("pointerup", event => {
  brush.hidden = true;
  if (drag?.moved && drag.range?.[1] > drag.range[0]) look(timeOf(drag.range[0]), timeOf(drag.range[1]));
  else if (drag) act(at(...where(event)));
  drag = null;
});
box.addEventListener("pointercancel", () => { drag = null; brush.hidden = true; });
box.addEventListener("wheel", event => {
  if (!view) return;
  const scrolls = box.scrollHeight > box.clientHeight;
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / width());
  else if (event.ctrlKey || event.metaKey || !scrolls) zoom(Math.exp(Math.max(-100, Math.min(100, event.deltaY)) / 250), timeOf(Math.max(gutter(), where(event)[0])));
  else return;
  event.preventDefault();
}, { passive: false });
box.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || !view) return;
  const deed = {
    "+": deeds.in, "=": deeds.in, "-": deeds.out, ArrowLeft: deeds.left, ArrowRight: deeds.right, 0: deeds.all,
    n: () => pick(1), p: () => pick(-1), Enter: () => act(chosen), Escape: () => { chosen = null; picked.textContent = ""; draw(); },
  }[event.key];
  if (!deed) return;
  event.preventDefault();
  deed();
});
const repaint = () => { draw(); if (data) describe(); };
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ["data-theme"] }); // Settings
addEventListener("rayhistoryzone", repaint);
ask();
