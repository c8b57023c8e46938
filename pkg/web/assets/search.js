// Searches as the form says and shows what is found as it comes. The address is that of the search, so it can be shared.
const form = document.querySelector("[data-search]"), root = document.querySelector("[data-root]").dataset.root;
const [state, found, stop] = ["state", "found", "stop"].map(name => document.querySelector(`[data-${name}]`));
let running = null;

const make = (tag, attributes, ...children) => {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
};

async function search() {
  running?.abort();
  const mine = running = new AbortController(), query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value && !(name === "context" && value === "0")) query.set(name, value);
  history.replaceState(null, "", "?" + query);
  query.delete("plain");
  query.set("file_limit", "200");
  query.set("writers", "true");
  groups.clear();
  sorted.length = 0;
  found.replaceChildren();
  found.parentElement.hidden = true;
  document.querySelector("[data-logs]")?.remove();
  state.className = "";
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  form.querySelector(".wrong")?.remove();
  state.textContent = "Searching…";
  stop.hidden = false;
  try {
    const waiting = why => { state.textContent = why; };
    await window.rayHistory.records("api/history/search?" + query, show, { signal: mine.signal, waiting });
  } catch (error) {
    if (mine === running && error.name === "AbortError") state.textContent = "Stopped. " + state.textContent;
    else if (mine === running) {
      state.textContent = error.message;
      state.className = "wrong";
    }
  }
  if (mine === running) stop.hidden = true;
}

function show(record) {
  switch (record.type) {
    case "match": groupOf(record).add(record); break;
    case "file": groupOf(record).close(record); break;
    case "progress":
      state.textContent = `Searching: ${count(record.matches, "matching line")} in ${record.files} of ${record.of} logs, ${size(record.bytes)}`;
      break;
    case "end": {
      const why = { lines: "more lines match than are shown", time: "the time was over", bytes: "too much was to be read", others: "others waited for their searches, so search fewer logs at once or try again", damage: "not all could be read" };
      const limits = (record.why || []).map(reason => why[reason] || reason);
      if (record.undated) limits.push(`${count(record.undated, "line")} without a time`);
      state.textContent = `${count(record.matches, "matching line")}, ${record.reported} shown. ${count(record.files, "log")}, ${size(record.bytes)} in ${record.seconds.toFixed(1)} s.` +
        (limits.length ? ` Not complete: ${limits.join("; ")}.` : "");
      if (record.unlevelled) {
        const n = record.unlevelled, all = new URLSearchParams(location.search);
        all.delete("level");
        state.append(` ${n.toLocaleString("en")} more matching ${n === 1 ? "line has" : "lines have"} no level (`, make("a", { href: "?" + all }, "show lines of any level"), ").");
      }
    }
  }
}

// A group is what was found in one log. Its lines are drawn when it is open: those of the first logs are.
const groups = new Map(), sorted = [], OPEN = 3;
const nodes = new Map([...form.elements.node_id.options].map(option => [option.value, option.textContent]));

// place puts a group where its log belongs among those that were found before. The first ones are open, and those that somebody opened.
function place(group) {
  const next = sorted.findIndex(other => other.order > group.order), at = next < 0 ? sorted.length : next;
  found.insertBefore(group.element, sorted[at]?.element || null);
  sorted.splice(at, 0, group);
  sorted.slice(0, OPEN + 1).forEach((each, i) => { if (!each.chosen) each.open(i < OPEN); });
}

function groupOf({ node_id, file, rank }) {
  const id = `${node_id}/${file}`, known = groups.get(id);
  if (known) return known;
  const node = nodes.get(node_id) || "node " + node_id.slice(0, 12), lines = [];
  const about = make("span", { class: "faint" }, node), number = make("span", { class: "chip" }, "0"), list = make("ol", { class: "found mono" });
  const details = make("details", {}, make("summary", {}, make("span", { class: "mono" }, file), " ", about, " ", number), list);
  let drawn = 0;
  const draw = () => {
    if (details.open && drawn < lines.length) list.append(...lines.slice(drawn).map(matchItem));
    if (details.open) drawn = lines.length;
  };
  details.addEventListener("toggle", draw);
  const element = make("div", { class: "hit" }, make("input", { type: "checkbox", name: "log", value: id, "aria-label": `Mark ${file} of ${node}` }), details);
  details.firstChild.addEventListener("click", () => { group.chosen = true; });
  const group = {
    element, order: `${rank} ${node_id} ${file}`, chosen: false,
    open(open) {
      details.open = open;
      if (!open) { drawn = 0; list.replaceChildren(); }
    },
    add(record) {
      number.textContent = lines.push(record).toLocaleString("en");
      draw();
    },
    close({ matches, writer, problem }) {
      number.textContent = matches.toLocaleString("en");
      if (writer) about.textContent = `${writer} · ${node}`;
      if (problem) details.append(make("p", { class: "faint" }, `Not all of this log was searched: ${problem}`));
      if (matches > lines.length) details.append(make("p", { class: "faint" }, `${lines.length} of ${matches.toLocaleString("en")} lines are shown. `, make("a", { href: "log?" + wanted(node_id, file) }, "Search in the log")));
    },
  };
  groups.set(id, group);
  place(group);
  found.parentElement.hidden = false;
  return group;
}

// wanted is this search, in one log.
function wanted(node_id, file) {
  const query = new URLSearchParams({ node_id, file });
  for (const name of ["q", "level", "regexp", "ignore_case"]) {
    const value = new FormData(form).get(name);
    if (value) query.set(name, value);
  }
  return query;
}

function matchItem({ line, text, match, length, before = [], after = [], link }) {
  const bytes = new TextEncoder().encode(text), part = (from, to) => new TextDecoder().decode(bytes.slice(from, to));
  const shown = make("span", { class: "text" }, part(0, match[0]), make("mark", {}, part(...match)), part(match[1]));
  if (length) shown.append(make("span", { class: "faint" }, ` … of a line of ${length} bytes`));
  const beside = lines => lines.map(other => make("div", { class: "faint text" }, other));
  return make("li", {}, make("a", { href: root + link, "aria-label": "Line " + line }, String(line)), ...beside(before), make("div", {}, shown), ...beside(after));
}

function count(n, thing) { return `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`; }

function size(bytes) {
  for (const [unit, name] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) if (bytes >= unit) return (bytes / unit).toFixed(1) + " " + name;
  return bytes + " bytes";
}

form.addEventListener("submit", event => { event.preventDefault(); search(); });
stop.addEventListener("click", () => running?.abort());
if (new URLSearchParams(location.search).has("q") && !state.textContent.trim()) search(); // unless the page says what is wrong with the query
