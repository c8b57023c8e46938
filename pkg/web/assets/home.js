// Saves reloads: a chosen filter searches at once, Link copies a session's address, and progress is updated. Keys: / goes to the search, the
// arrows up and down, Home and End from row to row of the list, Enter opens a row's link.
(function () {
  'use strict';
  var filters = document.querySelector('.filters');
  if (filters) {
    filters.addEventListener('change', function (event) {
      if (event.target.tagName === 'SELECT') { filters.submit(); }
    });
  }

  // rowOf is the session's row that something is in; the line with its cause is the next one.
  function rowOf(at) {
    var row = at.closest('tr');
    return row.classList.contains('because') ? row.previousElementSibling : row;
  }

  var search = document.querySelector('.filters [name=q]');
  document.addEventListener('keydown', function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) { return; }
    var at = event.target, typing = at.closest('input, select, textarea, summary') || at.isContentEditable;
    if (event.key === '/' && search && !typing) {
      event.preventDefault();
      search.focus();
      search.select();
      return;
    }
    var step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
    // From the search the list is one step down; from elsewhere on the page the arrows scroll.
    if (!step || (typing ? at !== search || event.key !== 'ArrowDown' : !at.closest('.list tbody'))) { return; }
    var rows = Array.prototype.filter.call(document.querySelectorAll('.list tbody tr'), function (row) { return row.querySelector('a.name'); });
    var to = typing ? 0 : Math.max(-1, Math.min(rows.length - 1, rows.indexOf(rowOf(at)) + step));
    if (step === -Infinity) { to = 0; }
    var next = to < 0 ? search : rows[to] && rows[to].querySelector('a.name');
    if (!next) { return; }
    event.preventDefault();
    next.focus();
  });

  document.addEventListener('click', function (event) {
    var link = event.target.closest('a.share');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || !navigator.clipboard) { return; }
    event.preventDefault();
    navigator.clipboard.writeText(link.href).then(function () {
      var label = link.firstChild.nodeValue;
      link.firstChild.nodeValue = 'Copied';
      setTimeout(function () { link.firstChild.nodeValue = label; }, 1500);
    }, function () { location.href = link.href; });
  });

  // Only the states are replaced, so that nothing changes that somebody is choosing.
  function follow() {
    if (!document.querySelector('.chip.loading, .chip.looking, [data-reload]')) { return; }
    fetch(location.href, { cache: 'no-store', headers: { Accept: 'text/html' } }).then(function (answer) { return answer.text(); }).then(function (text) {
      var fresh = new DOMParser().parseFromString(text, 'text/html');
      var now = document.querySelectorAll('td.state, tr.because'), next = fresh.querySelectorAll('td.state, tr.because');
      if (document.querySelector('[data-reload]') || now.length !== next.length) { location.reload(); return; }
      now.forEach(function (cell, i) {
        cell.hidden = next[i].hidden;
        cell.replaceChildren.apply(cell, next[i].childNodes);
      });
      setTimeout(follow, 1000);
    }, function () { setTimeout(follow, 5000); });
  }
  setTimeout(follow, 1000);
})();
