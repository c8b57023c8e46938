// node bar.js < JOB.json > REPORT.json
//
// Works the bar of a stored session as a person would: opens the slider, drags it, steps, plays, shares, goes to the end and to the list of
// sessions. It reports what the address and the page were after each step; it judges nothing: that is for the test that runs it.
//
// JOB: {base, path, shows, fraction}
//   path      is put behind base; a page that shows a number which changes over the session's life
//   shows     is a regular expression whose first group is that number
//   counts    is the request, put behind the page's own path, whose answer has it as num_filtered
//   fraction  is where to drag the slider to, 0 for the session's start and 1 for its end
// REPORT: {steps: {name: {url, shown, counted, time}}, bars, lines: [name], shared, errors: [message]}
const fs = require('fs');
const { WAIT, launch } = require('./windows.js');

const quiet = promise => promise.catch(() => {});

(async () => {
  const job = JSON.parse(fs.readFileSync(0, 'utf8'));
  const shows = new RegExp(job.shows);
  const report = { steps: {}, errors: [] };
  const browser = await launch();
  const context = await browser.newContext({ viewport: { width: 1400, height: 1000 }, permissions: ['clipboard-read', 'clipboard-write'] });
  context.setDefaultTimeout(WAIT);

  // What the server counts at the moment that the page's address names.
  const counted = page => page.evaluate(async query => {
    const answer = await fetch(location.pathname + query);
    return (await answer.json()).data.result.num_filtered;
  }, job.counts);
  // The page follows its address with its next request.
  const note = async (name, page) => {
    const count = await counted(page);
    await quiet(page.waitForFunction(([source, count]) => {
      const found = new RegExp(source).exec(document.body.innerText);
      return found && Number(found[1]) === count;
    }, [job.shows, count]));
    const found = shows.exec(await page.evaluate(() => document.body.innerText));
    const time = await page.locator('ray-history-bar .time').textContent();
    report.steps[name] = { url: page.url(), shown: found ? Number(found[1]) : null, counted: count, time };
  };
  const press = (page, name) => page.getByRole('button', { name, exact: true }).click();

  const page = await context.newPage();
  page.on('pageerror', e => report.errors.push(e.message));
  await page.goto(job.base + job.path, { waitUntil: 'load' });
  await note('the end', page);

  await press(page, 'Replay');
  await quiet(page.locator('ray-history-bar rect').first().waitFor({ state: 'attached' }));
  report.bars = { running: await page.locator('ray-history-bar rect.running').count(), failed: await page.locator('ray-history-bar rect.failed').count() };
  await quiet(page.locator('ray-history-bar .usage span').first().waitFor({ state: 'attached' }));
  report.lines = await page.locator('ray-history-bar .usage span').allTextContents();
  const box = await page.locator('ray-history-bar input').boundingBox();
  const drag = async fraction => {
    await page.mouse.move(box.x + box.width - 2, box.y + box.height / 2);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * fraction, box.y + box.height / 2, { steps: 8 });
    await page.mouse.up();
  };
  await drag(job.fraction);
  await note('dragged', page);

  await press(page, 'Copy link');
  report.shared = await page.evaluate(() => navigator.clipboard.readText());
  const other = await context.newPage();
  other.on('pageerror', e => report.errors.push(e.message));
  await other.goto(report.shared, { waitUntil: 'load' });
  await note('the shared link', other);
  await other.close();

  await press(page, 'One step on');
  await note('a step on', page);
  await press(page, 'One step back');
  await note('a step back', page);
  await press(page, 'Play');
  const before = page.url();
  await quiet(page.waitForURL(url => url.href !== before));
  await press(page, 'Pause');
  await note('played', page);
  await press(page, 'To the end');
  await note('back at the end', page);
  await page.getByRole('link', { name: 'Clusters', exact: true }).click();
  await page.waitForLoadState('load');
  report.steps['all sessions'] = { url: page.url() };
  await browser.close();
  process.stdout.write(JSON.stringify(report));
})().catch(e => {
  console.error(e);
  process.exit(1);
});
