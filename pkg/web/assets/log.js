// A link to a line, #L123, of a log whose shown page does not have the line leads to the page that does.
function goToLine() {
  const line = location.hash.match(/^#L(\d+)$/);
  if (!line || document.getElementById(location.hash.slice(1))) return;
  const page = new URL(location.href);
  if (page.searchParams.get("line") === line[1]) return; // the log has no such line
  for (const place of ["offset", "time", "end"]) page.searchParams.delete(place);
  page.searchParams.set("line", line[1]);
  location.replace(page);
}
// Without such a link, the page shows the line or the end that was asked for.
if (!location.hash) document.querySelector(".line.shown")?.scrollIntoView({ block: "center" });
goToLine();
addEventListener("hashchange", goToLine);
