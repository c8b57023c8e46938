// Waits until a page about a session can be shown, with the progress if the answer has it, and opens it.
(function () {
  'use strict';
  var card = document.getElementById('loading');
  var bar = card.querySelector('progress');
  var text = document.getElementById('progress');
  var trouble = document.getElementById('trouble');
  var units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

  function size(n) {
    var unit = 0;
    for (; n >= 1024 && unit < units.length - 1; unit++) { n /= 1024; }
    return (unit ? n.toFixed(n >= 99.5 ? 0 : n >= 9.95 ? 1 : 2) : n) + ' ' + units[unit];
  }

  function open() {
    if (card.dataset.target) { location.replace(card.dataset.target); } else { location.reload(); }
  }

  function show(status) {
    if (status.state === 'queued') {
      text.textContent = 'Waiting until other sessions are loaded.';
    } else if (status.bytes_total > 0) {
      bar.max = 100;
      bar.value = 100 * status.bytes_done / status.bytes_total;
      text.textContent = size(status.bytes_done) + ' of ' + size(status.bytes_total) + ' of events read.';
    }
    say(status.error ? 'The session cannot be loaded: ' + status.error + '. Trying again.' : '');
  }

  function say(problem) {
    trouble.hidden = !problem;
    trouble.textContent = problem;
  }

  function look() {
    window.rayHistory.json(card.dataset.status, { cache: 'no-store', waiting: say }).then(function (status) {
      if (!status.state || status.state === 'ready') { open(); return; }
      show(status);
      setTimeout(look, status.error ? 4000 : 400);
    }, function (error) {
      say(error.message);
      if (!error.final) { setTimeout(look, 4000); }
    });
  }
  look();
})();
