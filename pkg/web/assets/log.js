// The log viewer. The page that the server sends has a part of the log; this script adds the parts before and after it as one scrolls, and
// takes out those that are far away, so that a page of any log stays small. It also searches within the log, and selects ranges of lines.
const log = document.querySelector(".log"), lines = document.querySelector(".lines"), only = document.querySelector(".only");
const [state, onlyBox, wrapBox, counting, rangeText, copyButton, rangeFile] =
  ["state", "only", "wrap", "counting", "range", "copy", "file"].map(name => document.querySelector(`[data-${name}]`));
const form = log.querySelector("form.within"), field = name => form.elements[name], slider = log.querySelector(".place input");
const of = { node_id: field("node_id").value, file: field("file").value };
const LINES = 250; // of a part
const KEEP = 2000; // lines that the page has at a time
const MATCHES = 10000; // of a search that are kept

const { ask, records } = window.rayHistory;
const query = (...all) => new URLSearchParams(Object.entries(Object.assign({}, of, ...all)));
const pause = ms => new Promise(resolve => setTimeout(resolve, ms));
const say = text => { state.textContent = text; };
const count = (n, thing) => `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`;

// --- Parts of the log

let parts = [], size = Number(lines.dataset.size), opened = 0, adding = false;

// partOf makes a part of lines of a page: {element, start, end} with offsets in the log.
function partOf(from) {
  const element = document.createElement("div"), { start, end } = from.dataset;
  element.append(...from.children);
  return { element, start: Number(start), end: Number(end) };
}

// load gets the part at a place: {offset}, {near}, {line}, {until} or {end}. The lines before a line may be counted for
// minutes, so that is asked for until it is there.
async function load(place) {
  const answer = await ask("log?" + query({ lines: LINES }, place), { waiting: say, tries: place.line ? Infinity : undefined });
  const from = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(".lines");
  if (!from) throw new Error("What was answered is no part of the log. Reload the page.");
  size = Number(from.dataset.size);
  return partOf(from);
}

// open shows the part at a place instead of those that are shown.
async function open(place) {
  const mine = ++opened;
  try {
    const part = await load(place);
    if (mine !== opened) return;
    lines.replaceChildren(part.element);
    parts = [part];
    counting?.remove();
    dress();
    const at = part.element.querySelector(".shown");
    if (place.end) lines.scrollTop = lines.scrollHeight;
    else if (at) centre(at);
    else lines.scrollTop = 0;
    fill();
  } catch (error) {
    say(error.message);
  }
}

// add puts the part before or after those that are shown, and takes out the farthest one.
async function add(before) {
  if (adding) return;
  adding = true;
  const mine = opened, beside = before ? parts[0] : parts.at(-1);
  try {
    const part = await load(before ? { until: beside.start } : { offset: beside.end });
    if (mine !== opened || (before ? part.start >= beside.start : part.end <= beside.end)) return;
    part.element.querySelector(".shown")?.classList.remove("shown");
    steady(() => {
      if (before) {
        lines.prepend(part.element);
        parts.unshift(part);
      } else {
        lines.append(part.element);
        parts.push(part);
      }
      const lineCount = () => parts.reduce((sum, p) => sum + p.element.children.length, 0);
      while (parts.length > 2 && lineCount() > KEEP) (before ? parts.pop() : parts.shift()).element.remove();
      dress();
    });
  } catch (error) {
    say(error.message);
    await pause(2000); // then scrolling asks again
    return;
  } finally {
    adding = false;
  }
  fill();
}

// steady changes the page, and what is seen stays where it is.
function steady(change) {
  const box = lines.getBoundingClientRect();
  const inSight = line => line && line.getBoundingClientRect().bottom > box.top && line.getBoundingClientRect().top < box.bottom;
  const line = [lines.querySelector(".in"), lines.querySelector(".shown"), firstSeen()].find(inSight);
  const top = line?.getBoundingClientRect().top;
  change();
  if (line?.isConnected) lines.scrollTop += line.getBoundingClientRect().top - top;
}

