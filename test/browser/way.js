// node way.js < JOB.json > REPORT.json
//
// Goes through the server's own pages with keys alone, as a person would who asks why a cluster's job failed: searches the list, opens the
// cause, its line of a log and the metrics around it, and comes back to the list; and from there on through the other pages. It judges nothing:
// that is for the test that runs it.
//
// JOB: {base, widths, cluster, steps: [{what, selector, text, wait}]}
//   a step presses Tab until a link or button that matches the selector and contains the text has the focus, then Enter, and waits for
//   something; a step without a selector goes back
// REPORT: {visits: [{width, dark, keys, steps: [{what, url, wide, facts, sight}]}], errors: […], others: […]}
//   keys is how many keys were pressed; wide is how much wider than the window the page is; sight whether the whole of what had the focus was to
//   be seen, and where it led what was waited for; facts is what the header says of the session
const { inWindows } = require('./windows.js');

const MOST = 300; // presses of Tab to reach something

// inSight says whether an element, or its beginning if it is higher than the window, is on the screen and not under something else.
const inSight = e => {
  const { left, top, right, bottom } = e.getClientRects()[0];
  const at = document.elementFromPoint((Math.max(left, 0) + Math.min(right, innerWidth)) / 2, Math.min((top + bottom) / 2, top + 20));
  return top >= 0 && top < innerHeight && !!at && (e.contains(at) || at.contains(e));
};

async function go(page, job) {
  const seen = { keys: 0, steps: [] };
  const press = async key => { seen.keys++; await page.keyboard.press(key); };
  const focused = () => page.evaluateHandle(() => document.activeElement);
  const reach = async (selector, text) => {
    for (let i = 0; i < MOST; i++) {
      await press('Tab');
      const found = await page.evaluate(([selector, text]) => document.activeElement.matches(selector) && document.activeElement.textContent.includes(text), [selector, text || '']);
      if (found) return;
    }
    throw new Error(`${page.url()}: no ${selector} with ${text} has the focus after ${MOST} presses of Tab`);
  };
  const arrive = async (what, wait, sight) => {
    const there = page.locator(wait).first();
    await there.waitFor({ state: 'attached' });
    await page.waitForLoadState('load');
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    const facts = await page.evaluate(() => {
      const facts = document.querySelector('.facts')?.cloneNode(true);
      facts?.querySelectorAll('time').forEach(time => { time.textContent = time.dateTime; }); // how long ago it was changes meanwhile
      return facts?.textContent.trim().replace(/\s+/g, ' ') || '';
    });
    seen.steps.push({ what, url: page.url(), wide, facts, sight: sight && await there.evaluate(e => e.checkVisibility()) });
  };

  await page.goto(job.base + '/homepage', { waitUntil: 'load' });
  await press('/');
  await page.keyboard.type(job.cluster);
  await page.waitForFunction(() => location.search.includes('q=') && document.querySelectorAll('tr.row').length === 1);
  await press('ArrowDown');
  const row = await (await focused()).evaluate(inSight);
  await Promise.all([page.waitForURL(/findings/), press('w')]);
  await arrive('cause', '.finding h3', row);
  for (const { what, selector, text, wait } of job.steps) {
    let sight = true;
    if (selector) {
      await reach(selector, text);
      sight = await (await focused()).evaluate(inSight);
      await press('Enter');
    } else {
      await page.goBack({ waitUntil: 'load' });
    }
    await arrive(what, wait, sight);
  }
  return seen;
}

inWindows(go);
