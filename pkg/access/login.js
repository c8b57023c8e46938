// The way on may have a part behind "#", which browsers send to no server: it stayed in this page's address.
document.forms[0].addEventListener('submit', function (event) {
  var next = event.target.elements.next;
  if (!next.value.includes('#')) { next.value += location.hash; }
});
