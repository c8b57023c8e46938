// Saves reloads: the list is searched as one types, a chosen filter searches at once, Link copies a session's address, and progress is updated.
// Keys: / goes to the search, j and k, the arrows, Home and End from row to row, Enter opens a row, w its findings, ? shows the keys.
(function () {
  'use strict';
  var filters = document.querySelector('[data-list]'), results = document.getElementById('results');
  var search = filters && filters.elements.q;

  // address is that of the list as the form says, without what is so anyway.
  function address() {
    var short = new URLSearchParams();
    new FormData(filters).forEach(function (value, name) {
      value = value.trim();
      if (value && !(name === 'size' && value === '25') && !(name === 'sort' && value === '-start')) { short.append(name, value); }
    });
    return '?' + short;
  }
  var typed, asked = 0; // the timer of the search as one types, and how many searches were begun
  // go leaves for the list as the form says. An answer to what was typed before would change the address once more.
  function go() {
    clearTimeout(typed);
    asked++;
    location.assign(address());
  }
  if (filters) {
    filters.addEventListener('change', function (event) {
      if (event.target.tagName === 'SELECT') { go(); }
    });
    filters.addEventListener('submit', function (event) { event.preventDefault(); go(); });
  }

  function page(url) {
    return fetch(url, { cache: 'no-store', headers: { Accept: 'text/html' } }).then(function (answer) { return answer.text(); }).then(function (text) {
      return new DOMParser().parseFromString(text, 'text/html');
    });
  }

  // highlight marks the words of the search in what the list shows.
  function highlight() {
    if (!search || !results || !window.Highlight) { return; }
    var found = new Highlight(), words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    var texts = document.createTreeWalker(results, NodeFilter.SHOW_TEXT);
    for (var text; words.length && (text = texts.nextNode());) {
      if (!text.parentElement.closest('.list tbody') || text.parentElement.closest('.menu')) { continue; }
      var low = text.data.toLowerCase();
      if (low.length !== text.data.length) { continue; }
      words.forEach(function (word) {
        for (var at = low.indexOf(word); at >= 0; at = low.indexOf(word, at + word.length)) {
          found.add(new StaticRange({ startContainer: text, startOffset: at, endContainer: text, endOffset: at + word.length }));
        }
      });
    }
    CSS.highlights.set('found', found);
  }
  highlight();

  if (search && results) {
    search.addEventListener('input', function () {
      clearTimeout(typed);
      typed = setTimeout(function () {
        var mine = ++asked, to = address();
        page(to).then(function (fresh) {
          var next = fresh.getElementById('results');
          if (mine !== asked || !next) { return; }
          results.replaceChildren.apply(results, next.childNodes);
          history.replaceState(null, '', to);
          dispatchEvent(new Event('rayhistorylist'));
          window.rayHistory.times(results);
          highlight();
        }, function () { /* Enter asks again */ });
      }, 250);
    });
  }

  // rowOf is the session's row that something is in; the lines with its cause are the next ones.
  function rowOf(at) {
    var row = at.closest('tr');
    while (row && row.classList.contains('because')) { row = row.previousElementSibling; }
    return row;
  }

  document.addEventListener('keydown', function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) { return; }
    var at = event.target, typing = at.closest('input, select, textarea, summary, dialog') || at.isContentEditable;
    if (event.key === '/' && search && !typing) {
      event.preventDefault();
      search.focus();
      search.select();
      return;
    }
    var keys = document.querySelector('.keys');
    if (event.key === '?' && keys && !typing) {
      keys.querySelector('button').onclick = function () { keys.close(); };
      keys.showModal();
      return;
    }
    var inList = at.closest('.list tbody'), why = inList && rowOf(at).querySelector('a.why');
    if (event.key === 'w' && why && !typing) { why.click(); return; }
    var letter = !typing && { j: 1, k: -1 }[event.key];
    var step = letter || { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
    // From the search the list is one step down; from elsewhere on the page the arrows scroll.
    if (!step || !letter && (typing ? at !== search || event.key !== 'ArrowDown' : !inList)) { return; }
    var rows = Array.prototype.filter.call(document.querySelectorAll('.list tbody tr'), function (row) { return row.querySelector('a.name'); });
    var to = inList ? Math.max(-1, Math.min(rows.length - 1, rows.indexOf(rowOf(at)) + step)) : 0;
    if (step === -Infinity) { to = 0; }
    var next = to < 0 ? search : rows[to] && rows[to].querySelector('a.name');
    if (!next) { return; }
    event.preventDefault();
    next.focus();
  });

  document.addEventListener('click', function (event) {
    document.querySelectorAll('.menu[open]').forEach(function (menu) { if (!menu.contains(event.target)) { menu.open = false; } });
    var row = event.target.closest('tr.row');
    if (row && !event.target.closest('a, button, select, summary, details, label') && !String(getSelection())) {
      row.querySelector('a.name').dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, ctrlKey: event.ctrlKey, metaKey: event.metaKey, shiftKey: event.shiftKey }));
      return;
    }
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
    page(location.href).then(function (fresh) {
      var now = document.querySelectorAll('td.state, tr.because'), next = fresh.querySelectorAll('td.state, tr.because');
      if (document.querySelector('[data-reload]') || now.length !== next.length) { location.reload(); return; }
      now.forEach(function (cell, i) {
        cell.hidden = next[i].hidden;
        cell.replaceChildren.apply(cell, next[i].childNodes);
      });
      highlight();
      setTimeout(follow, 1000);
    }, function () { setTimeout(follow, 5000); });
  }
  setTimeout(follow, 1000);
})();
