// node timeline.js < JOB.json > REPORT.json
//
// Looks at a session's timeline with keys alone: zooms in, moves, shows all again, goes to a bar and opens its task. Then it zooms by dragging. It
// judges nothing: that is for the test that runs it.
//
// JOB: {base, session}
// REPORT: {visits: [{width, dark, wide, inked, named, all, zoomed, picked, opened, dragged, colour, marks, longest}], errors: […]}
//   longest are the rows of the table of the longest attempts
//   wide is how much wider than the window the page is; inked how many pixels are drawn; named the percentage of the names'
//   column that is the page's paper, so what is left is names; all and zoomed how many attempts ran in what is shown;
//   picked what the page says of a bar, opened the address that Enter led to; dragged the milliseconds that are shown after dragging over a half;
//   colour is what the page chooses of an address that names one
const { inWindows } = require('./windows.js');


async function look(page, job) {
  const seen = {}, box = page.locator('.canvas'), drawn = page.locator('.canvas[data-tasks]');
  const tasks = async () => Number(await drawn.getAttribute('data-tasks'));
  const span = () => page.evaluate(() => { const q = new URLSearchParams(location.search); return q.get('to') - q.get('from'); });
  const at = job.base + job.session + '/timeline';
  await page.goto(at, { waitUntil: 'load' });
  seen.all = await tasks();
  seen.wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  seen.marks = await page.locator('.marks li').count();
  seen.inked = await page.locator('canvas').evaluate(c => {
    const ink = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    return ink.filter((v, i) => i % 4 === 3 && v).length;
  });
  seen.named = await page.locator('canvas').evaluate(c => {
    const ink = c.getContext('2d').getImageData(0, 30, 70, c.height - 30).data;
    const paper = getComputedStyle(c.closest('.card')).backgroundColor.match(/\d+/g).slice(0, 3).join();
    let on = 0;
    for (let i = 0; i < ink.length; i += 4) on += ink.slice(i, i + 3).join() === paper;
    return 100 * on / (ink.length / 4);
  });
  seen.longest = await page.locator('.longest tbody tr').allTextContents();
  await box.focus();
  await page.keyboard.press('+');
  await page.keyboard.press('+');
  await page.waitForFunction(() => new URLSearchParams(location.search).has('from'));
  seen.zoomed = await span();
  await page.keyboard.press('0');
  await page.waitForFunction(() => !location.search);
  await page.waitForFunction(n => document.querySelector('.canvas').dataset.tasks === String(n), seen.all);
  await page.keyboard.press('n');
  seen.picked = await page.locator('[data-picked]').textContent();
  await page.keyboard.press('Enter');
  await page.waitForURL(url => url.hash.includes('/tasks/'), { waitUntil: 'commit' });
  seen.opened = page.url();
  await page.goto(at, { waitUntil: 'load' });
  await drawn.waitFor();
  const { x, y, width } = await box.boundingBox();
  await page.mouse.move(x + width / 2, y + 60);
  await page.mouse.down();
  await page.mouse.move(x + width * .6, y + 60);
  await page.mouse.move(x + width * .75, y + 60);
  await page.mouse.up();
  await page.waitForFunction(() => new URLSearchParams(location.search).has('from'));
  seen.dragged = await span();
  await page.goto(at + '?colour=outcome', { waitUntil: 'load' });
  seen.colour = await page.locator('[data-colour]').inputValue();
  return seen;
}

inWindows(look);
