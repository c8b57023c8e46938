// node strip.js < JOB.json > REPORT.json
//
// Looks at the list of sessions and at the bar in a narrow window, works the replay slider by keys, and looks at a table of tasks that the
// server cut. It judges nothing: that is for the test that runs it.
//
// JOB: {root, base, job, tasks}: the list's address, a session's, the page of a job below that, and how many tasks the server is to have
// REPORT: {width, enter: right edge of the first session's button, name: {text, shown, whole}, link: where its name leads to,
//   keys: [the moment after each key, ms or null], marks: [times below the slider], cut: what the bar says of the table}
const { chromium } = require('playwright-core');
const fs = require('fs');

const width = 800;
const WAIT = 120000; // ms: machines are busy
const flags = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'];

(async () => {
  const job = JSON.parse(fs.readFileSync(0, 'utf8'));
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: flags });
  const page = await browser.newPage({ viewport: { width, height: 600 } });
  page.setDefaultTimeout(WAIT);
  const report = { width, keys: [] };
  await page.goto(job.root);
  const enter = await page.getByRole('button', { name: /^Enter Cluster Dashboard/ }).or(page.getByRole('link', { name: /^Enter Cluster Dashboard/ })).first().boundingBox();
  report.enter = enter.x + enter.width;
  report.link = await page.locator('a.name').first().evaluate(a => a.href);

  await page.route(/\/api\/v0\/tasks\?(?=.*limit=1(&|$))/, async route => {
    const answer = await route.fetch(), body = await answer.json();
    body.data.result.num_filtered = job.tasks;
    await route.fulfill({ response: answer, json: body });
  });
  await page.goto(job.base + job.job);
  const name = page.locator('ray-history-bar .what b');
  report.name = await name.evaluate(b => ({ text: b.textContent, shown: Math.min(b.getBoundingClientRect().right, b.parentElement.getBoundingClientRect().right), whole: b.getBoundingClientRect().right }));
  const cut = page.locator('ray-history-bar .cut[role=status]');
  await page.getByText(/^\s*Task Table\s*$/i).first().click();
  await cut.waitFor();
  report.cut = await cut.textContent();

  await page.getByRole('button', { name: 'Replay', exact: true }).click();
  await page.locator('ray-history-bar rect').first().waitFor({ state: 'attached' });
  report.marks = await page.locator('ray-history-bar .axis span').allTextContents();
  for (const key of ['Home', 'ArrowRight', 'PageUp', 'ArrowLeft', 'End']) {
    await page.keyboard.press(key);
    const moment = /\/at\/(\d+)\//.exec(await page.evaluate(() => location.href)); // what the browser tells by itself comes later
    report.keys.push(moment ? Number(moment[1]) : null);
  }
  await browser.close();
  process.stdout.write(JSON.stringify(report));
})().catch(e => {
  console.error(e);
  process.exit(1);
});
