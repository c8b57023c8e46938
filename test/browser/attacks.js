// node attacks.js < JOB.json > REPORT.json
//
// Does in Chromium what hostile pages try, and what people do that must survive it. It reports what happened; it judges nothing: that is for
// the test that runs it.
//
// JOB: {do: 'attack', server, token, sites, rebind}, {do: 'tabs', server, clusters}, {do: 'login', server, link, token},
//   {do: 'openid', server, link, user, password}, {do: 'removed', page, remove}: see the functions of these names.
const fs = require('fs');
const { WAIT, launch } = require('./windows.js');

const NAMES = 'MAP evil.example 127.0.0.1, MAP history.test 127.0.0.1, MAP sub.history.test 127.0.0.1';
const LIVE = '/namespaces/default/clusters/lab/sessions/live/';
const STORED = '/namespaces/default/clusters/one/sessions/latest/';

async function signIn(page, token) {
  await page.getByLabel('Token').fill(token);
  await Promise.all([page.waitForNavigation(), page.getByRole('button', { name: 'Sign in' }).click()]);
}

// Runs in a page: the first message of a WebSocket, or that it is refused.
const tail = url => new Promise(done => {
  const ws = new WebSocket(url);
  ws.onmessage = message => done(message.data);
  ws.onerror = () => done('refused');
});
// Runs in a page: sends a form into a frame.
const form = url => new Promise(done => {
  const frame = document.createElement('iframe'), form = document.createElement('form');
  frame.name = 'f' + Math.random();
  Object.assign(form, { action: url, method: 'post', target: frame.name, enctype: 'text/plain' });
  document.body.append(frame, form);
  setTimeout(() => { frame.onload = () => done('sent'); form.submit(); }, 100); // the frame's own first load is over by then
});

// attack: a person, signed in by token if there is one, opens pages of other sites, of the running cluster, and of a name that leads here.
async function attack(context, { server, token, sites, rebind }) {
  const attempts = {}, sockets = server.replace('http', 'ws');
  const own = await context.newPage();
  await own.goto(server + '/homepage');
  if (token) await signIn(own, token);
  await context.addCookies([{ name: 'mine', value: '1', url: server }]);

  for (const site of sites) {
    const name = what => `${new URL(site).hostname}: ${what}`;
    const page = await context.newPage();
    await page.goto(site);
    const fetched = url => fetch(url, { method: 'POST', mode: 'no-cors', credentials: 'include', headers: { 'Content-Type': 'text/plain' }, body: '{"entrypoint":"id"}' }).then(() => 'sent', () => 'sent'); // whether the page gets to see the answer is another matter
    attempts[name('fetch')] = await page.evaluate(fetched, server + LIVE + 'api/jobs/');
    attempts[name('form')] = await page.evaluate(form, server + LIVE + 'api/jobs/');
    attempts[name('logout form')] = await page.evaluate(form, server + '/logout');
    attempts[name('logout')] = await page.evaluate(url => new Promise(done => { const i = new Image(); i.onerror = i.onload = () => done('sent'); i.src = url; }), server + '/logout');
    attempts[name('WebSocket to the running cluster')] = await page.evaluate(tail, sockets + LIVE + 'api/jobs/x/logs/tail');
    attempts[name('WebSocket to a stored session')] = await page.evaluate(tail, sockets + STORED + 'api/jobs/x/logs/tail');
    await page.close();
  }

  const page = await context.newPage();
  await page.goto(server + LIVE + 'evil.html');
  attempts['evil.html'] = await page.title();
  await page.goto(server + LIVE);
  await page.getByText('View in Grafana').click();
  await page.waitForTimeout(500);
  attempts.Grafana = (await page.evaluate(() => window.name)) === 'owned' ? 'run' : 'not run';
  const stays = () => new URL(page.url()).origin === server ? 'stays' : page.url();
  await page.goto(server + LIVE + 'api/away').catch(() => {});
  attempts.away = stays();
  await page.goto(server + '/namespaces/a/clusters/b/sessions/https:evil.example').catch(() => {});
  attempts['https: session'] = stays();
  await page.goto(server + LIVE + 'api/clear');
  const cookies = (await context.cookies(server)).map(c => `${c.name}=${c.value}`).filter(c => c === 'mine=1' || c.includes('owned'));
  attempts.clear = cookies.join() === 'mine=1' ? 'cookies stay' : cookies.join();
  await page.goto(server + '/homepage');
  attempts['still signed in'] = (await page.getByText('Enter Cluster Dashboard').count()) > 0 ? 'yes' : page.url();
  attempts.script = await page.evaluate(async url => {
    const frame = document.createElement('iframe'); // a page without a policy of its own, of this origin
    document.body.append(frame);
    return new Promise(done => {
      const script = frame.contentDocument.createElement('script');
      script.onload = () => done(frame.contentWindow.owned ? 'run' : 'loaded');
      script.onerror = () => done('not run');
      script.src = url;
      frame.contentDocument.body.append(script);
    });
  }, server + LIVE + 'page.js');
  attempts['service worker'] = await page.evaluate(url => navigator.serviceWorker ? navigator.serviceWorker.register(url, { scope: '/' }).then(() => 'registered', () => 'refused') : 'none', LIVE + 'sw.js');
  for (let i = 0; i < 2; i++) await page.evaluate(url => fetch(url).then(answer => answer.text()), LIVE + 'api/kept');
  attempts['own page: POST'] = String(await page.evaluate(url => fetch(url, { method: 'POST', body: '{}' }).then(answer => answer.status), LIVE + 'api/jobs/'));
  attempts['own page: WebSocket'] = await page.evaluate(tail, sockets + LIVE + 'api/jobs/x/logs/tail');

  const rebound = await page.goto(rebind + '/clusters');
  attempts.rebound = String(rebound.status());
  return { attempts };
}

