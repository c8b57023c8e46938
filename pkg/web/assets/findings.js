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

  var filters = document.querySelector('.filters');
  if (filters) { filters.addEventListener('change', function () { filters.submit(); }); }

  function copy(button, text) {
    var label = button.firstChild;
    var said = label.nodeValue;
    navigator.clipboard.writeText(text).then(function () {
      label.nodeValue = 'Copied';
      setTimeout(function () { label.nodeValue = said; }, 1500);
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
  document.querySelectorAll('button.markdown').forEach(function (button) {
    button.hidden = false;
    button.addEventListener('click', function () {
      fetch(button.dataset.from).then(function (answer) { return answer.text(); }).then(function (text) {
        var body = button.closest('.body');
        copy(button, text + '\n<' + location.href.split('#')[0] + (body ? '#' + body.id : '') + '>\n');
      });
    });
  });
})();
