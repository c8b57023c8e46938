// Saved views of the list: names that people gave to its filters, as chips above it. They stand in this browser only.
(function () {
  'use strict';
  var box = document.querySelector('[data-views]');
  if (!box) { return; }
  var MOST = 50, LONGEST = 2000; // views, letters of an address

  // read returns the views; anything else that stands there is none.
  function read() {
    var all;
    try { all = JSON.parse(localStorage.getItem('rayHistoryViews')); } catch (error) { /* none, or nothing is stored here */ }
    return (Array.isArray(all) ? all : []).filter(function (view) { return view && typeof view.name === 'string' && typeof view.query === 'string'; }).slice(0, MOST);
  }
  function keep(all) { localStorage.setItem('rayHistoryViews', JSON.stringify(all)); }

  function make(tag, attributes, text) {
    var element = Object.assign(document.createElement(tag), attributes);
    element.textContent = text || '';
    return element;
  }
  // shown is the list's query, whatever page of it is shown.
  function shown() {
    var query = new URLSearchParams(location.search);
    query.delete('page');
    return query.toString();
  }
  // suggested is a name made of the filters' values.
  function suggested() { return Array.from(new URLSearchParams(shown()).values()).join(' '); }

  function draw() {
    var now = shown();
    box.replaceChildren.apply(box, read().map(function (view) {
      var chip = make('span', { className: 'view' }), link = make('a', { className: 'filter', href: '?' + new URLSearchParams(view.query) }, view.name);
      if (view.query === now) { link.setAttribute('aria-current', 'true'); }
      var remove = make('button', { type: 'button', className: 'remove', title: 'Remove this view' }, '✕');
      remove.setAttribute('aria-label', 'Remove the view ' + view.name);
      remove.onclick = function () {
        keep(read().filter(function (other) { return other.name !== view.name; }));
        draw();
        var next = box.querySelector('.save') || box.querySelector('a');
        if (next) { next.focus(); }
      };
      chip.append(link, remove);
      return chip;
    }));
    if (now && now.length <= LONGEST && box.children.length < MOST && !box.querySelector('[aria-current]')) {
      var save = make('button', { type: 'button', className: 'filter save' }, 'Save this view');
      save.onclick = ask;
      box.append(save);
    }
    box.hidden = !box.children.length;
  }

  // ask shows a field for the name in place of the button. Enter saves, Escape does not.
  function ask() {
    var form = make('form', { className: 'view' }), name = make('input', { required: true, maxLength: 60, value: suggested().slice(0, 60) });
    name.setAttribute('aria-label', 'Name of the view');
    form.append(name, make('button', { className: 'button' }, 'Save'));
    form.onsubmit = function (event) {
      event.preventDefault();
      var view = { name: name.value.trim(), query: shown() };
      if (!view.name) { return; }
      try { keep(read().filter(function (other) { return other.name !== view.name; }).concat(view)); } catch (error) {
        name.setCustomValidity('This browser stores nothing: bookmark the address instead.');
        name.reportValidity();
        return;
      }
      draw();
      box.querySelector('[aria-current]').focus();
    };
    form.onkeydown = function (event) { if (event.key === 'Escape') { draw(); box.querySelector('.save').focus(); } };
    box.querySelector('.save').replaceWith(form);
    name.select();
  }

  addEventListener('storage', draw);
  addEventListener('rayhistorylist', draw); // the list was searched as one typed
  draw();
})();
