// node visit.js < JOB.json > REPORT.json
//
// Opens pages of a dashboard in Chromium and reports what the browser saw: the text of each page, every request
// that failed, every error of a page's scripts. It judges nothing: that is for the test that runs it.
//
// JOB: {base, enter?, out?, all?, ahead?, width?, pages: [{name, path, press?: [selector…], keys?: [key…], click?: [text…], downloads?, wait?}]}
//   enter  is opened first, to choose a session by cookie
//   path   is put behind base
//   press  are CSS selectors of elements to click before, in order, the first of each: what has no text
//   keys   are pressed after that, in order, as Playwright names them; what begins with = is typed as text, and Enter leads to another page
//   click  are texts of elements to click, in order; a download that starts is reported with its size
//   downloads is how many are waited for
//   wait   is a text to wait for at the end; it and what was to be clicked are reported as missing where they are not there
//   out    is a folder for a screenshot of each page that lacks something, or with all of every page
//   ahead  is how many milliseconds the browser's clock is ahead of the time
//   width  is that of the window, in pixels
// REPORT: {pages: [{name, url, text, missing, downloads: [{name, bytes}]}], requests: [{page, method, url, status, error?}], errors: [{page, message}]}
//   status is 0 where there was no answer; error is why, or how an answer of 400 and above begins
const fs = require('fs');
const { WAIT, launch } = require('./windows.js');

const QUIET = 15000; // ms to wait for quiet
const VISITORS = 3; // pages open at a time: most of a visit is waiting

// settle waits until a page has loaded, and has drawn what it asked for since: after a click the load state is still that of before.
async function settle(page, open) {
  for (const end = Date.now() + QUIET; ;) {
    await page.waitForLoadState('networkidle', { timeout: QUIET }).catch(() => {});
    // A page that is left draws nothing more.
    const drawn = await page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))).then(() => true, () => false);
    // Some pages poll or stream, and so are never quiet: that is not an error.
    if ((drawn && !open.size) || Date.now() > end) return;
  }
}

// setClock runs in a page before its own scripts.
function setClock(ahead) {
  const Real = Date;
  window.Date = class extends Real {
    constructor(...given) {
      super(...(given.length ? given : [Real.now() + ahead]));
    }
    static now() {
      return Real.now() + ahead;
    }
  };
}

async function visit(context, job, spec, report) {
  const page = await context.newPage();
  const open = new Set(); // requests
  page.on('request', r => open.add(r));
  page.on('requestfinished', r => open.delete(r));
  page.on('response', async r => {
    const request = { page: spec.name, method: r.request().method(), url: r.url(), status: r.status() };
    report.requests.push(request);
    if (r.status() >= 400) request.error = (await r.text().catch(() => '')).slice(0, 300);
  });
  page.on('requestfailed', r => {
    open.delete(r);
    const why = r.failure() ? r.failure().errorText : '';
    // A page that is left takes its open requests with it; a download is no page.
    if (why !== 'net::ERR_ABORTED') report.requests.push({ page: spec.name, method: r.method(), url: r.url(), status: 0, error: why });
  });
  page.on('pageerror', e => report.errors.push({ page: spec.name, message: (e.stack || e.message).slice(0, 1000) }));
  page.on('console', m => { if (m.text().includes('Content Security Policy')) report.errors.push({ page: spec.name, message: m.text() }); });
  const result = { name: spec.name, missing: [], downloads: [] };
  const downloads = [];
  page.on('download', d => downloads.push(d));
  const enter = () => page.goto(job.base + spec.path, { waitUntil: 'load' });
  // Chromium gives up all it asks for when a network interface comes or goes, as those of clusters beside these tests do.
  await enter().catch(e => { if (!e.message.includes('ERR_NETWORK_CHANGED')) throw e; return enter(); });
  await settle(page, open);
  for (const selector of spec.press || []) {
    if (!(await page.locator(selector).first().click().then(() => true, () => false))) result.missing.push(selector);
    await settle(page, open);
  }
  for (const key of spec.keys || []) {
    if (key.startsWith('=')) await page.keyboard.type(key.slice(1));
    else if (key !== 'Enter') await page.keyboard.press(key);
    else {
      await Promise.all([page.waitForNavigation({ waitUntil: 'load' }), page.keyboard.press(key)]);
      await settle(page, open);
    }
  }
  for (const text of spec.click || []) {
    // Style sheets write some labels in capitals.
    const label = page.getByText(new RegExp(`^\\s*${text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}\\s*$`, 'i')).first();
    if (!(await label.click().then(() => true, () => false))) result.missing.push(text);
    await settle(page, open);
  }
  const shows = spec.wait && (await page.getByText(spec.wait).first().waitFor().then(() => true, () => false));
  if (spec.wait && !shows) result.missing.push(spec.wait);
  for (const end = Date.now() + QUIET; downloads.length < (spec.downloads || 0) && Date.now() < end;) await page.waitForTimeout(50);
  for (const d of downloads) {
    const path = await d.path();
    result.downloads.push({ name: d.suggestedFilename(), bytes: fs.statSync(path).size });
  }
  // A page that is blank is reported as it is.
  await page.waitForFunction(() => document.body.innerText.trim().length >= 40, null, { timeout: QUIET }).catch(() => {});
  result.url = page.url();
  result.text = await page.evaluate(() => document.body.innerText);
  if (job.out && (job.all || result.missing.length)) await page.screenshot({ path: `${job.out}/${spec.name.replace(/[^A-Za-z0-9._-]+/g, '_')}.png` });
  await page.close();
  report.pages.push(result);
}

(async () => {
  const job = JSON.parse(fs.readFileSync(0, 'utf8'));
  const report = { pages: [], requests: [], errors: [] };
  if (job.out) fs.mkdirSync(job.out, { recursive: true });
  const browser = await launch();
  const context = await browser.newContext({ viewport: { width: job.width || 1400, height: 1600 }, acceptDownloads: true, colorScheme: job.dark ? 'dark' : 'light' });
  context.setDefaultTimeout(WAIT);
  if (job.ahead) await context.addInitScript(setClock, job.ahead);
  if (job.enter) await (await context.newPage()).goto(job.enter);
  const left = [...job.pages];
  const visitor = async () => {
    for (let spec; (spec = left.shift());) await visit(context, job, spec, report);
  };
  await Promise.all(Array.from({ length: VISITORS }, visitor));
  await browser.close();
  process.stdout.write(JSON.stringify(report));
})().catch(e => {
  console.error(e);
  process.exit(1);
});