// fill adds what comes into sight soon.
function fill() {
  if (!parts.length || lines.hidden) return;
  const soon = 2 * lines.clientHeight;
  if (lines.scrollTop < soon && parts[0].start > 0) add(true);
  else if (lines.scrollHeight - lines.scrollTop - lines.clientHeight < soon && parts.at(-1).end < size) add(false);
}

// dress does to lines what new ones lack: numbers, marks of the range and of what was searched.
function dress() {
  number();
  markRange();
  highlight();
  place();
}

const numberOf = line => Number(line?.id.slice(1)) || 0;

// number gives numbers to lines that came while those before them were not counted yet.
function number() {
  const from = parts.findIndex(part => numberOf(part.element.firstElementChild));
  if (from < 0) return countOn();
  let first = numberOf(parts[from].element.firstElementChild);
  for (const part of parts.slice(0, from).reverse()) setNumbers(part, first -= part.element.children.length);
  first = numberOf(parts[from].element.firstElementChild);
  for (const part of parts.slice(from)) {
    if (!numberOf(part.element.firstElementChild)) setNumbers(part, first);
    first += part.element.children.length;
  }
}

function setNumbers(part, first) {
  for (const [i, line] of [...part.element.children].entries()) {
    line.id = "L" + (first + i);
    line.prepend(numberLink(first + i));
  }
}

function numberLink(n) {
  const link = document.createElement("a");
  Object.assign(link, { className: "number", href: "#L" + n, textContent: n, ariaLabel: "Line " + n });
  return link;
}

async function countOn() {
  const part = parts[0], mine = opened;
  if (!part?.element.querySelector(".line")) return;
  await pause(1000);
  let again;
  try {
    again = await load({ offset: part.start, lines: 1 });
  } catch (error) {
    say(error.message);
    if (error.final) return;
    await pause(5000);
    return void number();
  }
  if (mine !== opened || parts[0] !== part) return void number();
  const first = numberOf(again.element.firstElementChild);
  steady(() => {
    if (first) {
      setNumbers(part, first);
      counting?.remove();
    }
    number();
    markRange();
  });
}

// --- Where one is

function centre(line) {
  const box = lines.getBoundingClientRect(), at = line.getBoundingClientRect();
  lines.scrollTop += at.top - box.top - Math.max(0, box.height - at.height) / 2;
}

// firstSeen is the line at the top.
function firstSeen() {
  const top = lines.getBoundingClientRect().top;
  const part = parts.find(p => p.element.getBoundingClientRect().bottom > top);
  return part && [...part.element.children].find(line => line.getBoundingClientRect().bottom > top);
}

let sliding = false;
function place() {
  if (sliding || !parts.length) return;
  const top = lines.getBoundingClientRect().top, part = parts.find(p => p.element.getBoundingClientRect().bottom > top) || parts.at(-1);
  const box = part.element.getBoundingClientRect(), share = box.height ? Math.max(0, top - box.top) / box.height : 0;
  const atEnd = parts.at(-1).end >= size && lines.scrollHeight - lines.scrollTop - lines.clientHeight < 2;
  slider.value = atEnd ? 1000 : Math.round(1000 * (part.start + share * (part.end - part.start)) / Math.max(1, size));
  slider.ariaValueText = `${(slider.value / 10).toFixed(1)} % of the log`;
}

function jump(share) {
  return open(share <= 0 ? { offset: 0 } : share >= 1 ? { end: 1 } : { near: Math.max(1, Math.round(size * share)) });
}

// show leads to a line by its number, and selects it.
async function show(n) {
  onlyBox.checked = false;
  toggleOnly();
  select(n, n);
  if (!document.getElementById("L" + n)) await open({ line: n });
  const line = document.getElementById("L" + n);
  if (line) centre(line);
  fill();
}

// --- Ranges of lines, #L10-L20

let range = null; // [first, last]

