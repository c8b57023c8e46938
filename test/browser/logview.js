// node logview.js < JOB.json > REPORT.json
//
// Reads a log as a person would, with keys alone: scrolls from its beginning to its end, looks for a text and an error, selects lines. It judges
// nothing: that is for the test that runs it.
//
// JOB: {base, log, lines}
//   log    is the path of a log behind base, lines how many it has
// REPORT: {visits: [{width, dark, wide, top, most, last, first, found, said, alone, error, range, copied, menu}], errors: […]}
//   wide is how much wider than the window the page is; most are the most lines of the log that the page had at a time; last and first are the
//   numbers of the lines at its end and beginning once one has scrolled there; found, error and range are the address's ends after a search,
//   a step to an error and a selection of lines; said is what the page says of the search, and alone how many lines it shows of the matches alone;
//   menu is how far that of Download is from the window's left and right edge
const fs = require('fs');
const { inWindows } = require('./windows.js');


async function read(page, job) {
  const seen = {}, address = () => page.evaluate(() => location.hash);
  const lines = page.locator('.lines').first();
  await page.goto(job.base + job.log, { waitUntil: 'load' });
  await page.locator('.log.scrolls').waitFor();
  seen.wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await lines.focus();
  seen.most = 0;
  const scroll = async number => {
    for (let there = false; !there;) {
      let count;
      [count, there] = await lines.evaluate((box, n) => {
        box.scrollTop = n === 1 ? 0 : box.scrollHeight;
        return [box.querySelectorAll('.line').length, !!document.getElementById('L' + n)];
      }, number);
      seen.most = Math.max(seen.most, count);
      await page.waitForTimeout(50);
    }
  };
  await scroll(job.lines);
  seen.last = await lines.evaluate(box => box.lastElementChild.lastElementChild.id);
  await scroll(1);
  seen.first = await lines.evaluate(box => box.firstElementChild.firstElementChild.id);
  await page.keyboard.press('End');
  await page.waitForFunction(n => document.getElementById('L' + n) && document.querySelector('.place input').value === '1000', job.lines);
  await page.keyboard.press('Home');
  await page.waitForFunction(() => document.getElementById('L1') && document.querySelector('.place input').value === '0');

  await page.keyboard.press('/');
  await page.keyboard.type('line 2001 ');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash === '#L2001');
  await page.waitForFunction(() => /^1 of 1 matching line\.$/.test(document.querySelector('[data-state]').textContent));
  seen.found = await address();
  seen.sight = await page.locator('#L2001').evaluate(line => {
    const at = line.getBoundingClientRect(), box = line.closest('.lines').getBoundingClientRect();
    return at.top >= box.top && at.bottom <= box.bottom;
  });
  await page.locator('[data-only]').focus();
  await page.keyboard.press('Space');
  await page.locator('.only .line').first().waitFor();
  seen.alone = await page.locator('.only .line').count();
  await page.keyboard.press('Space');
  await lines.focus();
  await page.keyboard.press('Home');
  await page.locator('#L1').waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('e');
  await page.waitForFunction(n => location.hash === '#L' + n, job.error);
  seen.error = await address();
  await page.locator(`#L${job.error + 3} .number`).click({ modifiers: ['Shift'] });
  seen.range = await address();
  seen.marked = await page.locator('.line.in').count();
  const [file] = await Promise.all([page.waitForEvent('download'), page.locator('[data-file]').click()]);
  seen.copied = fs.readFileSync(await file.path(), 'utf8').split('\n').length - 1;
  await page.locator('.files summary').click();
  seen.menu = [];
  for (const width of [page.viewportSize().width, 400, 1000]) { // in the last two Download is on a line of its own
    await page.setViewportSize({ width, height: 900 });
    seen.menu.push(...await page.locator('.files > div').evaluate(menu => [menu.getBoundingClientRect().left, innerWidth - menu.getBoundingClientRect().right]));
  }
  await page.goto('about:blank');
  await page.goto(job.base + job.log + seen.range, { waitUntil: 'load' });
  await page.locator('.line.in').nth(3).waitFor();
  seen.again = await page.locator('.line.in').count();
  return seen;
}

inWindows(read);
