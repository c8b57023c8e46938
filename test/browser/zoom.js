// node zoom.js < JOB.json > REPORT.json
//
// Looks closer at a session's metrics as a person would: drags over a panel, goes back, types a range, resets it, and has another session's
// figures drawn over these. It judges nothing: that is for the test that runs it.
//
// JOB: {base, page, with}: the path of a page of panels behind base, and the session that is drawn over it
// REPORT: {visits: [{width, wide, whole, dragged, back, typed, reset, dashed}], errors: […]}
//   whole, dragged, back, typed and reset are the ranges that the page then shows, [from, to] in Unix ms; dashed is how many lines are dashed
const { inWindows } = require('./windows.js');


async function zoom(page, job) {
  const seen = {};
  const range = async () => {
    await page.locator('.panel svg').first().waitFor();
    return page.evaluate(() => [Number(document.body.dataset.from), Number(document.body.dataset.to)]);
  };
  await page.goto(job.base + job.page, { waitUntil: 'load' });
  seen.whole = await range();
  seen.wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  const chart = page.locator('.panel svg').first();
  await chart.scrollIntoViewIfNeeded();
  const box = await chart.boundingBox();
  await page.mouse.move(box.x + box.width * .5, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * .75, box.y + box.height / 2, { steps: 5 });
  await page.mouse.up();
  await page.waitForURL(/from=\d+/);
  seen.dragged = await range();
  await page.goBack();
  await page.waitForURL(url => !url.search.includes('from='));
  seen.back = await range();
  await page.locator('[name=from]').focus();
  await page.keyboard.type('1m ago');
  await page.keyboard.press('Enter');
  await page.waitForURL(/from=1m/);
  seen.typed = await range();
  await page.getByRole('link', { name: 'Whole session' }).focus();
  await page.keyboard.press('Enter');
  await page.waitForURL(url => !url.search.includes('from='));
  seen.reset = await range();
  await page.goto(job.base + job.page + '?with=' + job.with, { waitUntil: 'load' });
  await page.locator('.panel svg path[stroke-dasharray="8 6"]').first().waitFor({ state: 'attached' });
  seen.dashed = await page.locator('.panel svg path[stroke-dasharray="8 6"]').count();
  return seen;
}

inWindows(zoom);
