// What the programs have in common: how they start Chromium, and, for those that use a page in windows of each width in light colours, and of some
// in dark, what they do in each.
const { chromium } = require('playwright-core');
const fs = require('fs');

const WAIT = 120000; // ms: machines are busy

// Chromium without what draws a browser's own windows needs less processor time, and so do pages of one site in one process. Debian has it as
// chromium-headless-shell. Unlike a browser with windows it fits letters to pixels, which makes text wider, unless it is told not to.
const PROGRAMS = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];
const FLAGS = ['--no-sandbox', '--disable-gpu', '--process-per-site', '--font-render-hinting=none', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--no-first-run'];
const launch = (...more) => chromium.launch({ executablePath: process.env.CHROMIUM || PROGRAMS.find(fs.existsSync), args: [...FLAGS, ...more] });

// watch has a report tell of a page's errors, and of the addresses of other hosts that it asks.
function watch(page, base, report) {
  page.on('pageerror', e => report.errors.push(`${page.url()}: ${(e.stack || e.message).slice(0, 1000)}`));
  page.on('request', r => { if (!r.url().startsWith(base) && !/^(data|blob|about):/.test(r.url())) report.others.push(r.url()); });
}

// inWindows calls look(page, job) in each window, with the job of the standard input, whose widths and dark are the widths of the windows in light
// and in dark colours, and writes a report: what look returned as visits, and what watch tells. more(browser, job, report), if given, comes last.
exports.inWindows = async (look, more) => {
  try {
    const job = JSON.parse(fs.readFileSync(0, 'utf8'));
    const report = { visits: [], errors: [], others: [] };
    const browser = await launch();
    for (const [width, dark] of [...job.widths.map(width => [width, false]), ...job.dark.map(width => [width, true])]) {
      const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: dark ? 'dark' : 'light', acceptDownloads: true });
      page.setDefaultTimeout(WAIT);
      watch(page, job.base, report);
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
exports.watch = watch;
exports.WAIT = WAIT;
exports.launch = launch;
