// Asks the server, for all scripts. What says when to ask again (Retry-After) is asked for again, and so is what did
// not answer at all, or what a proxy says of a server that is not there; but not for ever. Any other answer that is no
// success is an error in the server's own words.
window.rayHistory = (() => {
  const TRIES = 10, LONGEST = 60; // s between two of them

  // pause waits so many seconds, or until nobody waits for it any more.
  const pause = (seconds, signal) => new Promise((resolve, reject) => {
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
    setTimeout(resolve, 1000 * seconds);
  });

  // failure is the error for an answer: what its JSON says, or its page. Other words are a proxy's, and help nobody. It
  // has the seconds after which to ask again, 0 for not, and says whether it is final: to ask later gives the same.
  function failure({ status, headers }, text) {
    let said;
    try {
      const { msg, error } = JSON.parse(text);
      said = msg || error;
    } catch {
      const page = new DOMParser().parseFromString(text, "text/html");
      said = (page.querySelector("p.wrong") || page.querySelector("p.detail"))?.textContent;
    }
    const again = Number(headers.get("Retry-After")) || (!said && [502, 503, 504].includes(status) ? 5 : 0);
    const final = said ? status < 500 : [401, 403, 410].includes(status);
    said ||= status === 401 ? "The sign-in has ended. Reload the page." :
      `The server cannot answer now (status ${status}). Try again later.`;
    return Object.assign(new Error(said), { again: Math.min(again, LONGEST), final });
  }

  // ask gives an answer that is a success. Its options are those of fetch, and how many tries it has at most; waiting, if
  // given, is told why it takes longer, and "" when that is over.
  async function ask(address, { waiting = () => {}, tries = TRIES, ...options } = {}) {
    for (let asked = 1; ; asked++) {
      let error = Object.assign(new Error("The server cannot be reached. Try again later, or reload the page to sign in."), { again: 5 });
      try {
        const answer = await fetch(address, options);
        if (answer.ok) {
          if (asked > 1) waiting("");
          return answer;
        }
        error = failure(answer, await answer.text());
      } catch { /* the connection broke, or nobody waits */ }
      options.signal?.throwIfAborted();
      if (!(error.again > 0) || asked >= tries) throw error;
      waiting(error.message);
      await pause(error.again, options.signal);
    }
  }

  function parsed(text) {
    try { return JSON.parse(text); } catch {
      throw new Error("This is no answer of the history server. Reload the page.");
    }
  }

  // json gives the JSON of an answer. A proxy that people sign in at refuses what asks for JSON, instead of sending the
  // script to a page of another site, which it may not read.
  async function json(address, options) {
    const answer = await ask(address, { ...options, headers: { Accept: "application/json" } });
    return parsed(await answer.text());
  }

  // records gives each line of JSON of an answer to use, as they come.
  async function records(address, use, options) {
    const answer = await ask(address, { ...options, headers: { Accept: "application/x-ndjson, application/json" } });
    const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      const { done, value } = await text.read().catch(() => {
        options.signal?.throwIfAborted();
        throw new Error("The connection broke. Try again.");
      });
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) use(parsed(line));
    }
  }

  return { ask, json, records };
})();
