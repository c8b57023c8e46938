// Searches as the form says and shows what is found as it comes. The address is that of the search, so it can be shared.
const form = document.querySelector("[data-search]"), root = document.querySelector("[data-root]").dataset.root;
const [state, files, found, stop] = ["state", "files", "found", "stop"].map(name => document.querySelector(`[data-${name}]`));
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
  query.set("file_limit", "200");
  files.replaceChildren();
  found.replaceChildren();
  state.className = "";
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  form.querySelector(".wrong")?.remove();
  state.textContent = "Searching…";
  stop.hidden = false;
  try {
    const answer = await fetch("api/history/search?" + query, { signal: mine.signal, headers: { Accept: "application/x-ndjson" } });
    if (!answer.ok) throw new Error((await answer.json()).msg);
    await read(answer.body, show);
  } catch (error) {
    if (mine === running) state.textContent = error.name === "AbortError" ? "Stopped. " + state.textContent : String(error.message);
  }
  if (mine === running) stop.hidden = true;
}

// read gives each line of JSON of a stream to use.
async function read(stream, use) {
  let rest = "";
  const text = stream.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await text.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) use(JSON.parse(line));
  }
}

function show(record) {
  switch (record.type) {
    case "match": found.append(matchItem(record)); break;
    case "file": files.append(fileItem(record)); break;
    case "progress":
      state.textContent = `Searching: ${count(record.matches, "matching line")} in ${record.files} of ${record.of} logs, ${size(record.bytes)}`;
      break;
    case "end": {
      const why = { lines: "more lines match than are shown", time: "the time was over", bytes: "too much was to be read", others: "others waited for their searches, so search fewer logs at once or try again", damage: "not all could be read" };
      const limits = (record.why || []).map(reason => why[reason] || reason);
      if (record.undated) limits.push(`${record.undated} lines say no time`);
      if (record.unlevelled) limits.push(`${record.unlevelled} lines say no level`);
      state.textContent = `${count(record.matches, "matching line")}, ${record.reported} shown. ${count(record.files, "log")}, ${size(record.bytes)} in ${record.seconds.toFixed(1)} s.` +
        (limits.length ? ` Not complete: ${limits.join("; ")}.` : "");
    }
  }
}

function matchItem({ node_id, file, line, text, match, length, before = [], after = [], link }) {
  const bytes = new TextEncoder().encode(text), part = (from, to) => new TextDecoder().decode(bytes.slice(from, to));
  const shown = make("span", { class: "text" }, part(0, match[0]), make("mark", {}, part(...match)), part(match[1]));
  if (length) shown.append(make("span", { class: "faint" }, ` … of a line of ${length} bytes`));
  const beside = lines => lines.map(other => make("div", { class: "faint text" }, other));
  return make("li", {}, make("a", { href: root + link, title: `${file} of node ${node_id}` }, `${file}:${line}`), ...beside(before), make("div", {}, shown), ...beside(after));
}

function fileItem({ node_id, file, matches, problem }) {
  const link = "log?" + new URLSearchParams({ node_id, file });
  const item = make("li", {}, make("a", { href: link, title: "node " + node_id }, file), ` ${matches}`);
  if (problem) item.append(make("span", { class: "faint" }, ` – not all of it was searched: ${problem}`));
  return item;
}

function count(n, thing) { return `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`; }

function size(bytes) {
  for (const [unit, name] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) if (bytes >= unit) return (bytes / unit).toFixed(1) + " " + name;
  return bytes + " bytes";
}

form.addEventListener("submit", event => { event.preventDefault(); search(); });
stop.addEventListener("click", () => running?.abort());
if (new URLSearchParams(location.search).has("q") && !state.textContent) search(); // unless the page says what is wrong with the query
