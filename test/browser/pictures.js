// DEMO_URL=http://… node pictures.js FOLDER [NAME…]
//
// Takes the pictures of docs/ of the demo's server: `make screenshots`; all of them, or those with these names.
const { chromium } = require('playwright-core');

const flags = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'];
const base = process.env.DEMO_URL;
const [folder, ...chosen] = process.argv.slice(2);

// settle waits until a page is quiet; some poll, and never are.
async function settle(page) {
  await page.waitForLoadState('networkidle', { timeout: 10000 }).catch(() => {});
  await page.waitForTimeout(1000);
}

// sessionOf gives the address of the latest session of a cluster, or of the one that begins so.
async function sessionOf(namespace, cluster, begins = 'session_') {
  const all = await (await fetch(`${base}/clusters`)).json();
  const found = all.find(s => s.namespace === namespace && s.name === cluster && s.sessionName.startsWith(begins));
  if (!found) throw new Error(`no ${namespace}/${cluster} ${begins}`);
  return `${base}/namespaces/${namespace}/clusters/${cluster}/sessions/${found.sessionName}`;
}

const pictures = [
  { name: 'sessions', height: 700, at: async () => `${base}/` },
  { name: 'fleet', height: 900, at: async () => `${base}/fleet` },
  { name: 'findings', height: 760, at: async () => `${await sessionOf('cases', 'jobs260')}/findings?job_id=tokenizer` },
  { name: 'overview', height: 640, at: async () => `${await sessionOf('cases', 'jobs260')}/overview` },
  { name: 'why', height: 520, at: async () => `${await sessionOf('cases', 'jobs260')}/#/jobs/08000000` },
  { name: 'compare', height: 1000, at: async () => `${await sessionOf('cases', 'jobs255')}/compare?with=cases/jobs260/latest` },
  { name: 'dashboard', height: 800, at: async () => `${await sessionOf('default', 'lab', 'session_2026-11-20')}/#/jobs` },
  {
    name: 'logs', height: 640, at: async () => `${await sessionOf('default', 'lab', 'session_2026-11-21_02-15')}/#/logs`,
    steps: async page => {
      await page.getByText('Logs of dead nodes').first().click();
      await page.getByText('10.77.0.3 (').first().click();
      await settle(page);
    },
  },
  { name: 'timeline', height: 640, at: async () => `${await sessionOf('default', 'lab', 'session_2026-11-21_02-15')}/timeline` },
  { name: 'search', height: 640, at: async () => `${await sessionOf('cases', 'jobs260')}/search?q=Error&level=error` },
  { name: 'merged', height: 640, at: async () => `${await sessionOf('cases', 'jobs260')}/logs?job_id=08000000` },
  {
    name: 'replay', height: 640, at: async () => `${await sessionOf('default', 'lab', 'session_2026-11-21_02-15')}/at/2026-11-21T02:17:59Z/#/actors`,
  },
  {
    name: 'metrics', height: 640, at: async () => `${await sessionOf('cases', 'more260')}/#/metrics`,
    steps: async page => {
      const frame = page.frames().find(f => f !== page.mainFrame() && f.url().includes('/grafana/'));
      await frame.evaluate(() => document.querySelectorAll('details').forEach(row => { row.open = true; }));
      const panel = frame.locator('.panel', { hasText: 'Node Memory Usage' }).first();
      await panel.evaluate(p => p.scrollIntoView({ block: 'center' }));
      await settle(page);
      const box = await panel.locator('svg').boundingBox();
      await page.mouse.move(box.x + box.width * 0.4, box.y + box.height / 2);
    },
  },
];

(async () => {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: flags });
  for (const { name, height, at, steps } of pictures) {
    if (chosen.length && !chosen.includes(name)) continue;
    const page = await browser.newPage({ viewport: { width: 1280, height }, colorScheme: 'light' });
    await page.goto(await at(), { waitUntil: 'load' });
    await settle(page);
    if (steps) await steps(page);
    await page.screenshot({ path: `${folder}/${name}.png` });
    await page.close();
  }
  await browser.close();
})().catch(e => {
  console.error(e);
  process.exit(1);
});
