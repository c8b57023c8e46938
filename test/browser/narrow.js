// node narrow.js < JOB.json > REPORT.json
//
// Looks at the list of sessions and at the bar in a narrow window, works the replay slider by keys, and looks at a table of tasks that the
// server cut. It judges nothing: that is for the test that runs it.
//
// JOB: {root, base, job, tasks}: the list's address, a session's, the page of a job below that, and how many tasks the server is to have
// REPORT: {width, enter: right edge of the first session's button, name: {text, shown, whole}, link: where its name leads to,
//   keys: [the moment after each key, ms or null], marks: [times below the slider], cut: what the bar says of the table,
//   list: {top: of the first session on the screen of a phone, folded: that fields of the form are hidden, opened: that More filters shows them,
//     back: the outcome in the form after one was chosen and one went back},
//   phone: {bottom: of the bar on the screen of a phone, height: of the screen},
//   windows: [{width, height: of the bar, right: where its last part ends, folded: that it has a menu, tabs: [title and address]}]}
const fs = require('fs');
const { WAIT, launch } = require('./windows.js');

const width = 800;

(async () => {
  const job = JSON.parse(fs.readFileSync(0, 'utf8'));
  const browser = await launch();
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
  // The bar is one line in all windows, and has the pages of the session in sight or in its menu.
  report.windows = [];
  for (const wide of [1400, 800, 360]) {
    await page.setViewportSize({ width: wide, height: 700 });
    await page.evaluate(() => { localStorage.timezone = 'Asia/Tokyo'; document.body.click(); });
    await page.waitForFunction(() => document.querySelector('ray-history-bar').shadowRoot.querySelector('.when').textContent.includes('GMT+9'));
    report.windows.push(await page.evaluate(() => {
      const root = document.querySelector('ray-history-bar').shadowRoot, strip = root.querySelector('.strip');
      const menu = [...root.querySelectorAll('.menu')].find(m => m.textContent.startsWith('Pages'));
      const shown = [...strip.children].filter(e => e.getClientRects().length);
      if (!menu.hidden) menu.open = true;
      const tabs = [...root.querySelectorAll('.tabs a')], box = e => e.getBoundingClientRect();
      const seen = { width: innerWidth, height: box(strip).height, right: Math.max(...shown.map(e => box(e).right)), folded: !menu.hidden,
        tabs: tabs.filter(a => box(a).width && box(a).left >= 0 && box(a).right <= innerWidth && box(a).top >= 0).map(a => a.textContent + ' ' + new URL(a.href).pathname.split('/').pop()) };
      menu.open = false;
      return seen;
    }));
    if (process.env.PICTURES) await page.screenshot({ path: `${process.env.PICTURES}/bar-${wide}.png` });
  }
  // Ray's pages are wider than the screen of a phone.
  const phone = await (await browser.newContext({ viewport: { width: 400, height: 800 }, isMobile: true, hasTouch: true })).newPage();
  phone.setDefaultTimeout(WAIT);
  await phone.goto(job.root);
  const top = await phone.locator('a.name').first().evaluate(a => a.getBoundingClientRect().top), outcome = phone.locator('[name=outcome]');
  const folded = !await outcome.isVisible();
  await phone.getByText('More filters').click();
  report.list = { top, folded, opened: await outcome.isVisible() };
  await outcome.selectOption('failed');
  await phone.waitForURL(/outcome=failed/);
  await phone.goBack({ waitUntil: 'load' });
  report.list.back = await outcome.inputValue();
  await phone.goto(job.base + job.job);
  await phone.getByText(/^\s*Task Table\s*$/i).first().waitFor();
  report.phone = await phone.evaluate(() => {
    const { height } = visualViewport;
    return { bottom: document.querySelector('ray-history-bar').getBoundingClientRect().bottom, height: Math.round(height * visualViewport.scale) };
  });
  await browser.close();
  process.stdout.write(JSON.stringify(report));
})().catch(e => {
  console.error(e);
  process.exit(1);
});
