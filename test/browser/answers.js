// node answers.js < JOB.json > REPORT.json
//
// Opens pages whose scripts ask the server, and has them get other answers than its own. It judges nothing: that is for the test that runs it.
//
// JOB: {base, session, log, metrics, clusters}: session, log and metrics are paths behind base; clusters are the names of two that the list shows
// REPORT: {pages: {name: {says, asked, then}}, list: {states, focus, open, kept}, errors: […], others: […]}
//   says is what a page says after the answers, in Tokyo, asked how often it had asked, then what it says where times are to be UTC; states are
//   those of the clusters, the first of which was being loaded, focus is what has the focus, open how many lists of warnings are, kept says that
//   the page is the same
const fs = require('fs');
const { WAIT, launch, watch } = require('./windows.js');

const json = (status, msg, headers) => ({ status, headers, contentType: 'application/json', body: JSON.stringify({ result: false, msg, data: null }) });
const again = { 'Retry-After': '7' };
const proxied = { status: 502, contentType: 'text/html', body: '<html><h1>Bad Gateway</h1></html>' };

(async () => {
  const job = JSON.parse(fs.readFileSync(0, 'utf8')), report = { pages: {}, errors: [], others: [] };
  const browser = await launch();

  // look opens a page. What its scripts ask of an address gets the answers in turn, and the last one for ever; null is the server's own. The page
  // lives through as many answers, and then, once the element until is there, some minutes more.
  async function look(name, { path, address, answers, first, shown = '[data-state]', until = shown, act = () => {}, tell = () => {} }) {
    const page = await browser.newPage({ timezoneId: 'Asia/Tokyo', viewport: { width: 1400, height: 900 }, permissions: ['clipboard-read', 'clipboard-write'] });
    page.setDefaultTimeout(WAIT);
    watch(page, job.base, report);
    let asked = 0;
    const passes = async seconds => {
      await page.clock.runFor(1000 * seconds);
      await new Promise(done => setTimeout(done, 30)); // for answers
    };
    await page.route(url => url.pathname.endsWith(address), route => {
      const answer = route.request().isNavigationRequest() ? first : answers[Math.min(asked++, answers.length - 1)];
      return answer ? route.fulfill(answer) : route.continue();
    });
    await page.clock.install();
    await page.goto(job.base + path, { waitUntil: 'load' });
    await act(page);
    for (const end = Date.now() + WAIT; asked < answers.length && Date.now() < end;) await passes(1);
    for (let i = 0; i < 5; i++) await passes(.1);
    await page.locator(until).first().waitFor({ timeout: 30000 }).catch(() => {}); // what is there instead is told
    const text = () => page.locator(shown).first().textContent(), says = await text();
    for (let i = 0; i < 20; i++) await passes(20);
    await page.locator('[data-setting=times]').evaluate(choice => { choice.value = 'Etc/UTC'; choice.dispatchEvent(new Event('change')); });
    report.pages[name] = { says, asked, then: await text() };
    await tell(page);
    await page.close();
  }

  // A part of a log that is not there yet, and then may not be seen.
  await look('log', {
    path: job.log, address: '/log', answers: [json(503, 'Counting.', again), json(401, 'Not signed in.')],
    act: page => page.locator('.lines').first().evaluate(lines => { lines.scrollTop = lines.scrollHeight; }),
  });
  await look('line', {
    path: job.log + '#L3000', address: '/log', answers: [...Array(12).fill(json(503, 'Counting.', { 'Retry-After': '1' })), json(404, 'No such log.')],
  });
  const numbered = await (await fetch(job.base + job.log, { headers: { Accept: 'text/html' } })).text();
  await look('numbers', {
    path: job.log, address: '/log', answers: [{ ...proxied, status: 500 }, null], shown: '.line .number',
    first: { contentType: 'text/html', body: numbered.replace(/ id="L\d+"/g, '').replace(/<a class="number"[^]*?<\/a>/g, '') },
  });
  await look('timeline', {
    path: job.session + '/timeline', address: '/api/history/timeline', until: '[data-tasks]',
    answers: [json(503, 'Busy.', again), { ...proxied, status: 503 }, null],
  });
  const days = await (await fetch(job.base + job.session + '/api/history/timeline')).json();
  days.data.begin -= 2 * 864e5;
  await look('timeline of days', {
    path: job.session + '/timeline', address: '/api/history/timeline', shown: '.longest td:nth-of-type(2)', until: '[data-tasks]',
    answers: [{ contentType: 'application/json', body: JSON.stringify(days) }],
  });
  await look('panels', { path: job.metrics, address: '/session_activity', answers: [], shown: '.panel svg text[text-anchor=middle]' });
  await look('timeline, too large', { path: job.session + '/timeline', address: '/api/history/timeline', answers: [json(503, 'Too large.')] });
  await look('signed out', { path: job.session + '/timeline', address: '/api/history/timeline', answers: [{ status: 401, contentType: 'text/html', body: 'Unauthorized' }] });
  await look('search', { path: job.session + '/search?q=Error', address: '/api/history/search', answers: [proxied] });
  await look('markdown', {
    path: job.session + '/findings', address: '/findings', shown: '.actions .markdown', answers: [json(503, 'Too large.')],
    act: page => page.locator('.actions .markdown').click(),
  });

  // The list: one session is being loaded, and others come before and behind it.
  const html = await (await fetch(job.base + '/homepage', { headers: { Accept: 'text/html' } })).text();
  const rows = html.match(/<tr class="row">[^]*?<\/tr>\s*(<tr class="because[^]*?<\/tr>\s*)+/g), begin = html.indexOf(rows[0]), end = html.lastIndexOf('</tbody>');
  const list = (...shown) => ({ contentType: 'text/html', body: html.slice(0, begin) + shown.join('') + html.slice(end) });
  const as = (name, state) => rows.find(row => row.includes(`/clusters/${name}/`)).replace(/<td class="state">[^]*?<\/td>/, `<td class="state">${state}</td>`);
  const [loaded, other] = job.clusters, newer = rows.find(row => !job.clusters.some(name => row.includes(`/clusters/${name}/`)));
  const loading = share => as(loaded, `<span class="chip loading">${share}</span>`);
  const failed = as(other, '<a class="why" href="findings">failed</a><details class="warnings"><summary>1 warning</summary></details>');
  await look('list', {
    path: '/homepage', address: '/homepage', shown: 'h1', first: list(loading('0 %'), failed),
    answers: [proxied, { ...proxied, status: 429 }, list(failed, loading('50 %')), list(newer, failed, loading('75 %')), json(401, 'Not signed in.')],
    act: async page => {
      await page.locator('.warnings summary').click();
      await page.evaluate(() => { window.kept = true; document.querySelector('.why').focus(); });
    },
    tell: async page => {
      report.list = await page.evaluate(names => ({
        states: names.map(name => document.querySelector(`a.name[href*="/${name}/"]`).closest('tr').querySelector('td.state').firstChild.textContent),
        focus: document.activeElement.className, open: document.querySelectorAll('.warnings[open]').length, kept: window.kept === true,
      }), job.clusters);
    },
  });
  await browser.close();
  process.stdout.write(JSON.stringify(report));
})().catch(e => {
  console.error(e);
  process.exit(1);
});
