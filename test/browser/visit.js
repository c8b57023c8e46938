// node visit.js < JOB.json > REPORT.json
//
// Opens pages of a dashboard in Chromium and reports what the browser saw: the text of each page, every request
// that failed, every error of a page's scripts. It judges nothing: that is for the test that runs it.
//
// JOB: {base, enter?, out?, ahead?, width?, pages: [{name, path, press?: [selector…], keys?: [key…], click?: [text…], wait?}]}
//   enter  is opened first, to choose a session by cookie
//   path   is put behind base
//   press  are CSS selectors of elements to click before, in order, the first of each: what has no text
//   keys   are pressed after that, in order, as Playwright names them; what begins with = is typed as text, and Enter leads to another page
//   click  are texts of elements to click, in order; a download that starts is reported with its size
//   wait   is a text to wait for at the end; it and what was to be clicked are reported as missing where they are not there
//   out    is a folder for a screenshot of each page
//   ahead  is how many milliseconds the browser's clock is ahead of the time
//   width  is that of the window, in pixels
// REPORT: {pages: [{name, url, text, missing, downloads: [{name, bytes}]}], requests: [{page, method, url, status, error?}], errors: [{page, message}]}
//   status is 0 where there was no answer; error is why, or how an answer of 400 and above begins
const { chromium } = require('playwright-core');
const fs = require('fs');

const WAIT = 120000; // ms to wait for a page or a text: machines are busy
const QUIET = 15000; // ms to wait for quiet
const VISITORS = 3; // pages open at a time: most of a visit is waiting
const flags = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'];

async function settle(page) {
  // Some pages poll or stream, and so are never quiet: that is not an error.
  await page.waitForLoadState('networkidle', { timeout: QUIET }).catch(() => {});
  await page.waitForTimeout(500);
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

async function visit(context, base, spec, out, report) {
  const page = await context.newPage();
  page.on('response', async r => {
    const request = { page: spec.name, method: r.request().method(), url: r.url(), status: r.status() };
    report.requests.push(request);
    if (r.status() >= 400) request.error = (await r.text().catch(() => '')).slice(0, 300);
  });
  page.on('requestfailed', r => {
    const why = r.failure() ? r.failure().errorText : '';
    // A page that is left takes its open requests with it; a download is no page.
    if (why !== 'net::ERR_ABORTED') report.requests.push({ page: spec.name, method: r.method(), url: r.url(), status: 0, error: why });
  });
  page.on('pageerror', e => report.errors.push({ page: spec.name, message: (e.stack || e.message).slice(0, 1000) }));
  const result = { name: spec.name, missing: [], downloads: [] };
  const downloads = [];
  page.on('download', d => downloads.push(d));
  await page.goto(base + spec.path, { waitUntil: 'load' });
  await settle(page);
  for (const selector of spec.press || []) {
    if (!(await page.locator(selector).first().click().then(() => true, () => false))) result.missing.push(selector);
    await settle(page);
  }
  for (const key of spec.keys || []) {
    if (key.startsWith('=')) await page.keyboard.type(key.slice(1));
    else if (key !== 'Enter') await page.keyboard.press(key);
    else {
      await Promise.all([page.waitForNavigation({ waitUntil: 'load' }), page.keyboard.press(key)]);
      await settle(page);
    }
  }
  for (const text of spec.click || []) {
    // Style sheets write some labels in capitals.
    const label = page.getByText(new RegExp(`^\\s*${text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}\\s*$`, 'i')).first();
    if (!(await label.click().then(() => true, () => false))) result.missing.push(text);
    await settle(page);
  }
  const shows = spec.wait && (await page.getByText(spec.wait).first().waitFor().then(() => true, () => false));
  if (spec.wait && !shows) result.missing.push(spec.wait);
  for (const d of downloads) {
    const path = await d.path();
    result.downloads.push({ name: d.suggestedFilename(), bytes: fs.statSync(path).size });
  }
  // A page that is blank is reported as it is.
  await page.waitForFunction(() => document.body.innerText.trim().length >= 40, null, { timeout: QUIET }).catch(() => {});
  result.url = page.url();
  result.text = await page.evaluate(() => document.body.innerText);
  if (out) await page.screenshot({ path: `${out}/${spec.name.replace(/[^A-Za-z0-9._-]+/g, '_')}.png` });
  await page.close();
  report.pages.push(result);
}

(async () => {
  const job = JSON.parse(fs.readFileSync(0, 'utf8'));
  const report = { pages: [], requests: [], errors: [] };
  if (job.out) fs.mkdirSync(job.out, { recursive: true });
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: flags });
  const context = await browser.newContext({ viewport: { width: job.width || 1400, height: 1600 }, acceptDownloads: true, colorScheme: job.dark ? 'dark' : 'light' });
  context.setDefaultTimeout(WAIT);
  if (job.ahead) await context.addInitScript(setClock, job.ahead);
  if (job.enter) await (await context.newPage()).goto(job.enter);
  const left = [...job.pages];
  const visitor = async () => {
    for (let spec; (spec = left.shift());) await visit(context, job.base, spec, job.out, report);
  };
  await Promise.all(Array.from({ length: VISITORS }, visitor));
  await browser.close();
  process.stdout.write(JSON.stringify(report));
})().catch(e => {
  console.error(e);
  process.exit(1);
});
