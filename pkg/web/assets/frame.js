// What a browser remembers for all pages: light or dark colours, and the zone of times. Both stand where the Ray Dashboard keeps its own
// choice (themeMode and timezone), so one switch counts for its pages and for ours. The dashboard shows the cluster's zone where it has no
// choice, so local time, which is shown until somebody chooses, is written there too. rayHistoryTimes is "cluster", or the zone that was
// written as the local one.
(function () {
  'use strict';
  var root = document.documentElement;
  var HERE = Intl.DateTimeFormat().resolvedOptions().timeZone;

  // Browsers that store nothing have no choice.
  function read(name) { try { return localStorage.getItem(name) || ''; } catch (error) { return ''; } }
  function keep(name, value) {
    try { if (value) { localStorage.setItem(name, value); } else { localStorage.removeItem(name); } } catch (error) { /* not stored */ }
  }

  function theme() { var chosen = read('themeMode'); return chosen === 'light' || chosen === 'dark' ? chosen : ''; }
  function colour() { if (theme()) { root.dataset.theme = theme(); } else { delete root.dataset.theme; } }
  colour();

  function keepLocal() { keep('rayHistoryTimes', HERE); keep('timezone', HERE); }
  var isChosen = read('timezone') ? read('timezone') !== read('rayHistoryTimes') : read('rayHistoryTimes') === 'cluster';
  if (!isChosen) { keepLocal(); }

  var clusterZone; // once it is known
  // zone is the name of the zone that times are shown in; undefined is the browser's, where nothing is stored.
  function zone() {
    if (read('timezone')) { return read('timezone'); }
    return read('rayHistoryTimes') === 'cluster' ? clusterZone || 'Etc/UTC' : undefined;
  }
  function inZone(options) {
    try { return new Intl.DateTimeFormat('sv-SE', Object.assign({ timeZone: zone() }, options)); } catch (error) {
      return new Intl.DateTimeFormat('sv-SE', options); // a zone that this browser does not know
    }
  }
  var ALL = { year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit' };
  var forms;
  function form() {
    var name = zone() || '';
    if (!forms || forms.name !== name) {
      forms = { name: name, stamp: inZone(ALL), date: inZone({ year: 'numeric', month: '2-digit', day: '2-digit' }) };
    }
    return forms;
  }
  // zoneName is how a time's zone is written: UTC, or GMT+1.
  function zoneName(time) {
    var parts = new Intl.DateTimeFormat('en', { timeZone: form().stamp.resolvedOptions().timeZone, timeZoneName: 'shortOffset' }).formatToParts(time);
    var name = parts.filter(function (part) { return part.type === 'timeZoneName'; })[0].value;
    return /^GMT([+-]0)?$/.test(name) ? 'UTC' : name;
  }
  function stamp(time) { return form().stamp.format(time).replace(',', '') + ' ' + zoneName(time); }
  function ago(time) {
    var minutes = Math.floor((Date.now() - time) / 60000);
    if (minutes < 1) { return 'just now'; }
    if (minutes < 60) { return minutes + 'm ago'; }
    if (minutes < 24 * 60) { return Math.floor(minutes / 60) + 'h ago'; }
    return minutes < 30 * 24 * 60 ? Math.floor(minutes / 1440) + 'd ago' : form().date.format(time);
  }

  // times writes all times of a part of the page in the chosen zone; the exact time is at the pointer.
  function times(part) {
    part.querySelectorAll('time[datetime]').forEach(function (element) {
      var time = new Date(element.dateTime);
      if (isNaN(time)) { return; }
      var exact = stamp(time);
      element.textContent = 'ago' in element.dataset ? ago(time) : exact;
      element.title = exact + (exact.endsWith(' UTC') ? '' : ' · ' + time.toISOString().slice(0, 19) + 'Z');
    });
  }

  // sheets closes what lies over the page when one clicks elsewhere, or with Escape, which gives the focus back.
  function sheets(within) {
    function close(besides) {
      var open = Array.from(within.querySelectorAll('.settings[open], .menu[open], .files[open]'));
      return open.filter(function (sheet) {
        sheet.open = besides.indexOf(sheet) >= 0;
        return !sheet.open;
      });
    }
    addEventListener('click', function (event) { close(event.composedPath()); }, true);
    addEventListener('keydown', function (event) {
      var closed = event.key === 'Escape' ? close([]) : [];
      if (!closed.length) { return; }
      closed[0].querySelector('summary').focus();
      event.stopPropagation();
    }, true);
  }
  Object.assign(window.rayHistory, { sheets: sheets, stamp: stamp, times: times, zone: function () { return form().stamp.resolvedOptions().timeZone; } });

  // rezoned is for a zone that is another one now: what draws times itself draws them again.
  function rezoned() {
    times(document);
    dispatchEvent(new Event('rayhistoryzone'));
  }

  // learn asks for the zone of the session's cluster, which the dashboard shows too, where it matters.
  function learn() {
    var session = document.querySelector('.session[data-session]'), bar = document.querySelector('ray-history-bar');
    var address = session ? session.dataset.session : bar && bar.dataset.base + bar.dataset.path;
    if (clusterZone || !address || read('timezone') || read('rayHistoryTimes') !== 'cluster') { return; }
    window.rayHistory.json(new URL('timezone', new URL(address, location.href))).then(function (answer) {
      clusterZone = answer.value || 'Etc/UTC';
      rezoned();
    }, function () { clusterZone = 'Etc/UTC'; });
  }

  function settings() {
    var box = document.querySelector('.settings'), colours = box.querySelector('[data-setting=theme]'), zones = box.querySelector('[data-setting=times]');
    box.querySelectorAll('.choice').forEach(function (label) { label.hidden = false; });
    zones.options[0].textContent = 'Local time (' + HERE + ')';
    function show() {
      var chosen = read('timezone');
      colours.value = theme();
      if (chosen && chosen !== HERE && chosen !== 'Etc/UTC' && zones.querySelectorAll('option').length === 3) {
        zones.add(new Option(chosen, chosen)); // chosen in the dashboard
      }
      zones.value = chosen === HERE && chosen !== 'Etc/UTC' ? 'local' : chosen || (read('rayHistoryTimes') || 'local');
    }
    colours.addEventListener('change', function () { keep('themeMode', colours.value); colour(); });
    zones.addEventListener('change', function () {
      if (zones.value === 'local') { keepLocal(); } else {
        keep('rayHistoryTimes', zones.value === 'cluster' ? 'cluster' : '');
        keep('timezone', zones.value === 'cluster' ? '' : zones.value);
      }
      rezoned();
      learn();
    });
    addEventListener('storage', function () { colour(); show(); rezoned(); learn(); });
    addEventListener('pageshow', show);
    show();
  }

  // The address of a list is without the filters that are not set.
  document.addEventListener('formdata', function (event) {
    if (!event.target.matches('.filters')) { return; } // ?kiosk of panels has no value
    Array.from(event.formData).forEach(function (field) { if (!field[1]) { event.formData.delete(field[0]); } });
  });

  document.addEventListener('DOMContentLoaded', function () {
    if (document.querySelector('ray-history-bar')) { learn(); return; } // the rest of the page is Ray's
    if (document.querySelector('.settings')) { settings(); }
    sheets(document);
    times(document);
    learn();
    var tab = document.querySelector('.tabs [aria-current]');
    if (tab) { tab.parentElement.scrollLeft = tab.offsetLeft - 24; }
    setInterval(function () { if (!document.hidden) { times(document); } }, 60000);
  });
})();
