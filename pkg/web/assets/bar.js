// USAGE are the lines behind the slider, in percent.
const USAGE = {
  CPU: "avg(ray_node_cpu_utilization)",
  memory: "100 * sum(ray_node_mem_used) / sum(ray_node_mem_total)",
  GPU: "avg(ray_node_gpus_utilization)",
};

// The bar of a stored session. The dashboard's requests are relative to the page, so the slider only changes the segment at/{time} of the
// page's address: the dashboard's next requests are answered as of that moment.
customElements.define("ray-history-bar", class extends HTMLElement {
  connectedCallback() {
    const given = this.dataset;
    this.root = new URL(given.base, location.href);
    this.session = new URL(given.path, this.root);
    // The dashboard of a running cluster itself answers below this address: it knows nothing of what is stored.
    this.live = this.session.pathname.endsWith("/sessions/live/");
    this.from = Number(given.start);
    this.to = Number(given.end) || Date.now();
    this.at = this.atOfAddress();
    this.draw();
    this.show();
    document.body.style.paddingBottom = "40px";
    // Ray's pages are wider than a phone, whose browser would show all of the width and leave the bar below the screen.
    const viewport = document.querySelector("meta[name=viewport]");
    if (viewport) viewport.content += ",minimum-scale=1";
    // The dashboard's switch between light and dark changes style sheets in the head.
    new MutationObserver(() => this.matchTheme()).observe(document.head, { childList: true, subtree: true, characterData: true });
    this.matchTheme();
    addEventListener("popstate", () => { this.at = this.atOfAddress(); this.show(); });
    if (this.at !== null || sessionStorage.rayHistoryReplay || new URLSearchParams(location.search).has("replay")) this.open(true);
    if (!this.live) this.explain();
    this.listWarnings();
    this.listLostNodes();
    this.watchTables();
    this.watchRemoval();
  }

  // matchTheme makes the bar dark if the page is: if its background is set and nearer to black than to white (3 × 255).
  matchTheme() {
    const [r, g, b] = (getComputedStyle(document.body).backgroundColor.match(/\d+/g) || [255, 255, 255]).map(Number);
    const opaque = !/, 0\)$/.test(getComputedStyle(document.body).backgroundColor);
    this.toggleAttribute("data-dark", opaque && r + g + b < 384);
  }

  atOfAddress() {
    const segment = location.pathname.match(/\/sessions\/[^/]+\/at\/([^/]+)\//);
    if (!segment) return null;
    const text = decodeURIComponent(segment[1]);
    const ms = /^\d+$/.test(text) ? Number(text) : Date.parse(text);
    return Number.isFinite(ms) ? ms : null;
  }

  draw() {
    const shadow = this.attachShadow({ mode: "open" });
    shadow.append(document.getElementById("ray-history-bar-style").content.cloneNode(true));
    const make = (tag, attributes = {}, ...children) => {
      const e = document.createElement(tag);
      for (const [name, value] of Object.entries(attributes)) name === "onclick" || name === "oninput" ? e[name] = value : e.setAttribute(name, value);
      e.append(...children);
      return e;
    };
    const { cluster, namespace, name } = this.dataset;
    this.logs = make("a", { hidden: "" }, "Logs side by side");
    this.when = make("span", { class: "faint when" });
    this.outcome = make("span", { class: "outcome" });
    const list = query => new URL("homepage" + (query ? "?" + new URLSearchParams(query) : ""), this.root).href;
    this.replayButton = make("button", { type: "button", "aria-expanded": "false", onclick: () => this.replay() }, "Replay");
    this.shareButton = make("button", { type: "button", title: "Copy a link to this page of this session", onclick: () => this.share() }, "Copy link");
    this.playButton = make("button", { type: "button", onclick: () => this.play(!this.timer) }, "Play");
    this.slider = make("input", { type: "range", min: 0, step: 1, "aria-label": "Moment of the session", oninput: () => this.preview() });
    this.slider.onchange = () => this.move(this.chosen());
    this.slider.addEventListener("keydown", event => this.key(event));
    // Held keys only move the slider: the dashboard is asked once, when they are released.
    this.slider.addEventListener("keyup", () => { if (this.pressed) { this.pressed = false; this.move(this.chosen()); } });
    this.axis = make("div", { class: "axis", "aria-hidden": "true" });
    this.track = make("div", { class: "track" }, this.slider, this.axis);
    this.time = make("span", { class: "time" });
    this.backButton = make("button", { type: "button", onclick: () => this.step(-1) }, "◀");
    this.onButton = make("button", { type: "button", onclick: () => this.step(1) }, "▶");
    this.cut = make("span", { class: "cut", role: "status", hidden: "" });
    this.removed = make("span", { class: "cut", role: "alert", hidden: "" }, "This session is no longer stored. The page shows what it had loaded.");
    this.findings = make("a", { href: new URL("findings", this.session).href, class: "findings", hidden: "" }, "Findings");
    const { kept, note } = this.dataset;
    this.kept = make("a", { href: new URL("note", this.session).href, class: "kept", title: note, ...(kept ? {} : { hidden: "" }) }, kept.charAt(0).toUpperCase() + kept.slice(1));
    this.warnings = make("details", { class: "menu warnings", hidden: "" });
    this.lostNodes = make("details", { class: "menu", hidden: "" });
    shadow.append(
      make("div", { class: "replay", role: "group", "aria-label": "Replay" },
        this.backButton, this.playButton, this.onButton, this.track, this.time, make("button", { type: "button", onclick: () => { this.play(false); this.move(null); } }, "To the end")),
      make("div", { class: "strip", role: "region", "aria-label": "Stored session" },
        make("nav", { class: "what", "aria-label": "Breadcrumb", title: `${cluster} in ${namespace}, ${name}` },
          make("a", { class: "up", href: list() }, "Clusters"), make("a", { class: "up", href: list({ namespace }) }, namespace), make("a", { href: list({ cluster, namespace }) }, make("b", {}, cluster))),
        this.outcome, this.when, this.removed, this.cut, this.findings, this.warnings, this.lostNodes, ...(this.live ? [] : [this.logs, this.pages(make)]), this.replayButton, this.kept, this.shareButton));
    this.showOutcome(this.dataset.outcome);
    this.writeTimes();
    // The zone is chosen in the dashboard, on our own pages, or is the cluster's, which is learned.
    for (const change of ["storage", "rayhistoryzone"]) addEventListener(change, () => this.writeTimes());
    document.addEventListener("click", () => setTimeout(() => this.writeTimes()));
    const narrow = matchMedia("(max-width: 1250px)"), phone = matchMedia("(max-width: 640px)");
    for (const width of [narrow, phone]) width.addEventListener("change", () => this.fold(narrow.matches, phone.matches));
    this.fold(narrow.matches, phone.matches);
    window.rayHistory.sheets(shadow);
  }

  // pages are the tabs of the session's own pages, and a menu that holds them where there is no room. Findings and Replay are already in the
  // bar, and the Ray Dashboard is the page shown.
  pages(make) {
    const tabs = JSON.parse(this.dataset.tabs).filter(tab => !["", "findings", "?replay=1"].includes(tab.Address));
    this.tabs = make("nav", { class: "tabs", "aria-label": "Pages of the session" }, ...tabs.map(tab => make("a", { href: new URL(tab.Address, this.session).href }, tab.Title)));
    this.menu = make("details", { class: "menu", hidden: "" }, make("summary", {}, "Pages"), make("div", {}));
    return this.menu;
  }

  // fold puts what the bar has no room for into its menu.
  fold(narrow, phone) {
    if (!this.menu) return;
    this.menu.hidden = !narrow;
    if (narrow) this.menu.querySelector("div").append(this.tabs, this.logs, this.kept, this.shareButton);
    else { this.menu.before(this.logs, this.tabs); this.replayButton.after(this.kept, this.shareButton); }
    if (phone) this.menu.querySelector("div").append(this.warnings, this.lostNodes);
    else this.findings.after(this.warnings, this.lostNodes);
  }

  showOutcome(outcome) {
    this.outcome.textContent = Number(this.dataset.end) ? outcome : "running";
    this.outcome.className = "outcome " + this.outcome.textContent;
  }

  // writeTimes says when the session began and ended, in the zone that was chosen for all pages.
  writeTimes() {
    const { name, unfinished } = this.dataset, start = Number(this.dataset.start), end = Number(this.dataset.end);
    const zone = window.rayHistory.zone();
    if (zone === this.zone) return;
    this.zone = zone;
    const when = end ? "ended " + stamp(end) : start ? "running since " + stamp(start) : "";
    const left = end && unfinished ? "; unfinished when it ended: " + unfinished : "";
    this.when.textContent = when;
    this.when.title = name + (start ? ", began " + stamp(start) : "") + (when && ", " + when) + left;
    this.show();
  }

  // watchRemoval shows when the session was removed from the store: the dashboard itself goes on showing what it has.
  watchRemoval() {
    new PerformanceObserver(requests => {
      for (const { initiatorType, name, responseStatus } of requests.getEntries()) {
        if (!/^(fetch|xmlhttprequest)$/.test(initiatorType) || new URL(name).origin !== location.origin) continue;
        if (responseStatus === 410 || responseStatus === 200) this.removed.hidden = responseStatus !== 410;
      }
    }).observe({ type: "resource", buffered: true });
  }

  // explain links to the page that says why the session, or the job whose page is shown, ended as it did.
  async explain() {
    this.found = (await this.ask("api/history/findings"))?.data;
    if (!this.found) return;
    this.showFindings();
    // The dashboard goes from page to page by itself, without an event.
    for (const name of ["pushState", "replaceState"]) {
      const change = history[name];
      history[name] = (...given) => { change.apply(history, given); this.showFindings(); };
    }
    for (const event of ["hashchange", "popstate"]) addEventListener(event, () => this.showFindings());
  }

  // shownJob is the job whose page the dashboard shows; undefined if it shows another page.
  shownJob() {
    const [, id] = location.hash.match(/^#\/jobs\/([^/?]+)/) || [];
    return id && this.found.jobs?.find(job => [job.job_id, job.submission_id].includes(decoded(id)));
  }

  // showLogs links to the logs of the task, the actor or the job whose page is shown, side by side.
  showLogs() {
    const [, kind, id] = location.hash.match(/^#\/(?:.*\/)?(tasks|actors|jobs)\/([^/?]+)/) || [];
    this.logs.hidden = !id;
    if (!id) return;
    const name = { tasks: "task_id", actors: "actor_id", jobs: /^[0-9a-f]{8}$/.test(id) ? "job_id" : "submission_id" }[kind];
    this.logs.href = new URL(`logs?${name}=${id}`, this.session).href;
  }

  showFindings() {
    this.showLogs();
    const job = this.shownJob(), name = job && (job.submission_id || job.job_id);
    const about = job ? new Set(job.findings) : null;
    const count = severity => this.found.findings.filter(f => f.severity === severity && (!about || about.has(f.id))).length;
    const errors = count("error"), warnings = count("warning");
    const { outcome, summary } = job || this.found;
    this.showOutcome(this.found.outcome);
    const counted = errors ? `: ${errors} ${errors === 1 ? "error" : "errors"}` : warnings ? `: ${warnings} ${warnings === 1 ? "warning" : "warnings"}` : "";
    const ended = { failed: " failed", unfinished: " did not end" }[outcome];
    const label = job ? (ended ? ["Why ", name, ended] : ["Findings of ", name, counted]) : [ended ? "Why it" + ended : "Findings" + counted];
    this.findings.replaceChildren(...label.map((text, i) => {
      const part = document.createElement("span");
      part.textContent = text;
      if (i === 1) part.className = "name";
      return part;
    }));
    this.findings.title = summary;
    this.findings.href = new URL("findings" + (job ? "?job_id=" + encodeURIComponent(name) : ""), this.session).href;
    this.findings.classList.toggle("errors", outcome === "failed" || errors > 0);
    this.findings.hidden = false;
  }

  // listWarnings shows the warnings about the session: the dashboard does not show those of its lists.
  async listWarnings() {
    const list = (await this.ask("api/v0/jobs?limit=1"))?.data.result.warnings || [];
    this.fill(this.warnings, list.length === 1 ? "1 warning" : `${list.length} warnings`, list.map(warning => {
      const line = document.createElement("span");
      line.textContent = warning;
      return line;
    }));
  }

  // listLostNodes links to the logs of dead nodes: the dashboard's Logs page offers only living nodes.
  async listLostNodes() {
    const nodes = (await this.ask("nodes?view=summary"))?.data.summary || [];
    const lost = nodes.filter(node => node.raylet.state === "DEAD");
    this.fill(this.lostNodes, `Logs of dead nodes (${lost.length})`, lost.map(({ ip, raylet }) => {
      const link = document.createElement("a");
      link.href = "#/logs/?nodeId=" + encodeURIComponent(raylet.nodeId);
      link.title = raylet.stateMessage || "";
      link.textContent = `${ip} (${raylet.nodeId.slice(0, 8)})`;
      link.onclick = () => { this.lostNodes.open = false; };
      return link;
    }));
  }

  // ask gives an answer about the session; null if there is none.
  ask(path) { return window.rayHistory.json(new URL(path, this.session)).catch(() => null); }

  // fill makes a menu of items. Without items it stays hidden.
  fill(menu, title, items) {
    if (!items.length) return;
    const summary = document.createElement("summary"), list = document.createElement("div");
    summary.textContent = title;
    list.append(...items);
    menu.append(summary, list);
    menu.hidden = false;
  }

  // replay opens or closes the slider. It can be moved with keys at once.
  replay() {
    const open = !this.hasAttribute("data-open");
    this.warnings.open = this.lostNodes.open = false; // they would cover the slider
    this.open(open);
    if (open) this.slider.focus();
  }

  async open(open) {
    this.toggleAttribute("data-open", open);
    this.replayButton.setAttribute("aria-expanded", String(open));
    document.body.style.paddingBottom = open ? "117px" : "40px";
    if (!open) this.play(false);
    if (open) sessionStorage.rayHistoryReplay = "1"; else delete sessionStorage.rayHistoryReplay;
    if (!open || this.histogram) return;
    this.histogram = true;
    const activity = await this.ask("session_activity");
    if (activity) {
      if (activity.to > activity.from) { this.from = activity.from; this.to = activity.to; }
      this.plot(activity);
      if (!this.live) this.plotUsage();
    } else this.histogram = false; // opening the slider again tries again
    this.show();
  }

  plot({ running, failed }) {
    if (!running || !running.length) return;
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${running.length} 100`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    const most = Math.max(1, ...running), worst = Math.max(1, ...failed);
    const bars = (name, counts, height) => counts.forEach((count, i) => {
      if (!count) return;
      const rect = document.createElementNS(svg.namespaceURI, "rect"), h = Math.max(4, height(count));
      for (const [k, v] of Object.entries({ class: name, x: i, y: 100 - h, width: 1, height: h })) rect.setAttribute(k, v);
      svg.append(rect);
    });
    bars("running", running, count => 100 * count / most);
    bars("failed", failed, count => 50 * count / worst);
    this.track.prepend(svg);
    this.track.title = `Running task attempts (at most ${most} at once) and, in red, failed ones`;
  }

  // plotUsage draws what the cluster used, from its stored metrics, as lines behind the slider. Sessions without metrics have none.
  async plotUsage() {
    const seconds = (this.to - this.from) / 1000, step = Math.max(15, Math.ceil(seconds / 200));
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), names = document.createElement("div");
    svg.setAttribute("viewBox", `0 0 ${seconds} 100`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    names.className = "usage";
    await Promise.all(Object.entries(USAGE).map(async ([name, query]) => {
      const asked = new URLSearchParams({ query, start: this.from / 1000, end: this.to / 1000, step });
      const values = (await this.ask("api/v1/query_range?" + asked))?.data?.result?.[0]?.values || [];
      if (!values.length) return;
      let last = -Infinity;
      const line = document.createElementNS(svg.namespaceURI, "path");
      line.setAttribute("class", name);
      line.setAttribute("d", values.map(([t, value]) => {
        const move = t - last > 1.5 * step ? "M" : "L";
        last = t;
        return `${move}${(t - this.from / 1000).toFixed(1)} ${(100 - Math.min(100, Math.max(0, Number(value) || 0))).toFixed(1)}`;
      }).join(""));
      svg.append(line);
      const label = document.createElement("span");
      label.className = name;
      label.textContent = name;
      names.append(label);
    }));
    if (!svg.children.length) return;
    this.track.prepend(svg);
    this.track.append(names);
    this.track.title += (this.track.title && "; ") + "lines: share used of the cluster's CPUs, memory and GPUs";
  }

  // watchTables shows when a table of tasks is cut: the dashboard asks for a number of rows and does not say that there are more.
  watchTables() {
    const counted = new Map();
    addEventListener("hashchange", () => { this.cut.hidden = true; });
    new PerformanceObserver(async list => {
      const asked = list.getEntries().map(entry => new URL(entry.name)).filter(url => /\/api\/v0\/tasks$/.test(url.pathname) && Number(url.searchParams.get("limit")) > 1).pop();
      if (!asked) return;
      const page = location.hash, limit = Number(asked.searchParams.get("limit"));
      asked.searchParams.set("limit", "1");
      if (!counted.has(asked.href)) counted.set(asked.href, this.ask(asked.href));
      const all = (await counted.get(asked.href))?.data?.result?.num_filtered || 0;
      if (location.hash !== page) return;
      this.cut.hidden = all <= limit;
      this.cut.textContent = `${limit.toLocaleString("en")} of ${all.toLocaleString("en")} tasks in the table`;
      this.cut.title = "The dashboard asks for no more rows. Use `ray list tasks --filter …` to find the others, and `ray summary tasks` to count all.";
    }).observe({ type: "resource", buffered: true });
  }

  chosen() { return Math.round(this.from + Number(this.slider.value)); }

  preview() {
    this.time.textContent = this.chosen() >= this.to ? "at the end" : stamp(this.chosen(), true);
    this.slider.setAttribute("aria-valuetext", this.time.textContent);
  }

  show() {
    const life = Math.max(1, this.to - this.from), at = this.at === null ? this.to : Math.min(Math.max(this.at, this.from), this.to);
    this.slider.max = Math.round(life);
    this.slider.value = Math.round(at - this.from);
    this.time.textContent = this.at === null ? "at the end" : stamp(at, true);
    this.slider.setAttribute("aria-valuetext", this.time.textContent);
    this.shareButton.textContent = "Copy link";
    for (const [button, name] of [[this.backButton, "One step back"], [this.onButton, "One step on"]]) {
      button.setAttribute("aria-label", name);
      button.title = `${name} (${span(this.stride())})`;
    }
    this.mark(life);
  }

  // mark writes round times below the slider.
  mark(life) {
    const every = roundStep(life / Math.max(2, Math.floor((this.track.clientWidth || 900) / 110)));
    this.axis.replaceChildren(...window.rayHistory.ticks(this.from, this.to, every, window.rayHistory.zone()).map(t => {
      const mark = document.createElement("span"), iso = stamp(t);
      mark.textContent = every >= 86400000 ? iso.slice(5, 10) : life >= 86400000 ? iso.slice(5, 16) : every >= 60000 ? iso.slice(11, 16) : iso.slice(11, 19);
      mark.style.left = 100 * (t - this.from) / life + "%";
      return mark;
    }));
  }

  // stride is one step: a round time, about a sixtieth of the session's life.
  stride() { return roundStep((this.to - this.from) / 60); }

  // key moves the slider by one step, or by ten with Page Up and Page Down. A browser's own step would be a millisecond.
  key(event) {
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity }[event.key];
    if (steps === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const max = Number(this.slider.max);
    this.slider.value = Math.min(max, Math.max(0, Number(this.slider.value) + steps * this.stride()));
    this.pressed = true;
    this.preview();
  }

  // move shows the session as of a moment; null is its end. The page stays: its timers ask again, and the events make it refresh at once
  // where it refreshes on focus.
  move(at) {
    if (at !== null && at >= this.to) at = null;
    this.at = at;
    const target = new URL((at === null ? "" : `at/${at}/`), this.session);
    history.replaceState(history.state, "", target.pathname + location.search + location.hash);
    dispatchEvent(new Event("focus"));
    document.dispatchEvent(new Event("visibilitychange"));
    this.show();
  }

  step(direction) {
    const now = this.at === null ? this.to : this.at, next = Math.round(now + direction * this.stride());
    if (next >= this.to) this.play(false);
    this.move(Math.max(next, Math.round(this.from)));
  }

  play(on) {
    clearInterval(this.timer);
    this.timer = 0;
    this.playButton.textContent = on ? "Pause" : "Play";
    if (!on) return;
    if (this.at === null) this.move(Math.round(this.from));
    // The dashboard asks for new data every four seconds.
    this.timer = setInterval(() => this.step(1), 4000);
  }

  async share() {
    const link = new URL((this.at === null ? "" : `at/${this.at}/`), this.session).href + location.hash;
    try {
      await navigator.clipboard.writeText(link);
      this.shareButton.textContent = "Copied";
    } catch (error) {
      prompt("The link to this page of this session:", link); // no clipboard without HTTPS
    }
  }
});

// roundStep is the smallest round time that is at least ms: people read 5 s or 2 min better than 3.7 s.
function roundStep(ms) {
  const second = 1000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;
  const round = [100, 200, 500, ...[1, 2, 5, 10, 15, 30].map(n => n * second), ...[1, 2, 5, 10, 15, 30].map(n => n * minute), ...[1, 2, 3, 6, 12].map(n => n * hour), day, 2 * day, 7 * day, 14 * day];
  return round.find(step => step >= ms) || Math.ceil(ms / (28 * day)) * 28 * day;
}

// decoded is a part of an address as it was meant; one that nobody encoded stays as it is.
function decoded(part) {
  try { return decodeURIComponent(part); } catch (error) { return part; }
}

function span(ms) {
  for (const [unit, name] of [[86400000, "d"], [3600000, "h"], [60000, "min"]]) if (ms >= unit) return ms / unit + " " + name;
  return ms / 1000 + " s";
}

function stamp(ms, exact) {
  const text = window.rayHistory.stamp(ms);
  return exact ? text.slice(0, 19) + "." + String(Math.floor(ms % 1000 / 10)).padStart(2, "0") + text.slice(19) : text;
}
