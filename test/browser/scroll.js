// node scroll.js < JOB.json > REPORT.json
//
// Scrolls through a log with the wheel at its beginning, drags to its middle and to its end, and scrolls back with the wheel at each. It judges
// nothing: that is for the test that runs it.
//
// JOB: {base, log}
//   log    is the path of a log behind base
// REPORT: {steps: [{name, frames, seconds, longest, busy, lines}], at, heap: [before, after], nodes: [before, after], errors: […]}
//   frames are those of a step, longest the most milliseconds between two, busy the milliseconds of work for one, lines the most lines that the page
//   had; at are the places where the drags led, in thousandths of the log; heap is the page's JavaScript in bytes, and nodes its elements
const fs = require('fs');
const { WAIT, launch } = require('./windows.js');

const WHEEL = 30000; // pixels of a step with the wheel
const SPEED = 4000; // … a second

async function main() {
  const job = JSON.parse(fs.readFileSync(0, 'utf8')), report = { steps: [], at: [], heap: [], nodes: [], errors: [] };
  const browser = await launch();
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  page.setDefaultTimeout(WAIT);
  page.on('pageerror', e => report.errors.push((e.stack || e.message).slice(0, 1000)));
  await page.goto(job.base + job.log, { waitUntil: 'load' });
  await page.locator('.log.scrolls .line').first().waitFor();
  const lines = page.locator('.lines').first(), slider = page.locator('.place input');
  const protocol = await page.context().newCDPSession(page);
  await protocol.send('Performance.enable');
  const metric = async name => (await protocol.send('Performance.getMetrics')).metrics.find(m => m.name === name).value;
  const weigh = async () => {
    await protocol.send('HeapProfiler.collectGarbage');
    report.heap.push(await metric('JSHeapUsedSize'));
    report.nodes.push(await metric('Nodes'));
  };
  await page.evaluate(() => {
    window.frames_ = { at: [], lines: 0 };
    const box = document.querySelector('.lines');
    (function frame(now) {
      window.frames_.at.push(now);
      window.frames_.lines = Math.max(window.frames_.lines, box.querySelectorAll('.line').length);
      requestAnimationFrame(frame);
    })(performance.now());
  });
  const step = async (name, act) => {
    const before = await metric('TaskDuration');
    await page.evaluate(() => { window.frames_ = { at: [], lines: 0 }; });
    await act();
    const { at, lines: most } = await page.evaluate(() => window.frames_);
    const gaps = at.slice(1).map((t, i) => t - at[i]);
    report.steps.push({ name, frames: gaps.length, seconds: (at.at(-1) - at[0]) / 1000, longest: Math.max(...gaps), busy: 1000 * (await metric('TaskDuration') - before) / gaps.length, lines: most });
  };
  const wheel = async by => {
    const { x, y, width, height } = await lines.boundingBox();
    await protocol.send('Input.synthesizeScrollGesture', { x: x + width / 2, y: y + height / 2, yDistance: by, speed: SPEED, gestureSourceType: 'mouse' });
  };
  const drag = async share => {
    const { x, y, width, height } = await slider.boundingBox(), from = await slider.evaluate(s => s.value / 1000);
    const place = part => x + 8 + part * (width - 16);
    await page.mouse.move(place(from), y + height / 2);
    await page.mouse.down();
    for (let i = 1; i <= 30; i++) {
      await page.mouse.move(place(from + (share - from) * i / 30), y + height / 2);
      await page.waitForTimeout(16);
    }
    await page.mouse.up();
    await page.waitForFunction(goal => document.querySelector('.lines .line') && Math.abs(document.querySelector('.place input').value - goal) < 20, 1000 * share);
    report.at.push(await slider.evaluate(s => Number(s.value)));
  };

  await step('the wheel, once before', () => wheel(-WHEEL)); // what a page allocates once is not growth
  await weigh();
  await step('at rest', () => page.waitForTimeout(3000)); // what this machine can do
  await step('the wheel at the beginning', () => wheel(-WHEEL));
  await step('dragging to the middle', () => drag(0.5));
  await step('the wheel in the middle', () => wheel(-WHEEL));
  await step('back', () => wheel(WHEEL));
  await step('dragging to the end', () => drag(1));
  await step('the wheel at the end', () => wheel(WHEEL));
  await weigh();
  await browser.close();
  process.stdout.write(JSON.stringify(report));
}

main().catch(e => {
  console.error(e);
  process.exit(1);
});
