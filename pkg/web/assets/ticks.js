// The marks of an axis of times, for all scripts that draw one: the times from one to another that are round, multiples
// of a step in ms, by the clocks of a zone. Those of days are its midnights.
window.rayHistory.ticks = (from, to, step, timeZone) => {
  const clock = new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "medium" });
  const ahead = time => Date.parse(clock.format(time).replace(",", "").replace(" ", "T") + "Z") - Math.floor(time / 1000) * 1000;
  const when = local => local - ahead(local - ahead(local));
  const found = [];
  for (let local = Math.ceil((from + ahead(from)) / step) * step, time = when(local); time <= to; time = when(local += step)) {
    if (time >= from && !(time <= found.at(-1))) found.push(time); // clocks that are set forward have no such time
  }
  return found;
};
