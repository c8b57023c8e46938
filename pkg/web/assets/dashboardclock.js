// The dashboard counts every duration without an end up to `new Date()`. So that an ended session does not grow older, this stops `new Date()`
// at the session's end, or at the moment that the page's address names. `Date.now()` goes on: timers, throttles and caches use it.
(function () {
  "use strict";
  const Running = Date, end = Number(document.currentScript.dataset.end) || 0;
  let path, stopped;

  function now() {
    if (location.pathname !== path) {
      path = location.pathname;
      stopped = momentOf(path) || end;
    }
    return stopped || Running.now();
  }

  // momentOf is the moment that an address names, in Unix milliseconds; 0 if it names none.
  function momentOf(address) {
    const segment = address.match(/\/sessions\/[^/]+\/at\/([^/]+)\//);
    if (!segment) return 0;
    const text = decodeURIComponent(segment[1]);
    const moment = /^\d+$/.test(text) ? Number(text) : Running.parse(text);
    return moment > 0 ? moment : 0;
  }

  window.Date = new Proxy(Running, {
    construct: (target, given, made) => Reflect.construct(target, given.length ? given : [now()], made),
    apply: () => new Running(now()).toString(),
  });
  // Libraries compare a date's constructor with Date to find its type.
  Running.prototype.constructor = window.Date;
})();
