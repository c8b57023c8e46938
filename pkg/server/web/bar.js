// The bar of a stored session. The dashboard's requests are relative to the page, so the slider only changes the page's address, by the
// segment at/{time}: whatever the dashboard asks for next is answered as of that moment.
customElements.define("ray-history-bar", class extends HTMLElement {
  connectedCallback() {
    const given = this.dataset;
    this.root = new URL(given.base, location.href);
    this.session = new URL(given.path, this.root);
    this.from = Number(given.start);
    this.to = Number(given.end) || Date.now();
    this.at = this.atOfAddress();
    this.draw();
    this.show();
    document.body.style.paddingBottom = "40px";
    // The dashboard's own switch between light and dark changes style sheets in the head.
    new MutationObserver(() => this.matchTheme()).observe(document.head, { childList: true, subtree: true, characterData: true });
    this.matchTheme();
    addEventListener("popstate", () => { this.at = this.atOfAddress(); this.show(); });
    if (this.at !== null || sessionStorage.rayHistoryReplay) this.open(true);
    this.listWarnings();
    this.listLostNodes();
  }

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
    const { cluster, namespace, session, start, end } = this.dataset;
    const when = start > 0 ? stamp(Number(start)) + " – " + (end > 0 ? stamp(Number(end)) : "still running") : "";
    this.replayButton = make("button", { type: "button", "aria-expanded": "false", onclick: () => this.open(!this.hasAttribute("data-open")) }, "Replay");
    this.shareButton = make("button", { type: "button", title: "Copy a link to this page of this session", onclick: () => this.share() }, "Copy link");
    this.playButton = make("button", { type: "button", onclick: () => this.play(!this.timer) }, "Play");
    this.slider = make("input", { type: "range", min: 0, max: 1000, step: 1, "aria-label": "Moment of the session", oninput: () => this.preview() });
    this.slider.onchange = () => this.move(this.chosen());
    this.track = make("div", { class: "track" }, this.slider);
    this.time = make("span", { class: "time" });
    this.warnings = make("details", { class: "menu warnings", hidden: "" });
    this.lostNodes = make("details", { class: "menu", hidden: "" });
    shadow.append(
      make("div", { class: "replay", role: "group", "aria-label": "Replay" },
        make("button", { type: "button", title: "One step back", "aria-label": "One step back", onclick: () => this.step(-1) }, "◀"), this.playButton,
        make("button", { type: "button", title: "One step on", "aria-label": "One step on", onclick: () => this.step(1) }, "▶"),
        this.track, this.time, make("button", { type: "button", onclick: () => { this.play(false); this.move(null); } }, "To the end")),
      make("div", { class: "strip", role: "region", "aria-label": "Stored session" },
        make("span", { class: "what" }, "Stored session of ", make("b", {}, cluster), make("span", { class: "faint" }, " in " + namespace)),
        make("span", { class: "faint wide", title: session }, when), make("span", { class: "room" }), this.warnings, this.lostNodes, this.replayButton, this.shareButton,
        make("a", { href: new URL("homepage", this.root).href }, "All sessions")));
  }

  // listWarnings shows what of the session could not be read: the dashboard shows nothing of what its lists warn of.
  async listWarnings() {
    const list = (await this.ask("api/v0/jobs?limit=1"))?.data.result.warnings || [];
    this.fill(this.warnings, list.length === 1 ? "1 warning" : `${list.length} warnings`, list.map(warning => {
      const line = document.createElement("span");
      line.textContent = warning;
      return line;
    }));
  }

  // listLostNodes links to the logs of nodes that died: the dashboard's Logs page offers those of living nodes only.
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

  // ask gives an answer about the session, once that is loaded; null if there is none.
  async ask(path) {
    for (;;) {
      const answer = await fetch(new URL(path, this.session));
      if (answer.ok) return answer.json();
      if (answer.status !== 503) return null;
      await new Promise(loaded => setTimeout(loaded, 1000 * (Number(answer.headers.get("Retry-After")) || 5)));
    }
  }

  // fill makes a menu of items; without any it stays hidden.
  fill(menu, title, items) {
    if (!items.length) return;
    const summary = document.createElement("summary"), list = document.createElement("div");
    summary.textContent = title;
    list.append(...items);
    menu.append(summary, list);
    menu.hidden = false;
  }

  async open(open) {
    this.toggleAttribute("data-open", open);
    this.replayButton.setAttribute("aria-expanded", String(open));
    document.body.style.paddingBottom = open ? "101px" : "40px";
    if (!open) this.play(false);
    if (open) sessionStorage.rayHistoryReplay = "1"; else delete sessionStorage.rayHistoryReplay;
    if (!open || this.histogram) return;
    this.histogram = true;
    try {
      const answer = await fetch(new URL("session_activity", this.session));
      if (!answer.ok) throw new Error(answer.statusText);
      const activity = await answer.json();
      if (activity.to > activity.from) { this.from = activity.from; this.to = activity.to; }
      this.plot(activity);
    } catch (error) {
      this.histogram = false; // opening the slider again asks again
    }
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

  chosen() { return Math.round(this.from + (this.to - this.from) * this.slider.value / 1000); }

  preview() { this.time.textContent = stamp(this.chosen(), true); }

  show() {
    const at = this.at === null ? this.to : Math.min(Math.max(this.at, this.from), this.to);
    this.slider.value = this.to > this.from ? 1000 * (at - this.from) / (this.to - this.from) : 1000;
    this.time.textContent = this.at === null ? "at the end" : stamp(at, true);
    this.shareButton.textContent = "Copy link";
  }

  // move shows the session as of a moment, null its end. The page stays; its timers ask again by themselves, and soon where it refreshes
  // when it is looked at again.
  move(at) {
    this.at = at;
    const target = new URL((at === null ? "" : `at/${at}/`), this.session);
    history.replaceState(history.state, "", target.pathname + location.search + location.hash);
    dispatchEvent(new Event("focus"));
    document.dispatchEvent(new Event("visibilitychange"));
    this.show();
  }

  step(direction) {
    const stride = (this.to - this.from) / 60, now = this.at === null ? this.to : this.at;
    const next = Math.round(now + direction * stride);
    if (next >= this.to) { this.play(false); this.move(null); } else this.move(Math.max(next, Math.round(this.from)));
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

function stamp(ms, exact) {
  const text = new Date(ms).toISOString().replace("T", " ");
  return exact ? text.slice(0, 22) + " UTC" : text.slice(0, 19) + " UTC";
}
