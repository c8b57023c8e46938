// Saves reloads: a chosen filter searches at once, Link copies a session's address, and progress is updated.
(function () {
  'use strict';
  var filters = document.querySelector('.filters');
  if (filters) {
    filters.addEventListener('change', function (event) {
      if (event.target.tagName === 'SELECT') { filters.submit(); }
    });
  }

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
      var now = document.querySelectorAll('td.state'), next = fresh.querySelectorAll('td.state');
      if (document.querySelector('[data-reload]') || now.length !== next.length) { location.reload(); return; }
      now.forEach(function (cell, i) { cell.replaceChildren.apply(cell, next[i].childNodes); });
      setTimeout(follow, 1000);
    }, function () { setTimeout(follow, 5000); });
  }
  setTimeout(follow, 1000);
})();
