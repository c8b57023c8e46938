// node links.js < JOB.json > REPORT.json
//
// Opens pages in Chromium, clicks each link and submits each form of them, and reports where that leads. Of links of the same form, such as the
// numbers of a log's lines, it clicks the first ones. It judges nothing: that is for the test that runs it.
//
// JOB: {base, pages: [{name, path, width?, filled?, fields?: {name: value}}]}
//   fields are what required fields are filled with; what leads to the page itself, as its forms do, is then followed also where other pages have it
//   filled says that a script still fills the page when it is loaded
// REPORT: {pages: [{name, status, steps}], errors: [{page, message}]}
//   a step is {what, href, status, url, says, download?, found?}: what was clicked; the answer's status, 0 for none; the address and title
//   afterwards; how many bytes came as a file; and, of a link to a place on the page, whether the place is to be seen
const fs = require('fs');
const { launch } = require('./windows.js');

const WAIT = 60000; // ms: machines are busy
const SCROLL = 5000; // ms
const ALIKE = 1; // links of one form that are clicked
const VISITORS = 3;

// seen says whether an element's beginning is on the screen, and not under something else.
const seen = e => {
  const text = e.querySelector(':scope > .text') || e;
  const at = text.getClientRects()[0] || e.getBoundingClientRect();
  if (!at.height) return at.top >= 0 && at.top <= innerHeight;
  const top = document.elementFromPoint(at.left + Math.min(2, at.width / 2), at.top + Math.min(8, at.height / 2));
  return !!top && (e.contains(top) || top.contains(e));
};

// comes says whether an element is seen once the page has scrolled, which a busy browser does late.
async function comes(page, element) {
  for (const end = Date.now() + SCROLL; Date.now() < end;) {
    await page.waitForTimeout(150);
    if (await element.evaluate(seen)) return true;
  }
  return false;
}

