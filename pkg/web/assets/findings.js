// Opens the finding that the address names, filters at once, and copies texts.
(function () {
  'use strict';
  function reveal() {
    var at = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (var e = at; e; e = e.parentElement) { if (e.tagName === 'DETAILS') { e.open = true; } }
    if (at) { at.scrollIntoView({ block: 'nearest' }); }
  }
  addEventListener('hashchange', reveal);
  reveal();

  // The address is that of the finding that was opened last, so that it is open when somebody comes back, or gets a link.
  document.addEventListener('click', function (event) {
    var summary = event.target.closest('.finding > summary'), body = summary && summary.parentElement.querySelector('.body');
    if (body && !summary.parentElement.open) { history.replaceState(null, '', '#' + body.id); }
  });

  var filters = document.querySelector('.filters');
  if (filters) { filters.addEventListener('change', function () { filters.submit(); }); }

  // copy copies a text, which may be still to come. The button says what became of it, and then what it does again.
  function copy(button, text) {
    var label = button.firstChild, does = button.dataset.does = button.dataset.does || label.nodeValue;
    Promise.resolve(text).then(function (ready) { return navigator.clipboard.writeText(ready); }).then(function () {
      label.nodeValue = 'Copied';
      setTimeout(function () { label.nodeValue = does; }, 1500);
    }, function (error) {
      label.nodeValue = 'Not copied: ' + error.message;
      setTimeout(function () { label.nodeValue = does; }, 10000);
    });
  }
  if (!navigator.clipboard) { return; } // without HTTPS there is none
  document.querySelectorAll('button.copy').forEach(function (button) {
    button.hidden = false;
    button.addEventListener('click', function () {
      var parts = button.closest('.evidence').querySelectorAll('pre');
      copy(button, Array.prototype.map.call(parts, function (part) { return part.textContent; }).join(''));
    });
  });
  document.querySelectorAll('a.markdown').forEach(function (anchor) {
    anchor.firstChild.nodeValue = 'Copy as Markdown';
    anchor.addEventListener('click', function (event) {
      if (event.ctrlKey || event.metaKey || event.shiftKey) { return; } // opens it
      event.preventDefault();
      var body = anchor.closest('.body'), link = location.href.split('#')[0] + (body ? '#' + body.id : '');
      copy(anchor, window.rayHistory.ask(anchor.href).then(function (answer) {
        return answer.text();
      }).then(function (text) { return text + '\n<' + link + '>\n'; }));
    });
  });
})();
