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
  var timer, shown = new AbortController(); // for the list that is shown: of its next request, and of those under way
  // drop cancels these requests, because another list is to be shown.
  function drop() {
    clearTimeout(timer);
    shown.abort();
    shown = new AbortController();
  }
  // go leaves for the list as the form says.
  function go() {
    drop();
    location.assign(address());
  }
  if (filters) {
    filters.addEventListener('change', function (event) {
      if (event.target.tagName === 'SELECT') { go(); }
    });
    filters.addEventListener('submit', function (event) { event.preventDefault(); go(); });
    // A list that the browser kept as it was left has in its form what was chosen then.
    addEventListener('pageshow', function (event) { if (event.persisted) { location.reload(); } });
  }

  function page(url) {
    var options = { cache: 'no-store', headers: { Accept: 'text/html' }, signal: shown.signal };
    return window.rayHistory.ask(url, options).then(function (answer) { return answer.text(); }).then(function (text) {
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
      drop();
      timer = setTimeout(function () {
        var to = address();
        page(to).then(function (fresh) {
          history.replaceState(null, '', to);
          dispatchEvent(new Event('rayhistorylist'));
          list(fresh);
        }, function (error) {
          if (error.name === 'AbortError') { return; }
          var wrong = document.createElement('p');
          wrong.className = 'nothing wrong';
          wrong.setAttribute('role', 'alert');
          wrong.textContent = error.message;
          results.replaceChildren(wrong);
        });
      }, 250);
    });
  }

  // list shows the list of a fresh page instead.
  function list(fresh) {
    var of = fresh.getElementById('results');
    if (!of || !results) { location.reload(); return; }
    results.replaceChildren.apply(results, of.childNodes);
    window.rayHistory.times(results);
    highlight();
    follow();
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
    var row = event.target.closest('tr.row');
    if (row && !event.target.closest('a, button, select, summary, details, label') && !String(getSelection())) {
      row.querySelector('a.name').dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, ctrlKey: event.ctrlKey, metaKey: event.metaKey, shiftKey: event.shiftKey }));
      return;
    }
    var link = event.target.closest('a.share');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || !navigator.clipboard) { return; }
    event.preventDefault();
    navigator.clipboard.writeText(link.href).then(function () {
      link.firstChild.nodeValue = 'Copied';
      setTimeout(function () { link.firstChild.nodeValue = 'Link'; }, 1500);
    }, function () { location.href = link.href; });
  });

  // rowsOf are a page's rows of sessions, by their addresses.
  function rowsOf(page) {
    return new Map(Array.from(page.querySelectorAll('tr.row'), function (row) {
      return [row.querySelector('a.name').getAttribute('href'), row];
    }));
  }

  // states are what may change of a row: how the session ended and, in the last of the lines below, why.
  function states(row) {
    var why = row.nextElementSibling;
    while (why.classList.contains('found')) { why = why.nextElementSibling; }
    return [row.querySelector('td.state'), why];
  }

  // update writes what a fresh page says of a row, unless that is what stands there: it may have the focus.
  function update(row, fresh) {
    var now = states(row);
    states(fresh).forEach(function (cell, i) {
      var open = now[i].querySelector('details[open]'), details = cell.querySelector('details');
      if (open && details) { details.open = true; }
      if (!now[i].isEqualNode(cell)) { now[i].replaceWith(cell); }
    });
  }

  // follow asks for the list again while something of it is not known yet, or there is none yet. Only states are replaced,
  // so that nothing changes that somebody is choosing, unless one that is awaited is no longer on the list.
  function follow(wait) {
    var awaited = '.chip.loading, .chip.looking', anew = document.querySelector('[data-reload]');
    if (!anew && !document.querySelector(awaited)) { return; }
    timer = setTimeout(function () {
      page(location.href).then(function (fresh) {
        var now = rowsOf(document), then = rowsOf(fresh);
        now.forEach(function (row, address) { anew = anew || !then.has(address) && row.querySelector(awaited); });
        if (anew) { list(fresh); return; }
        now.forEach(function (row, address) { if (then.has(address)) { update(row, then.get(address)); } });
        highlight();
        follow();
      }, function (error) {
        if (error.name !== 'AbortError' && !error.final) { follow(5000); }
      });
    }, wait || 1000);
  }
  follow();
})();