// shape is what links that do the same have in common.
const shape = (page, href) => page + ' ' + href.replace(/[0-9a-f]{8,}|\d+/g, '#').replace(/(q|file|log|with|namespace|cluster|owner|user|label|finding)=[^&#]*/g, '$1=*').replace(/(clusters|sessions|namespaces)\/[^/?#]+/g, '$1/*');

async function open(page, url, filled) {
  const answer = await page.goto('about:blank').then(() => page.goto(url, { waitUntil: filled ? 'load' : 'domcontentloaded' }));
  if (filled) await page.waitForLoadState('networkidle', { timeout: 5000 }).catch(() => {});
  await page.locator('details').evaluateAll(all => all.forEach(d => { d.open = true; }));
  return answer.status();
}

// follow does something and tells where it leads. A form asks for a page: an address that changes before that is what
// was searched for as its field was filled.
async function follow(page, act, form) {
  const step = { status: 0 };
  let done, asked = false;
  const over = new Promise(resolve => { done = resolve; });
  const asks = r => { asked ||= r.isNavigationRequest() && r.frame() === page.mainFrame(); };
  const answered = r => {
    if (r.request().isNavigationRequest() && r.frame() === page.mainFrame() && (r.status() < 300 || r.status() >= 400)) step.status = r.status();
  };
  const arrived = frame => { if (frame === page.mainFrame() && (asked || !form)) done(); }; // also at another place of the same page
  const downloaded = async d => { step.download = fs.statSync(await d.path()).size; done(); };
  page.on('request', asks);
  page.on('response', answered);
  page.on('framenavigated', arrived);
  page.on('download', downloaded);
  await act();
  const within = async ms => {
    let timer;
    await Promise.race([over, new Promise(resolve => { timer = setTimeout(resolve, ms); })]);
    clearTimeout(timer);
  };
  await within(8000);
  if (asked) await within(WAIT); // a busy server answers later
  page.off('request', asks);
  page.off('response', answered);
  page.off('framenavigated', arrived);
  page.off('download', downloaded);
  if (!step.download) await page.waitForLoadState('load');
  step.url = page.url();
  step.says = await page.title();
  const results = page.locator('[data-state]'); // what a search says, on its own page
  if (!step.status && await results.count()) {
    await page.waitForFunction(() => /matching line/.test(document.querySelector('[data-state]').textContent)).catch(() => {});
    step.says = await results.textContent();
  }
  const place = /#([\w-]+)$/.exec(step.url);
  if (place) {
    const target = page.locator(`[id="${place[1]}"]`);
    step.found = await target.count() === 1 && await comes(page, target);
  }
  const shown = page.locator('.line.shown');
  if (await shown.count().catch(() => 0)) {
    const visible = await comes(page, shown);
    step.shown = { text: await shown.locator('.text').innerText(), seen: visible };
  }
  return step;
}

async function visit(context, job, spec, clicked, report) {
  const page = await context.newPage();
  if (spec.width) await page.setViewportSize({ width: spec.width, height: 800 });
  page.on('pageerror', e => report.errors.push({ page: spec.name, message: (e.stack || e.message).slice(0, 500) }));
  const url = job.base + spec.path, result = { name: spec.name, steps: [] };
  report.pages.push(result);
  // What is followed on this page though others have it: what leads to the page itself.
  const scope = href => (spec.fields && new URL(href).pathname === new URL(url).pathname ? spec.name : '');
  result.status = await open(page, url, spec.filled);
  const links = await page.locator('a[href]').evaluateAll(all => all.map(a => ({ href: new URL(a.getAttribute('href'), a.baseURI).href, text: a.textContent.trim().slice(0, 80), hidden: !a.checkVisibility() })));
  const forms = await page.locator('form').evaluateAll(all => all.map(f => ({ action: f.action, names: [...f.elements].map(e => e.name).join(',') })));
  // again opens the page unless the last step stayed on it.
  let stale = false;
  const again = async () => { if (stale) await open(page, url, spec.filled); stale = true; };
  for (const [i, { href, text, hidden }] of links.entries()) {
    if (hidden) continue;
    if (new URL(href).origin !== new URL(job.base).origin) { result.steps.push({ what: text, href, status: -1 }); continue; }
    const key = shape(scope(href), href), count = clicked.get(key) || 0;
    if (count >= ALIKE || clicked.has(scope(href) + href)) continue;
    clicked.set(key, count + 1);
    if (!href.startsWith(url.split('#')[0] + '#')) clicked.set(scope(href) + href, 1);
    await again();
    const link = page.locator('a[href]').nth(i);
    const step = await follow(page, () => link.evaluate(a => a.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true }))));
    result.steps.push({ what: text, href, ...step });
  }
  for (const [i, { action, names }] of forms.entries()) {
    const key = shape(scope(action) + 'form', action + ' ' + names);
    if (clicked.has(key)) continue;
    clicked.set(key, 1);
    await again();
    const form = page.locator('form').nth(i);
    for (const field of await form.locator('input[required], input[aria-invalid], input[type=search]').all()) await field.fill((spec.fields || {})[await field.getAttribute('name')] || '1');
    const step = await follow(page, () => form.locator('button:not([type=button])').first().evaluate(b => b.click()), true);
    result.steps.push({ what: 'form of ' + names, href: action, ...step });
  }
  await page.close();
}

(async () => {
  const job = JSON.parse(fs.readFileSync(0, 'utf8'));
  const report = { pages: [], errors: [] };
  const browser = await launch();
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, acceptDownloads: true });
  context.setDefaultTimeout(WAIT);
  const left = [...job.pages], clicked = new Map();
  const visitor = async () => {
    for (let spec; (spec = left.shift());) await visit(context, job, spec, clicked, report);
  };
  await Promise.all(Array.from({ length: VISITORS }, visitor));
  await browser.close();
  process.stdout.write(JSON.stringify(report));
})().catch(e => {
  console.error(e);
  process.exit(1);
});
