// node search.js < JOB.json > REPORT.json
//
// Searches the logs of a session with keys alone, opens a folded log of the results, marks logs and reads them side by side; then once more
// without scripts. It judges nothing: that is for the test that runs it.
//
// JOB: {base, session, text}: session is a session's path behind base, text what is looked for
// REPORT: {visits: [{width, wide, printed, groups, open, drawn, opened, marked, logs, rows, columns, earlier, plain}], errors: […]}
//   printed says whether results and form are seen on paper; groups are the logs in the results, open those that are open at first, drawn
//   the lines that are drawn of a folded one before and opened
//   after it was opened; marked is the address that the marked logs have, with so many logs and rows; plain is how many logs a page without
//   scripts shows
const { inWindows, WAIT } = require('./windows.js');

async function search(page, job) {
  const seen = {};
  await page.goto(job.base + job.session + '/search', { waitUntil: 'load' });
  await page.locator('[name=q]').focus();
  await page.keyboard.type(job.text);
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => /matching lines?, \d+ shown/.test(document.querySelector('[data-state]').textContent));
  seen.wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await page.emulateMedia({ media: 'print' });
  seen.printed = [await page.locator('.hit').first().isVisible(), await page.locator('form.filters').isVisible()].join(' ');
  await page.emulateMedia({ media: null });
  seen.about = await page.locator('.hit summary .faint').allTextContents();
  seen.groups = await page.locator('.hit').count();
  seen.open = await page.locator('.hit details[open]').count();
  const folded = page.locator('.hit').nth(3);
  seen.drawn = await folded.locator('li').count();
  await folded.locator('summary').focus();
  await page.keyboard.press('Enter');
  await folded.locator('li').first().waitFor();
  seen.opened = await folded.locator('li').count();
  for (const i of [0, 3]) {
    await page.locator('.hit > input').nth(i).focus();
    await page.keyboard.press('Space');
  }
  await page.locator('.hits button').focus();
  await page.keyboard.press('Enter');
  await page.locator('.merged .line').first().waitFor();
  seen.marked = page.url();
  seen.logs = await page.locator('.merged-logs .legend li').count();
  seen.rows = await page.locator('.merged .line').count();
  await page.getByRole('link', { name: 'In columns' }).click();
  await page.locator('.merged.wide').waitFor();
  seen.columns = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await page.locator('.merged .number').first().click();
  await page.locator('.log.scrolls').waitFor();
  seen.line = page.url();
  return seen;
}

inWindows(search, async (browser, job, report) => {
  const plain = await browser.newPage({ javaScriptEnabled: false });
  plain.setDefaultTimeout(WAIT);
  await plain.goto(job.base + job.session + '/search', { waitUntil: 'load' });
  await plain.locator('[name=q]').fill(job.text);
  await plain.locator('[name=q]').press('Enter');
  await plain.waitForURL(/plain=1/);
  report.plain = await plain.locator('.hit li a').count();
});
