// node axe.js < JOB.json > REPORT.json
//
// Opens pages in Chromium, in light and in dark colours, and reports what axe-core finds wrong for people who use assistive technology: the rules
// of WCAG 2.1 A and AA, and its best practices. It judges nothing: that is for the test that runs it.
//
// JOB: {base, widths, pages: [{name, path, wait?, only?}]}: widths are those of the window, in pixels, wait is a selector of what must be there first, only one of what is looked at
// REPORT: {pages: [{name, dark, width, missing?, violations: [{rule, help, nodes: [{target, why}]}]}], errors: […]}
const { chromium } = require('playwright-core');
const { source } = require('axe-core');
const fs = require('fs');

const WAIT = 120000; // ms: machines are busy
const flags = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'];

async function look(page, spec) {
  await page.goto(spec.address, { waitUntil: 'load' });
  const missing = spec.wait && !(await page.locator(spec.wait).first().waitFor().then(() => true, () => false));
  await page.evaluate(source);
  const violations = await page.evaluate(async only => (await axe.run(only || document)).violations.map(v => ({
    rule: v.id, help: v.help, nodes: v.nodes.slice(0, 5).map(n => ({ target: n.target.join(' '), why: n.failureSummary })),
  })), spec.only);
  return { missing: missing ? spec.wait : '', violations };
}

(async () => {
  const job = JSON.parse(fs.readFileSync(0, 'utf8'));
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: flags });
  const report = { pages: [], errors: [] };
  for (const [dark, width] of [false, true].flatMap(dark => job.widths.map(width => [dark, width]))) {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: dark ? 'dark' : 'light', reducedMotion: 'reduce' });
    context.setDefaultTimeout(WAIT);
    for (const spec of job.pages) {
      const page = await context.newPage();
      page.on('pageerror', e => report.errors.push(`${spec.name}: ${(e.stack || e.message).slice(0, 1000)}`));
      report.pages.push({ name: spec.name, dark, width, ...(await look(page, { ...spec, address: job.base + spec.path })) });
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
