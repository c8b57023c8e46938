// The colours that were chosen, where the Ray Dashboard and the history server's pages keep them too.
try {
  var chosen = localStorage.getItem('themeMode');
  if (chosen === 'light' || chosen === 'dark') { document.documentElement.style.colorScheme = chosen; }
} catch (error) { /* this browser stores nothing */ }
// The way on may have a part behind "#", which browsers send to no server: it stayed in this page's address.
var start = document.getElementById('start');
if (start) {
  start.addEventListener('click', function () {
    var url = new URL(start.href);
    var next = url.searchParams.get('next');
    if (!next.includes('#')) { url.searchParams.set('next', next + location.hash); }
    start.href = url.href;
  });
} else if (document.getElementById('token')) {
  document.forms[0].addEventListener('submit', function (event) {
    var next = event.target.elements.next;
    if (!next.value.includes('#')) { next.value += location.hash; }
  });
}