// tabs: a person enters two sessions from the list, each in a tab, and uses them in turn.
async function tabs(context, { server, clusters }) {
  const urls = {}, said = [], open = {};
  for (const cluster of clusters) {
    const page = open[cluster] = await context.newPage();
    await page.goto(server + '/');
    await page.locator('tr', { hasText: cluster }).getByRole('button', { name: 'Enter Cluster Dashboard' }).click();
    await page.waitForSelector('#ask');
    urls[cluster] = page.url();
  }
  for (let i = 0; i < 3; i++) {
    for (const cluster of clusters) {
      const page = open[cluster];
      await page.bringToFront();
      if (i === 2) await page.reload();
      await page.locator('#ask').click();
      await page.waitForFunction(() => document.getElementById('said').textContent !== '');
      said.push(`${cluster}: ${await page.locator('#said').textContent()}`);
    }
  }
  const list = await context.newPage();
  await list.goto(server + '/');
  return { urls, said, list: await list.evaluate(() => document.body.innerText) };
}

// login: a person follows a link, mistypes the token, signs in, and signs out.
async function login(context, { server, link, token }) {
  const page = await context.newPage(), refused = [];
  page.on('console', m => { if (m.text().includes('Content Security Policy')) refused.push(m.text()); });
  await page.goto(link);
  const asked = page.url();
  await signIn(page, 'mistyped');
  const wrong = page.url();
  await signIn(page, token);
  await page.waitForSelector('#ask');
  const signedIn = page.url();
  await page.goto(server + '/logout');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL(/login/);
  const out = page.url();
  await page.goto(link);
  return { asked, wrong, in: signedIn, out, again: page.url(), refused };
}

// openid: a person follows a link, signs in with an OpenID provider, which is another site, asks for a log, and signs out.
async function openid(context, { server, link, user, password }) {
  const page = await context.newPage(), refused = [];
  page.on('console', m => { if (m.text().includes('Content Security Policy')) refused.push(m.text()); });
  await page.goto(link);
  const asked = page.url();
  await page.getByRole('link', { name: 'Sign in' }).click();
  await page.getByLabel('Username').fill(user);
  await page.getByLabel('Password').fill(password);
  const provider = page.url();
  await page.getByRole('button', { name: 'Login' }).click();
  await page.waitForSelector('#ask');
  const signedIn = page.url();
  await page.locator('#ask').click();
  await page.waitForFunction(() => document.getElementById('said').textContent !== '');
  const said = await page.locator('#said').textContent();
  const cookies = (await context.cookies(server)).filter(c => c.name.startsWith('history_')).map(c => `${c.name} ${c.httpOnly} ${c.sameSite}`).sort();
  await page.goto(server + '/logout');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL(/login/);
  const out = page.url();
  await page.goto(link);
  return { asked, provider, in: signedIn, said, cookies, out, again: page.url(), refused };
}

// removed: a page is open while its session is removed from the store; it asks again, as the dashboard does every few seconds.
async function removed(context, { page: url, remove }) {
  const page = await context.newPage();
  await page.goto(url);
  const notice = page.locator('ray-history-bar [role=alert]');
  await page.locator('#ask').click();
  await page.waitForFunction(() => document.getElementById('said').textContent !== '');
  const before = await notice.isVisible() ? await notice.textContent() : '';
  fs.rmSync(remove, { recursive: true });
  for (const end = Date.now() + WAIT; Date.now() < end && !(await notice.isVisible());) {
    await page.locator('#ask').click();
    await page.waitForTimeout(500);
  }
  return { before, after: await notice.isVisible() ? await notice.textContent() : '' };
}

(async () => {
  const job = JSON.parse(fs.readFileSync(0, 'utf8'));
  const browser = await launch(`--host-resolver-rules=${NAMES}`);
  const context = await browser.newContext();
  context.setDefaultTimeout(WAIT);
  const report = await { attack, tabs, login, openid, removed }[job.do](context, job);
  await browser.close();
  process.stdout.write(JSON.stringify(report));
})().catch(e => {
  console.error(e);
  process.exit(1);
});
