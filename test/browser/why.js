// node why.js < JOB.json > REPORT.json
//
// Goes from where one stands to why a job failed, as a person would: reads the list, opens the dashboard's list of jobs, a job's page by a click,
// and from there the page of findings by another. It judges nothing: that is for the test that runs it.
//
// JOB: {base, list, session, job, cause, text}
//   list, session  are paths behind base
//   job            is the ID of the driver of the job that is opened
//   cause          is what the list says of the session, text what the evidence of the job says
// REPORT: {list: [{width, lines, top, bottom, right}], bar: [what the bar says], clicked: URL, pages: [{width, dark, shown, wide, height, top, bottom}]}
//   lines is the height of the cause in lines of text; top, bottom and right are places in the window, in pixels
//   shown is whether the text is visible, and bottom where it ends; wide is how much wider than the window the page is
const fs = require('fs');
const { WAIT, launch } = require('./windows.js');

const widths = [400, 800, 1400], height = 900;

(async () => {
  const job = JSON.parse(fs.readFileSync(0, 'utf8'));
  const report = { list: [], bar: [], pages: [], errors: [] };
  const browser = await launch();
  const open = async (width, dark) => {
    const page = await browser.newPage({ viewport: { width, height }, colorScheme: dark ? 'dark' : 'light' });
    page.setDefaultTimeout(WAIT);
    page.on('pageerror', e => report.errors.push((e.stack || e.message).slice(0, 1000)));
    return page;
  };
  for (const width of widths) {
    const page = await open(width, false);
    await page.goto(job.base + job.list, { waitUntil: 'load' });
    const line = page.locator('.because a', { hasText: job.cause }).first();
    await line.scrollIntoViewIfNeeded();
    report.list.push(await line.evaluate((a, width) => {
      const { top, bottom, right } = a.getBoundingClientRect();
      return { width, top, bottom, right, lines: (bottom - top) / parseFloat(getComputedStyle(a).lineHeight) };
    }, width));
    await page.close();
  }

  const page = await open(1400, false);
  const why = page.locator('ray-history-bar .findings');
  const said = async () => { await why.waitFor(); report.bar.push(await why.textContent()); };
  await page.goto(job.base + job.session + '/#/jobs', { waitUntil: 'load' });
  await said();
  await page.locator(`a[href*="jobs/${job.job}"]`).first().click();
  await page.waitForURL(url => url.hash.includes(job.job));
  await said();
  await page.goBack();
  await said();
  await page.goForward();
  await said();
  await why.click();
  await page.locator('h1').first().waitFor();
  report.clicked = page.url();
  await page.close();

  for (const width of widths) {
    for (const dark of [false, true]) {
      const page = await open(width, dark);
      await page.goto(report.clicked, { waitUntil: 'load' });
      const text = page.locator('.finding h3', { hasText: job.text }).first();
      const box = await text.boundingBox();
      report.pages.push({
        width, dark, shown: await text.isVisible(), top: box.y, bottom: box.y + box.height,
        ...(await page.evaluate(() => ({ wide: document.documentElement.scrollWidth - innerWidth, height: document.documentElement.scrollHeight }))),
      });
      await page.close();
    }
  }
  await browser.close();
  process.stdout.write(JSON.stringify(report));
})().catch(e => {
  console.error(e);
  process.exit(1);
});
