// node frame.js < JOB.json > REPORT.json
//
// Chooses colours and the zone of times by keyboard alone, as a person in Tokyo would, saves, opens and removes a view of the list, and closes
// what lies over pages. It judges nothing: that is for the test that runs it.
//
// JOB: {base, list, session, axis, sheets}: list and session are the paths of pages with times, axis that of one with an axis of times, sheets are
//   paths of pages with the selector of what opens something over them
// REPORT: {chosen: {name: value}, errors: […], others: […], days: {zone: the days of an axis over three days, in UTC},
//   sheets: [what opens one, and whether it is open and what opens it has the focus: opened, after Escape, opened, after a click elsewhere],
//   views: [the names of saved views after each step, at last whether a page without scripts shows any]}
const fs = require('fs');
const { WAIT, launch, watch } = require('./windows.js');

(async () => {
  const job = JSON.parse(fs.readFileSync(0, 'utf8'));
  const report = { chosen: {}, sheets: [], errors: [], others: [] };
  const browser = await launch();
  const context = await browser.newContext({ timezoneId: 'Asia/Tokyo', colorScheme: 'light', viewport: { width: 1400, height: 800 } });
  context.setDefaultTimeout(WAIT);
  const page = await context.newPage();
  watch(page, job.base, report);
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
  await page.goto(job.base + job.axis, { waitUntil: 'load' });
  report.days = await page.evaluate(zones => Object.fromEntries(zones.map(zone => {
    const days = window.rayHistory.ticks(Date.parse('2026-03-28T10:00Z'), Date.parse('2026-03-31T10:00Z'), 864e5, zone);
    return [zone, days.map(day => new Date(day).toISOString().slice(8, 16)).join(' ')];
  })), ['Asia/Kolkata', 'Europe/Berlin', 'Etc/UTC']);
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
  // What lies over a page is closed with Escape, which gives the focus back, and by a click elsewhere.
  await page.setViewportSize({ width: 800, height: 800 }); // so that the bar has a menu
  for (const [path, opener] of job.sheets) {
    await page.goto(job.base + path, { waitUntil: 'load' });
    const summary = page.locator(opener).first();
    const look = () => summary.evaluate(e => (e.parentElement.open ? 'open' : 'closed') + (e.getRootNode().activeElement === e ? ' focused' : ''));
    const states = [];
    for (const close of [() => page.keyboard.press('Escape'), () => page.mouse.click(4, 400)]) {
      await summary.click();
      await page.keyboard.press('Tab');
      states.push(await look());
      await close();
      states.push(await look());
    }
    report.sheets.push(`${opener}: ${states.join(', ')}`);
  }
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
