// What the programs have in common that use a page in windows of several widths, in light and in dark colours.
const { chromium } = require('playwright-core');
const fs = require('fs');

const WAIT = 120000; // ms: machines are busy
const flags = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'];

// inWindows calls look(page, job) in each window, with the job of the standard input, and writes a report: what look returned as visits, and
// the pages' errors. more(browser, job, report), if given, comes last.
exports.inWindows = async (look, more) => {
  try {
    const job = JSON.parse(fs.readFileSync(0, 'utf8'));
    const report = { visits: [], errors: [] };
    const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: flags });
    for (const [width, dark] of [[360, true], [800, false], [1400, true]]) {
      const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: dark ? 'dark' : 'light', acceptDownloads: true });
      page.setDefaultTimeout(WAIT);
      page.on('pageerror', e => report.errors.push((e.stack || e.message).slice(0, 1000)));
      report.visits.push({ width, dark, ...(await look(page, job)) });
      await page.close();
    }
    if (more) { await more(browser, job, report); }
    await browser.close();
    process.stdout.write(JSON.stringify(report));
  } catch (e) {
    console.error(e);
    process.exit(1);
  }
};
exports.WAIT = WAIT;
exports.flags = flags;
