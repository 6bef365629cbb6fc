// Creates the README's pictures (docs/pictures/*.png) and the section between the README's two marks, both from the demo
// fleet. Run `npm run build && npm run pictures`. It needs /usr/bin/chromium.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConsoleFleet, heading } from '../dist/test/support/console-fleet.js';
import { binary } from '../dist/test/support/processes.js';

const folder = 'docs/pictures';
const bytesMax = 200_000;
const linesOfTail = 6;
const view = { width: 1280 };
const marks = ['<!-- pictures -->', '<!-- end of pictures -->'];

mkdirSync(folder, { recursive: true });
const fleet = await ConsoleFleet.start();
const traffic = new AbortController();
const sending = sendUntil(traffic.signal);
try {
  // Plots and lists need this time to fill with data.
  await sleep(15_000);
  await takePictures();
  const session = await terminalSession();
  const readme = readFileSync('README.md', 'utf8');
  const [start, end] = marks.map((mark) => readme.indexOf(mark));
  if (start < 0 || end < start) throw new Error(`README.md has no marks ${marks.join(' and ')}`);
  writeFileSync('README.md', `${readme.slice(0, start)}${marks[0]}\n${section(session)}${readme.slice(end)}`);
} finally {
  traffic.abort();
  await sending;
  await fleet.close();
}

async function ask(organisation, model, prompt) {
  const { gateways, organisations } = fleet.ready;
  const { key } = organisations.find(({ id }) => id === organisation);
  const { api } = gateways[Math.floor(Math.random() * gateways.length)];
  const answer = await fetch(`${api}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: prompt }] }),
  });
  await answer.text();
  return { request: answer.headers.get('x-request-id'), status: answer.status };
}

/** Sends requests until one is refused by the tier. At first, other requests in flight may cause a different refusal. */
async function refusedByPlan() {
  for (;;) {
    const { request, status } = await ask('cedar', 'echo-large', 'words');
    if (status === 403) return request;
    await sleep(200);
  }
}

/** Sends various requests, most of which are served and some of which are refused. */
async function sendUntil(signal) {
  const kinds = [
    ...[
      ['acme', 'echo-small'],
      ['acme', 'echo-small'],
      ['birch', 'echo-small'],
      ['acme', 'echo-large'],
    ],
    ...[
      ['cedar', 'echo-small'],
      ['cedar', 'echo-large'],
    ],
  ];
  for (let at = 0; !signal.aborted; at++) {
    const [organisation, model] = kinds[at % kinds.length];
    await ask(organisation, model, 'words '.repeat(1 + (at % 17)));
    await sleep(150 + 40 * (at % 7));
  }
}

async function takePictures() {
  await fleet.withPage(view, async (page) => {
    await fleet.asOperator(page);
    await page.goto('/requests');
    await page.locator('.requests tbody tr').nth(15).waitFor();
    await page.getByRole('button', { name: 'Pause' }).click();
    await save(page, 'requests');
    const refused = await refusedByPlan();
    await sleep(1500);
    await page.goto(`/explain?request=${refused}`);
    await heading(page, 'Explain').waitFor();
    await page.getByRole('list', { name: 'Steps' }).waitFor();
    // Scrolls past the form to the verdict and the steps.
    await page.mouse.wheel(0, 260);
    await sleep(500);
    await save(page, 'explanation');
  });
}

async function save(page, name) {
  const path = `${folder}/${name}.png`;
  await page.screenshot({ path });
  if (statSync(path).size > bytesMax) throw new Error(`${path} is larger than ${bytesMax} bytes`);
}

/** Returns the output of the commands, each below its prompt. */
async function terminalSession() {
  const tail = await run(['requests', 'tail', '-o', 'table'], { lines: linesOfTail });
  const refused = await refusedByPlan();
  await sleep(1500);
  const explained = shortened(await run(['explain', '--request', refused]));
  const created = await run(
    ['key', 'create', '--org', 'acme', '--name', 'laptop', '--expires', '30d', '-o', 'json'],
    {
      isData: true,
    },
  );
  const { id } = JSON.parse(created);
  const revoked = await run(['key', 'revoke', id, '--wait', '--yes']);
  const steps = [
    ['requests tail', tail],
    [`explain --request ${refused}`, explained],
    [`key revoke ${id} --wait --yes`, revoked],
  ];
  const texts = steps.map(([command, output]) => `$ headgate ${command}\n${output.trimEnd()}\n`);
  return texts.join('');
}

/** Shortens an explanation to its verdict, its first steps, the failed steps and the text after the steps. */
function shortened(explained) {
  const isStep = (line) => /^ {2}\S/.test(line);
  const lines = explained.split('\n').filter((line) => line.trim() !== '');
  const first = lines.findIndex(isStep);
  const steps = lines.filter(isStep);
  const failed = steps.slice(3).filter((line) => line.includes('⨉'));
  const after = lines.slice(first).filter((line) => !isStep(line));
  return [...lines.slice(0, first), ...steps.slice(0, 3), '  …', ...failed, ...after].join('\n');
}

function section(session) {
  return `
![The requests of a fleet, live](docs/pictures/requests.png)

![Why one of them was refused](docs/pictures/explanation.png)

<!-- not run: npm run pictures has run it -->
\`\`\`
${session}\`\`\`

`;
}

/** Returns a command's output without colours, or only its data. If `lines` is given, stops it after that many. */
async function run(words, { lines, isData = false } = {}) {
  const { admin, operatorToken } = fleet.ready;
  const env = { ...process.env, HEADGATE_ADMIN: admin, HEADGATE_TOKEN: operatorToken, NO_COLOR: '1' };
  const child = spawn(process.execPath, [binary, ...words], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'exit');
  let text = '';
  for (const stream of isData ? [child.stdout] : [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      text += chunk;
      if (lines !== undefined && text.split('\n').length > lines) child.kill('SIGINT');
    });
  await ended;
  return lines === undefined ? text : text.split('\n').slice(0, lines).join('\n');
}
