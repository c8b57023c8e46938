// node frame.js < JOB.json > REPORT.json
//
// Opens pages in windows of several widths, in light and dark colours, and chooses colours and the zone of times by keyboard alone, as a person
// in Tokyo would. It judges nothing: that is for the test that runs it.
//
// JOB: {base, list, session, widths, pages: [path…]}: list and session are the paths of pages with times
// REPORT: {pages: [{path, width, dark, wide}], others: [addresses of other hosts that were asked], scripts: {path: bytes}, chosen: {name: value}, errors: […],
//   views: [the names of saved views after each step, at last whether a page without scripts shows any]}
//   wide is how much wider than the window the page is, in pixels; scripts is the size of a page's scripts as they are sent
const { chromium } = require('playwright-core');
const fs = require('fs');

const WAIT = 120000; // ms: machines are busy
const flags = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'];

(async () => {
  const job = JSON.parse(fs.readFileSync(0, 'utf8'));
  const report = { pages: [], others: [], scripts: {}, chosen: {}, errors: [] };
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: flags });
  for (const dark of [false, true]) {
    const page = await browser.newPage({ colorScheme: dark ? 'dark' : 'light' });
    page.setDefaultTimeout(WAIT);
    page.on('pageerror', e => report.errors.push((e.stack || e.message).slice(0, 1000)));
    page.on('request', r => { if (!r.url().startsWith(job.base) && !r.url().startsWith('data:')) report.others.push(r.url()); });
    for (const path of job.pages) {
      await page.goto(job.base + path, { waitUntil: 'load' });
      for (const width of job.widths) {
        await page.setViewportSize({ width, height: 800 });
        report.pages.push({ path, width, dark, wide: await page.evaluate(() => document.documentElement.scrollWidth - innerWidth) });
      }
      report.scripts[path] = await page.evaluate(() => performance.getEntriesByType('resource').filter(r => r.initiatorType === 'script').reduce((sum, r) => sum + r.encodedBodySize, 0));
    }
    await page.close();
  }

  const context = await browser.newContext({ timezoneId: 'Asia/Tokyo', colorScheme: 'light', viewport: { width: 1400, height: 800 } });
  context.setDefaultTimeout(WAIT);
  const page = await context.newPage();
  const look = async name => {
    await page.waitForFunction(() => document.querySelector('time')?.title);
    report.chosen[name] = await page.evaluate(() => ({
      time: document.querySelector('time').title, ground: getComputedStyle(document.body).backgroundColor, dashboard: [localStorage.themeMode || '', localStorage.timezone || ''].join(' '),
    }));
  };
  await page.goto(job.base + job.list, { waitUntil: 'load' });
  await look('at first');
  for (let i = 0; i < 12 && !(await page.evaluate(() => document.activeElement.matches('.settings summary'))); i++) await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  await page.keyboard.press('End'); // Dark
  await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowDown'); // UTC
  await page.keyboard.press('Escape');
  await look('chosen');
  await page.goto(job.base + job.session, { waitUntil: 'load' });
  await look('on another page');
  // A view of the list is saved, opened and removed with keys alone.
  await page.goto(job.base + '/homepage?outcome=failed', { waitUntil: 'load' });
  const views = () => page.locator('[data-views] a').allTextContents();
  report.views = [await views()];
  await page.getByRole('button', { name: 'Save this view' }).focus();
  await page.keyboard.press('Enter');
  await page.keyboard.type('Failures <b>');
  await page.keyboard.press('Enter');
  report.views.push(await views());
  await page.goto(job.base + '/homepage', { waitUntil: 'load' });
  await page.locator('[data-views] a').focus();
  await Promise.all([page.waitForURL(/outcome=failed/), page.keyboard.press('Enter')]);
  await page.waitForLoadState('load');
  report.views.push(await views(), [await page.locator('[data-views] [aria-current]').textContent()]);
  await page.getByRole('button', { name: 'Remove the view Failures <b>' }).focus();
  await page.keyboard.press('Enter');
  report.views.push(await views());
  await page.reload({ waitUntil: 'load' });
  report.views.push(await views());
  const plain = await browser.newContext({ javaScriptEnabled: false });
  const bare = await plain.newPage();
  await bare.goto(job.base + '/homepage?outcome=failed', { waitUntil: 'load' });
  report.views.push([String(await bare.locator('[data-views]').isVisible())]);
  await browser.close();
  process.stdout.write(JSON.stringify(report));
})().catch(e => {
  console.error(e);
  process.exit(1);
});
