// Looks at the status page with a real Chromium: `make status-check`.
//
// Serves the demo with some traffic, opens the page light, dark, and at a phone's width, and fails where the page logs an
// error, needs something that is not the listener's, scrolls sideways, cannot be used by keyboard, or axe finds anything
// serious. The screenshots in target/status-page are for people to look at.
//
// Exit codes: 0 well, 1 findings, 2 a tool is missing.

import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, '..', '..');
const pictures = join(root, 'target', 'status-page');
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const SERIOUS = ['serious', 'critical'];
const TAKES = [
  { name: 'light', colorScheme: 'light', viewport: { width: 1280, height: 900 } },
  { name: 'dark', colorScheme: 'dark', viewport: { width: 1280, height: 900 } },
  { name: 'phone', colorScheme: 'light', viewport: { width: 375, height: 740 } },
  { name: 'phone-dark', colorScheme: 'dark', viewport: { width: 320, height: 740 } },
  { name: 'forced-colors', colorScheme: 'dark', forcedColors: 'active', viewport: { width: 1280, height: 900 } },
];
const EXTENSION = '/api/v1/workspaces/w1/agents/a1/runtime%2Fext';

const fail = (code, text) => { console.error(`status-check: ${text}`); process.exit(code); };

const browserPath = () => {
  const known = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome', process.env.CHROMIUM];
  return known.find((path) => path && existsSync(path))
    ?? fail(2, 'NOT CHECKED: there is no Chromium (Debian: apt-get install chromium; elsewhere: CHROMIUM=/path)');
};

/** Starts the demo and answers its addresses. */
const demo = (binary) => new Promise((resolve, reject) => {
  const gateway = spawn(binary, ['demo', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0'], { stdio: ['ignore', 'pipe', 'ignore'] });
  let out = '';
  gateway.stdout.on('data', (data) => {
    out += data;
    const [publicUrl, adminUrl] = ['gateway', 'admin'].map((name) => out.match(new RegExp(`^ *${name} +(http://\\S+)`, 'm'))?.[1]);
    if (publicUrl && adminUrl) resolve({ gateway, publicUrl, adminUrl });
  });
  gateway.on('error', reject);
  gateway.on('exit', () => reject(new Error(`the demo ended:\n${out}`)));
});

const busy = (publicUrl) => {
  const paths = ['/api/v1/users/ada', '/api/v1/workspaces/w1/files/x', '/api/v1/orgs', '/nobody', EXTENSION];
  let at = 0;
  const timer = setInterval(() => {
    for (let n = 0; n < 2 + 6 * Math.abs(Math.sin(Date.now() / 9000)); n += 1) {
      at += 1;
      fetch(publicUrl + paths[at % paths.length]).then((answer) => answer.arrayBuffer()).catch(() => {});
    }
  }, 100);
  return () => clearInterval(timer);
};

const findings = [];
const find = (take, text) => { findings.push(`${take}: ${text}`); };

const audit = async (page, take) => {
  // The page's policy lets no foreign script run, so axe is put in by the browser itself.
  const result = await page.evaluate(`${axe}; axe.run({ resultTypes: ['violations'] })`);
  for (const violation of result.violations) {
    const text = `${violation.impact}: ${violation.help} (${violation.nodes.length}): ${violation.nodes[0].html}`;
    if (SERIOUS.includes(violation.impact)) find(take, text); else console.log(`${take}: note: ${text}`);
  }
  return result.passes?.length ?? 0;
};

const look = async (browser, adminUrl, take, whole) => {
  const context = await browser.newContext(take);
  const page = await context.newPage();
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) find(take.name, message.text()); });
  page.on('pageerror', (error) => find(take.name, String(error)));
  page.on('request', (request) => { if (!request.url().startsWith(adminUrl) && !request.url().startsWith('data:')) find(take.name, `asks ${request.url()}`); });
  await page.goto(adminUrl + '/');
  await page.waitForSelector('.family .chart .requests', { state: 'attached', timeout: 30_000 });

  // By keyboard alone: the first stop is the path, Enter asks.
  await page.keyboard.press('Tab');
  const focused = await page.evaluate(() => document.activeElement.id);
  if (focused !== 'path') find(take.name, `the first stop of the keyboard is ${focused}`);
  await page.keyboard.type(EXTENSION);
  await page.keyboard.press('Enter');
  await page.waitForSelector('#answer .pairs', { timeout: 10_000 });
  const answer = await page.textContent('#answer');
  for (const part of ['Refused with 400', 'ambiguous_path', 'workspace', 'extension']) {
    if (!answer.includes(part)) find(take.name, `the answer lacks ${part}: ${answer}`);
  }
  const names = await page.$$eval('.family h3', (titles) => titles.map((title) => title.textContent));
  if (names.join() !== 'internal-only,extension,central,workspace') find(take.name, `families are ${names}`);
  const verdict = await page.textContent('#verdict');
  if (verdict !== 'Ready') find(take.name, `the verdict is ${verdict}`);

  // A list of endpoints stays open while the page is refreshed.
  const details = page.locator('details').nth(1);
  await details.locator('summary').click();
  await page.waitForResponse((response) => response.url().endsWith('/status.json'), { timeout: 15_000 });
  if (!(await details.evaluate((node) => node.open))) find(take.name, 'the list of endpoints has closed by itself');
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  if (wide > 0) find(take.name, `${wide} pixels too wide`);
  await page.evaluate(() => document.activeElement.blur());
  await page.screenshot({ path: join(pictures, `${take.name}.png`), fullPage: true });
  await audit(page, take.name);
  if (whole) await whole(page);
  await context.close();
};

const binary = process.argv[2] ?? join(root, 'target', 'debug', 'gateway');
const executablePath = browserPath();
mkdirSync(pictures, { recursive: true });
const { gateway, publicUrl, adminUrl } = await demo(binary).catch((error) => fail(2, error.message));
const quiet = busy(publicUrl);
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
try {
  for (const take of TAKES) await look(browser, adminUrl, take);
  // The gateway ends while its page is open: the page says that what it shows is old.
  await look(browser, adminUrl, { ...TAKES[0], name: 'gone' }, async (page) => {
    quiet();
    gateway.removeAllListeners('exit');
    gateway.kill('SIGINT');
    page.removeAllListeners('console');
    await page.waitForSelector('#stale:not([hidden])', { timeout: 30_000 });
    await page.screenshot({ path: join(pictures, 'gone.png'), fullPage: true });
    await audit(page, 'gone');
  });
} finally {
  quiet();
  await browser.close();
  gateway.removeAllListeners('exit');
  gateway.kill('SIGKILL');
}
if (findings.length > 0) fail(1, `${findings.length} findings\n${findings.join('\n')}`);
console.log(`status-check: well in ${TAKES.length} forms; screenshots in ${pictures}`);