function readRange() {
  const [, from, to] = location.hash.match(/^#L(\d+)(?:-L(\d+))?$/) || [];
  if (!from) return null;
  const ends = [Number(from), Number(to || from)];
  return [Math.min(...ends), Math.max(...ends)];
}

function select(from, to) {
  range = from ? [Math.min(from, to), Math.max(from, to)] : null;
  const page = new URL(location.href);
  for (const name of ["offset", "near", "time", "end", "line"]) page.searchParams.delete(name);
  if (range) page.searchParams.set("line", range[0]);
  page.hash = range ? "L" + range[0] + (range[1] > range[0] ? "-L" + range[1] : "") : "";
  history.replaceState(null, "", page);
  markRange();
}

function markRange() {
  for (const part of parts) for (const line of part.element.children) {
    const n = numberOf(line);
    line.classList.toggle("in", !!range && n >= range[0] && n <= range[1]);
  }
  rangeText.parentElement.hidden = !range;
  if (!range) return;
  rangeText.textContent = range[1] > range[0] ? `Lines ${range[0]} to ${range[1]}` : `Line ${range[0]}`;
  rangeFile.href = "api/history/log.txt?" + query({ line: range[0], to: range[1] });
}

async function copy() {
  if (range[1] - range[0] >= 20000) return say("More than 20,000 lines: download them.");
  try {
    const answer = await ask(rangeFile.href, { waiting: say });
    await navigator.clipboard.writeText(await answer.text());
    say("Copied.");
  } catch (error) {
    say("Not copied: " + error.message);
  }
}

// --- Search within the log

let search = { found: [], lines: [], wanted: null, end: {} }, errors = null, searching = null;

const exact = name => name.replace(/[[*?]/g, "[$&]"); // of a pattern of names

// find adds the matching lines to a result, and calls onProgress now and then. Of lines that follow one another, such as those of a
// traceback, it keeps only the first if firsts is set.
async function find(result, signal, onProgress = () => {}, firsts = false) {
  const { wanted } = result;
  let lastCall = 0, last = 0; // last is the number of the line before
  await records("api/history/search?" + new URLSearchParams({ ...wanted, node_id: of.node_id, file: exact(of.file), limit: MATCHES, timeout: 600 }), record => {
    if (record.type === "match" && record.file === of.file) {
      if (!firsts) result.found.push(record);
      if (!firsts || record.line !== last + 1) result.lines.push(record.line);
      last = record.line;
    } else if (record.type === "end") result.end = record;
    if (performance.now() - lastCall > 300) { lastCall = performance.now(); onProgress(); }
  }, { signal, waiting: say });
  result.end ||= {}; // it was cut
}

const resultOf = wanted => ({ found: [], lines: [], wanted, end: null });

function wantedOf() {
  const wanted = {};
  for (const name of ["q", "level"]) if (field(name).value) wanted[name] = field(name).value;
  for (const name of ["regexp", "ignore_case"]) if (field(name).checked) wanted[name] = "true";
  return wanted.q || wanted.level ? wanted : null;
}

// run searches as the form says, and leads to the next match unless it is to stay.
async function run(stay) {
  searching?.abort();
  const mine = searching = new AbortController(), wanted = wantedOf(), page = new URL(location.href);
  for (const name of ["q", "level", "regexp", "ignore_case"]) page.searchParams.delete(name);
  for (const [name, value] of Object.entries(wanted || {})) page.searchParams.set(name, value);
  history.replaceState(null, "", page);
  const result = search = resultOf(wanted);
  drawOnly(true);
  highlight();
  if (!wanted) {
    result.end = {};
    return say("");
  }
  say("Searching…");
  const from = range ? range[0] - 1 : numberOf(firstSeen()) - 1;
  let stepped = stay || onlyBox.checked;
  const shown = () => {
    if (!stepped && result.lines.some(n => n > from)) stepped = step(result, 1, from);
    else tell();
    drawOnly();
  };
  try {
    await find(result, mine.signal, shown);
    shown();
    highlight();
  } catch (error) {
    result.end = {};
    if (error.name !== "AbortError") say(error.message);
  }
}

function tell() {
  const { lines: all, end, at } = search, more = end && end.matches > all.length ? ` (the first of ${end.matches.toLocaleString("en")})` : "";
  const cut = end?.why?.some(reason => reason !== "lines") ? " Not all of the log was searched." : "";
  say((at ? `${at.toLocaleString("en")} of ` : "") + count(all.length, "matching line") + more + (end ? "." : " so far…") + cut);
}

// step leads to the next match of a result (search or errors) after a line (by 1) or before it (by -1); without one, from the selected line
// or the first in sight. It waits for matches that are still searched.
let steps = 0;
async function step(result, by, from = range ? range[0] : numberOf(firstSeen()) - (by > 0 ? 1 : 0)) {
  const mine = ++steps, all = result.lines, isSearch = result === search;
  const next = () => (by > 0 ? all.findIndex(n => n > from) : all.findLastIndex(n => n < from));
  while (!result.end && (by > 0 ? next() < 0 : !(all.at(-1) >= from))) {
    await pause(50);
    if (mine !== steps) return;
  }
  const i = next();
  if (i < 0) return say(all.length ? `No ${isSearch ? "match" : "error"} ${by > 0 ? "after" : "before"} this line.` : `No ${isSearch ? "matching line" : "error"} in this log.`);
  show(all[i]);
  result.at = i + 1;
  if (isSearch) tell();
  else say(`Error ${i + 1} of ${all.length}${result.end ? "" : " so far"}`);
}

function stepError(by) {
  if (!errors || errors.end?.why?.some(reason => reason !== "lines")) { // also if it ended because others waited
    say("Looking for errors…");
    const result = errors = resultOf({ level: "error" });
    find(result, undefined, undefined, true).catch(error => {
      errors = null;
      result.end = {};
      say(error.message);
    });
  }
  return step(errors, by);
}

// highlight marks the searched text in the lines that match.
function highlight() {
  if (!window.Highlight) return;
  CSS.highlights.delete("found");
  const { q, regexp, ignore_case } = search.wanted || {};
  if (!q) return;
  let pattern;
  try {
    pattern = new RegExp(regexp ? q : q.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"), ignore_case ? "gi" : "g");
  } catch { return; } // the server's expressions are others
  const matching = new Set(search.lines), ranges = [];
  for (const line of log.querySelectorAll(".line")) {
    if (!matching.has(numberOf(line) || Number(line.dataset.line))) continue;
    const texts = document.createTreeWalker(line.querySelector(".text"), NodeFilter.SHOW_TEXT);
    for (let text; (text = texts.nextNode());) for (const match of text.data.matchAll(pattern)) {
      if (!match[0] || ranges.length > 5000) break;
      const part = new Range();
      part.setStart(text, match.index);
      part.setEnd(text, match.index + match[0].length);
      ranges.push(part);
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}

// drawOnly draws more of the matching lines, as one scrolls.
function drawOnly(anew) {
  if (anew) only.replaceChildren();
  if (only.hidden) return;
  const drawn = only.children.length;
  if (drawn >= search.found.length || drawn && only.scrollHeight - only.scrollTop - only.clientHeight > 2 * only.clientHeight) return;
  for (const { line, text, level } of search.found.slice(drawn, drawn + LINES)) {
    const element = document.createElement("div"), shown = document.createElement("span");
    element.className = "line";
    element.dataset.line = line;
    shown.className = "text" + (level ? " level-" + level : "");
    shown.textContent = text;
    element.append(numberLink(line), shown);
    only.append(element);
  }
  highlight();
}

function toggleOnly() {
  only.hidden = !onlyBox.checked;
  lines.hidden = onlyBox.checked;
  drawOnly();
}

// --- What people do

log.classList.add("scrolls");
for (const hidden of log.querySelectorAll(".live, .place")) hidden.hidden = false;
copyButton.hidden = !navigator.clipboard; // there is none without HTTPS
field("q").required = false;

const settle = () => { fill(); place(); };
lines.addEventListener("scroll", () => requestAnimationFrame(settle), { passive: true });
only.addEventListener("scroll", () => drawOnly(), { passive: true });
form.addEventListener("submit", event => {
  event.preventDefault();
  if (search.wanted && JSON.stringify(search.wanted) === JSON.stringify(wantedOf())) return void step(search, 1);
  if (!field("q").value && field("level").value) onlyBox.checked = true;
  toggleOnly();
  run();
});
field("q").addEventListener("keydown", event => {
  if (event.key !== "Enter" || !event.shiftKey) return;
  event.preventDefault();
  step(search, -1);
});
field("level").addEventListener("change", () => form.requestSubmit());
onlyBox.addEventListener("change", toggleOnly);
const grow = () => log.style.setProperty("--above", `${document.querySelector(".along").getBoundingClientRect().bottom + scrollY + 44}px`);
addEventListener("resize", grow);
const wrap = () => log.classList.toggle("nowrap", !wrapBox.checked);
wrapBox.addEventListener("change", () => {
  wrap();
  try { localStorage.setItem("log-wrap", wrapBox.checked); } catch {}
});
slider.addEventListener("input", () => { sliding = true; });
slider.addEventListener("change", () => jump(slider.value / 1000).then(() => { sliding = false; }));
copyButton.addEventListener("click", copy);
log.querySelector("[data-clear]").addEventListener("click", () => select());
for (const button of log.querySelectorAll("[data-step]")) button.addEventListener("click", () => step(search, Number(button.dataset.step)));
for (const button of log.querySelectorAll("[data-error]")) button.addEventListener("click", () => stepError(Number(button.dataset.error)));
log.addEventListener("click", event => {
  const link = event.target.closest("a.number");
  if (!link || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const n = Number(link.textContent);
  if (only.contains(link)) show(n);
  else {
    select(event.shiftKey && range ? range[0] : n, n);
    const line = link.closest(".line"), at = line.getBoundingClientRect(), sight = lines.getBoundingClientRect();
    if (at.bottom < sight.top || at.top > sight.bottom) centre(line); // it was not clicked with a pointer
  }
});
addEventListener("hashchange", () => { if ((range = readRange())) show(range[0]).then(() => { range = readRange(); markRange(); }); });
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input:not([type=checkbox]):not([type=range]), select, textarea")) return;
  const act = {
    "/": () => field("q").focus(), g: () => log.querySelector("input[name=line]").focus(),
    n: () => step(search, 1), N: () => step(search, -1), e: () => stepError(1), E: () => stepError(-1),
    w: () => wrapBox.click(), Escape: () => select(),
    Home: () => jump(0), End: () => jump(1),
  }[event.key];
  if (!act || (event.key === "Home" || event.key === "End") && event.target !== lines) return;
  event.preventDefault();
  act();
});

// The page's own part is the first one. An address names a line, a range or the end; without one, the line that was asked for is shown.
try { wrapBox.checked = localStorage.getItem("log-wrap") !== "false"; } catch {}
wrap();
grow();
{
  const first = partOf(lines);
  if (first.element.querySelector(".line")) {
    lines.append(first.element);
    parts = [first];
  } else lines.append(...first.element.children);
  range = readRange();
  const asked = location.hash === "#end" ? null : range && document.getElementById("L" + range[0]);
  dress();
  if (range && !asked && new URL(location.href).searchParams.get("line") !== String(range[0])) open({ line: range[0] });
  else if (asked || !location.hash || location.hash === "#end") {
    const at = asked || lines.querySelector(".shown");
    if (at) centre(at);
  }
  if (location.hash === "#end") document.getElementById("end").scrollIntoView({ block: "end" });
  else if (location.hash || lines.querySelector(".shown")) lines.scrollIntoView({ block: "nearest" });
  fill();
  if (wantedOf()) run(true);
}
