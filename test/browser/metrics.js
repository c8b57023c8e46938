// node metrics.js < JOB.json > REPORT.json
//
// Opens pages of a dashboard that show metrics and reports what their frames hold. It judges nothing: that is for the test that runs it.
//
// JOB: {base, pages: [path…], enter, panel}: a session's address; paths behind it; an address that chooses the session by cookie; the address of
//   one panel without a session's prefix
// REPORT: {pages: [{path, text, frames: [frame…]}], replayed: frame after a step back in the Metrics page, byCookie: frame, errors: […]}
//   frame is {url, to: end of its range in Unix ms, panels: [{title, drawn: number of lines, text}], tip: what is shown at the pointer}
const fs = require('fs');
const { WAIT, launch } = require('./windows.js');


async function look(frame) {
  await frame.evaluate(() => document.querySelectorAll('details').forEach(row => { row.open = true; }));
  await frame.waitForFunction(() => document.querySelector('.missing') || Array.from(document.querySelectorAll('.panel'))
    .every(panel => panel.querySelector('svg') || /^(?!…)./.test(panel.querySelector('.message')?.textContent || ''))).catch(() => {});
  return frame.evaluate(() => ({
    url: location.href, to: Number(document.body.dataset.to), text: document.body.innerText,
    panels: Array.from(document.querySelectorAll('.panel'), panel => ({
      title: panel.querySelector('h2').textContent, drawn: panel.querySelectorAll('svg path[stroke^="#"]').length, text: panel.innerText,
    })),
  }));
}

const framesOf = page => page.frames().filter(frame => frame !== page.mainFrame() && frame.url().includes('/grafana/'));

(async () => {
  const job = JSON.parse(fs.readFileSync(0, 'utf8'));
  const browser = await launch();
  const page = await browser.newPage({ viewport: { width: 1400, height: 8000 } }); // high: panels are drawn when they are seen
  page.setDefaultTimeout(WAIT);
  const report = { pages: [], errors: [] };
  page.on('pageerror', e => report.errors.push((e.stack || e.message).slice(0, 1000)));
  page.on('console', m => { if (/Content Security Policy|Refused to/.test(m.text())) report.errors.push(m.text()); });
  const open = async path => {
    await page.goto('about:blank');
    await page.goto(job.base + path, { waitUntil: 'load' });
    await page.waitForFunction(() => {
      const frames = Array.from(document.querySelectorAll('iframe'), frame => frame.contentWindow);
      return frames.length && frames.every(frame => frame.location.href !== 'about:blank' && frame.document.readyState === 'complete');
    }).catch(() => {});
  };
  await open('/#/metrics');
  await page.getByRole('button', { name: 'Replay', exact: true }).click();
  await page.getByRole('button', { name: 'One step back' }).click();
  await page.waitForFunction(() => document.querySelector('iframe').contentWindow.location.pathname.includes('/at/')).catch(() => {});
  report.replayed = await look(framesOf(page)[0]);
  for (const path of job.pages) {
    await open(path);
    const text = await page.evaluate(() => document.body.innerText);
    report.pages.push({ path, text, frames: await Promise.all(framesOf(page).map(look)) });
  }
  await page.goto(job.enter);
  await page.goto(job.panel, { waitUntil: 'load' });
  report.byCookie = await look(page.mainFrame());
  await page.locator('.panel svg').hover();
  report.byCookie.tip = await page.locator('.tip').innerText();
  await browser.close();
  process.stdout.write(JSON.stringify(report));
})().catch(e => {
  console.error(e);
  process.exit(1);
});
