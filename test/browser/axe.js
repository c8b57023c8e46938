// node axe.js < JOB.json > REPORT.json
//
// Opens pages in Chromium, in light and in dark colours and in windows of each width, and reports what axe-core finds wrong for people who use
// assistive technology: the rules of WCAG 2.1 A and AA, and its best practices; and what a page needs. It judges nothing: that is for the test
// that runs it.
//
// JOB: {base, widths, pages: [{name, path, wait?, only?}]}: widths are those of the window, in pixels, wait is a selector of what must be there first, only one of what is looked at
// REPORT: {pages: [{name, dark, missing?, scripts, windows: [{width, wide, violations: [{rule, help, nodes: [{target, why}]}]}]}], others: [addresses of other hosts that were asked], errors: […]}
//   scripts is the size of the page's scripts as they are sent, in bytes; wide is how much wider than the window the page is, in pixels
const { source } = require('axe-core');
const fs = require('fs');
const { WAIT, launch, watch } = require('./windows.js');

async function look(page, spec, address, widths) {
  await page.setViewportSize({ width: widths[0], height: 900 });
  await page.goto(address, { waitUntil: 'load' });
  const missing = spec.wait && !(await page.locator(spec.wait).first().waitFor().then(() => true, () => false));
  await page.evaluate(source);
  const seen = { name: spec.name, missing: missing ? spec.wait : '', windows: [] };
  for (const width of widths) {
    await page.setViewportSize({ width, height: 900 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    const violations = await page.evaluate(async only => (await axe.run(only || document)).violations.map(v => ({
      rule: v.id, help: v.help, nodes: v.nodes.slice(0, 5).map(n => ({ target: n.target.join(' '), why: n.failureSummary })),
    })), spec.only);
    seen.windows.push({ width, wide, violations });
  }
  seen.scripts = await page.evaluate(() => performance.getEntriesByType('resource').filter(r => r.initiatorType === 'script').reduce((sum, r) => sum + r.encodedBodySize, 0));
  return seen;
}

(async () => {
  const job = JSON.parse(fs.readFileSync(0, 'utf8'));
  const browser = await launch();
  const report = { pages: [], others: [], errors: [] };
  for (const dark of [false, true]) {
    const context = await browser.newContext({ colorScheme: dark ? 'dark' : 'light', reducedMotion: 'reduce' });
    context.setDefaultTimeout(WAIT);
    for (const spec of job.pages) {
      const page = await context.newPage();
      watch(page, job.base, report);
      report.pages.push({ dark, ...(await look(page, spec, job.base + spec.path, job.widths)) });
      await page.close();
    }
    await context.close();
  }
  await browser.close();
  process.stdout.write(JSON.stringify(report));
})().catch(e => {
  console.error(e);
  process.exit(1);
});
