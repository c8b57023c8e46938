// DEMO_URL=http://… node pictures.js FOLDER [NAME…]
//
// Takes the pictures of docs/ of the demo's server: `make screenshots`; all of them, or those with these names.
const fs = require('fs');
const { launch } = require('./windows.js');
const { crc32 } = require('zlib');

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

// motion goes from a job's name to the line that failed and the metrics around it, and calls show(seconds) for each frame of the moving picture.
async function motion(page, show) {
  await page.goto(`${base}/`, { waitUntil: 'load' });
  await settle(page);
  await show(1.5);
  await page.keyboard.press('/');
  await page.keyboard.type('driver_error');
  await page.waitForFunction(() => location.search.includes('q=driver_error'));
  await settle(page);
  await show(2.5);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('w');
  await page.waitForURL(/findings/);
  await settle(page);
  await show(3);
  const follow = async (selector, text) => {
    await page.locator(selector, { hasText: text }).first().click();
    await page.waitForLoadState('load');
    await settle(page);
    await show(3);
  };
  await follow('.evidence a', 'Open the log');
  await page.goBack();
  await follow('.meta a', 'Metrics around it');
}

// chunk is a piece of a PNG file.
function chunk(type, data) {
  const head = Buffer.from(type, 'latin1'), size = Buffer.alloc(4), sum = Buffer.alloc(4);
  size.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(Buffer.concat([head, data])));
  return Buffer.concat([size, head, data, sum]);
}

// moving makes one moving PNG of PNGs of one size, each shown for its seconds. Programs that know only PNG show the first.
function moving(frames) {
  const numbers = (...all) => { const b = Buffer.alloc(4 * all.length); all.forEach((n, i) => b.writeUInt32BE(n, 4 * i)); return b; };
  let sequence = 0;
  const parts = frames.flatMap(({ png, seconds }, i) => {
    const delay = Buffer.from([0, 0, 0, 10, 0, 0]); // tenths of a second; the next frame replaces all
    delay.writeUInt16BE(seconds * 10);
    const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)];
    const list = [chunk('fcTL', Buffer.concat([numbers(sequence++, width, height, 0, 0), delay]))];
    for (let at = 8; at < png.length;) {
      const length = png.readUInt32BE(at), data = png.subarray(at + 8, at + 8 + length);
      if (png.toString('latin1', at + 4, at + 8) === 'IDAT') list.push(i === 0 ? chunk('IDAT', data) : chunk('fdAT', Buffer.concat([numbers(sequence++), data])));
      at += 12 + length;
    }
    return list;
  });
  const header = frames[0].png.subarray(0, 33);
  return Buffer.concat([header, chunk('acTL', numbers(frames.length, 0)), ...parts, chunk('IEND', Buffer.alloc(0))]);
}

(async () => {
  const browser = await launch();
  if (!chosen.length || chosen.includes('demo')) {
    const page = await browser.newPage({ viewport: { width: 1080, height: 620 }, colorScheme: 'light' }), frames = [];
    await motion(page, async seconds => frames.push({ png: await page.screenshot(), seconds }));
    fs.writeFileSync(`${folder}/demo.png`, moving(frames));
    await page.close();
  }
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
