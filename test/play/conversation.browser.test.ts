/**
 * Tests conversations in the playground: the message field stays in place, answers are formatted as intended, and failures
 * are explained.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { launchBrowser, type View, WatchedPage } from '../support/browser.ts';
import { type Launch, startDev } from '../support/processes.ts';
import { until } from '../support/until.ts';
import { startWrittenNode, type WrittenAnswer, type WrittenNode } from '../support/written-node.ts';

interface Dev {
  readonly admin: string;
  readonly operatorToken: string;
  readonly console: { readonly url: string };
  readonly gateways: readonly { readonly play: string }[];
}

const dir = mkdtempSync(join(tmpdir(), 'headgate-talk-'));
const trusted = ['--trusted-proxies', '127.0.0.1'];
let dev: Launch<Dev>;
let browser: Browser;
/** A node that serves a model of its own. The tests write its answers. */
let node: WrittenNode;
const model = 'written';

beforeAll(async () => {
  dev = await startDev<Dev>(join(dir, 'dev'), trusted);
  browser = await launchBrowser();
  node = await startWrittenNode(model);
  const admin = new DevAdmin(dev.ready.admin, dev.ready.operatorToken);
  await admin.call('PUT', `/models/${model}`, { family: model });
  await admin.call('PUT', `/pool/models/${model}`, {});
  await admin.call('POST', '/nodes', { id: model, url: node.url, dialect: 'vllm', place: { kind: 'pool' } });
  await setVisitors({ freeTurns: 100, requestsPerMinute: 1000 });
  await until(async () => (await admin.call('GET', `/nodes/${model}`)).up === true);
});
afterAll(async () => {
  await browser?.close();
  node?.close();
  await dev?.end();
  rmSync(dir, { recursive: true, force: true });
});

async function setVisitors(limits: object): Promise<void> {
  const admin = new DevAdmin(dev.ready.admin, dev.ready.operatorToken);
  const { position } = await admin.call('PUT', '/anonymous', { models: ['echo-small', model], ...limits });
  await until(async () =>
    (await admin.call('GET', '/gateways')).items.every(({ applied }) => applied >= position),
  );
}

let networks = 0;
async function withPage(
  view: View,
  work: (page: Page, watched: WatchedPage) => Promise<void>,
): Promise<void> {
  const origin = dev.ready.gateways[0]?.play ?? '';
  const watched = await WatchedPage.open(browser, origin, {
    allowed: /status of 4\d\d|ERR_INTERNET_DISCONNECTED/,
    ...view,
  });
  try {
    // Each test uses another network, which has its own free turns.
    await watched.context.setExtraHTTPHeaders({ 'x-forwarded-for': `203.0.113.${++networks}` });
    await watched.page.goto('/');
    await watched.page.getByRole('status').filter({ hasText: 'free turns left' }).waitFor();
    await watched.page.getByLabel('Model', { exact: true }).selectOption('echo-small');
    await work(watched.page, watched);
    watched.expectClean();
  } finally {
    await watched.close();
  }
}

const button = (page: Page | Locator, name: string): Locator =>
  page.getByRole('button', { name, exact: true });
const field = (page: Page): Locator => page.getByLabel('Message', { exact: true });
const answers = (page: Page): Locator => page.locator('article.answer');

/** Sends a message and returns the answer, which the test then writes. */
async function begun(page: Page): Promise<WrittenAnswer> {
  await page.getByLabel('Model', { exact: true }).selectOption(model);
  await field(page).fill('go');
  const next = node.next();
  await page.keyboard.press('Enter');
  return next;
}

async function say(page: Page, text: string): Promise<void> {
  const before = await answers(page).count();
  await field(page).fill(text);
  await page.keyboard.press('Enter');
  await answers(page).nth(before).getByText('first token after').waitFor();
}

test('Enter sends, Shift+Enter breaks the line, and the field grows by a few lines and is then emptied', async () => {
  await withPage({ width: 1280 }, async (page, watched) => {
    expect(await button(page, 'Send').isDisabled()).toBe(true);
    await field(page).focus();
    const heightOf = async (): Promise<number> => (await field(page).boundingBox())?.height ?? 0;
    const one = await heightOf();
    await page.keyboard.type('first');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('second');
    expect(await field(page).inputValue()).toBe('first\nsecond');
    expect(await heightOf()).toBeGreaterThan(one);
    await field(page).fill(Array.from({ length: 60 }, (_, n) => `line ${n}`).join('\n'));
    expect(await heightOf()).toBeLessThan(10 * one);
    await field(page).fill('first\nsecond');
    await page.keyboard.press('Enter');
    await answers(page).first().getByText('first token after').waitFor();
    expect(await field(page).inputValue()).toBe('');
    expect(await heightOf()).toBe(one);
    expect(await page.locator('article.you p').textContent()).toBe('first\nsecond');
    expect(await page.evaluate<string>('document.activeElement.getAttribute("aria-label")')).toBe('Message');
    await watched.expectAccessible('a conversation');
  });
});

test.each([
  [1280, 'light'],
  [360, 'light'],
  [360, 'dark'],
] as const)(
  'at %i pixels, %s: the composer stays at the bottom as messages arrive, and the newest is visible',
  async (width, scheme) => {
    await withPage({ width, scheme }, async (page, watched) => {
      const boxOf = async () => (await page.locator('form.composer').boundingBox()) ?? { y: 0, height: 0 };
      const before = await boxOf();
      expect(before.y + before.height).toBeGreaterThan(850);
      for (let turn = 0; turn < 4; turn++)
        await say(page, `turn ${turn}\n\n${'a rather long line of words. '.repeat(30)}`);
      const after = await boxOf();
      expect([after.y, after.height]).toEqual([before.y, before.height]);
      // Only the messages scroll and not the page, and the latest message is visible.
      expect(
        await page.evaluate<boolean>('document.documentElement.scrollHeight <= window.innerHeight'),
      ).toBe(true);
      const gap = `(() => { const { scrollHeight, scrollTop, clientHeight } = document.querySelector('.messages');
      return scrollHeight - scrollTop - clientHeight; })()`;
      await until(async () => (await page.evaluate<number>(gap)) < 4);
      await watched.expectAccessible('a long conversation');
      // The page must not scroll if the reader has scrolled up.
      await page.evaluate('document.querySelector(".messages").scrollTop = 0');
      await button(page, 'Settings').click();
      await watched.expectAccessible('settings');
      await page.keyboard.press('Escape');
      expect(await page.evaluate<number>('document.querySelector(".messages").scrollTop')).toBe(0);
    });
  },
);

const written = [
  'A list:',
  '',
  '1. first',
  '2. second with **bold** and `code`',
  '',
  '```ts',
  'const one = "<b>1</b>";',
  '```',
  '',
  '[the docs](https://example.com/docs) and [no link](javascript:document.title=1)',
  '',
  '<img src=x onerror="document.title=1"><script>document.title=2</script>',
].join('\n');

test('an answer is rendered as intended, without its own HTML, and its code can be copied', async () => {
  await withPage({}, async (page, watched) => {
    const writer = await begun(page);
    await writer.write(written);
    writer.end();
    const answer = answers(page).first();
    await answer.getByText('first token after').waitFor();
    expect(await answer.locator('ol li').count()).toBe(2);
    expect(await answer.locator('strong').first().textContent()).toBe('bold');
    expect(await answer.locator('pre code').textContent()).toBe('const one = "<b>1</b>";');
    expect(await answer.locator('img, script, iframe, b').count()).toBe(0);
    expect(await page.title()).toBe('Playground');
    expect(
      await answer
        .locator('a:not([href*="/explain"])')
        .evaluateAll((links) => links.map((link) => link.getAttribute('href'))),
    ).toEqual(['https://example.com/docs']);
    await button(answer, 'Copy code').click();
    await answer.getByText('✓ Copied').waitFor();
    expect(await page.evaluate<string>('navigator.clipboard.readText()')).toBe('const one = "<b>1</b>";');
    await button(answer, 'Copy answer').click();
    await until(async () =>
      (await page.evaluate<string>('navigator.clipboard.readText()')).includes('A list:'),
    );
    await watched.expectAccessible('an answer with all kinds of blocks');
  });
});

test('while an answer grows, its finished parts are not redrawn', async () => {
  await withPage({}, async (page) => {
    await page.evaluate(`{
      globalThis.touched = new Map();
      globalThis.settled = 0;
      const isSettled = (node) => {
        const block = (node.nodeType === 1 ? node : node.parentElement)?.closest('article.answer > *');
        return block && block.nextElementSibling?.nextElementSibling && !block.classList.contains('turn-foot');
      };
      new MutationObserver((records) => {
        globalThis.settled = document.querySelectorAll('article.answer > p').length;
        for (const { target, type } of records)
          if (isSettled(target)) touched.set(type, target.textContent.slice(0, 40));
      }).observe(document.querySelector('.messages'), { subtree: true, childList: true, characterData: true });
    }`);
    const writer = await begun(page);
    const paragraphs = answers(page).first().locator('> p');
    for (let n = 0; n < 30; n++) {
      // The pieces split words and markup, as tokens do.
      for (const piece of [`Paragraph ${n} has *`, '*so', 'me** wor', 'ds.\n', '\n'])
        await writer.write(piece);
      await paragraphs.nth(n).getByText('words.').waitFor();
    }
    writer.end();
    await answers(page).first().getByText('first token after').waitFor();
    expect(await paragraphs.count()).toBe(30);
    expect(await page.evaluate<number>('settled')).toBeGreaterThan(20);
    expect(await page.evaluate<string[]>('[...touched]')).toEqual([]);
  });
});

test('an answer is stopped and repeated, and a new conversation contains nothing of the old one', async () => {
  await withPage({}, async (page) => {
    await say(page, 'one');
    await say(page, 'two');
    expect(await page.getByRole('button', { name: 'Ask again for another answer' }).count()).toBe(1);
    const sent = page.waitForRequest(/\/api\/chat$/);
    await page.getByRole('button', { name: 'Ask again for another answer' }).click();
    const { messages } = (await sent).postDataJSON() as { messages: { role: string; content: string }[] };
    expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user']);
    expect(messages.at(-1)?.content).toBe('two');
    await answers(page).nth(1).getByText('first token after').waitFor();
    expect(await answers(page).count()).toBe(2);
    const writer = await begun(page);
    await writer.write('Half of an');
    await answers(page).nth(2).getByText('Half of an').waitFor();
    await button(page, 'Stop').click();
    await page.getByRole('alert').getByText('It does not count as a turn').waitFor();
    await button(page, 'New conversation').click();
    await page.getByText('What would you like to ask').waitFor();
    expect(await page.locator('article').count()).toBe(0);
    await page.getByLabel('Model', { exact: true }).selectOption('echo-small');
    const next = page.waitForRequest(/\/api\/chat$/);
    await say(page, 'afresh');
    expect(((await next).postDataJSON() as { messages: object[] }).messages.length).toBe(1);
  });
});

test('a refusal shows its reason and remedy, and returns the message to the composer', async () => {
  await withPage({}, async (page, watched) => {
    const alert = page.getByRole('alert');
    // The browser is offline, so no answer comes.
    await page.context().setOffline(true);
    await field(page).fill('are you there');
    await page.keyboard.press('Enter');
    await alert.getByText('No answer arrived.').waitFor();
    expect(await field(page).inputValue()).toBe('are you there');
    await page.context().setOffline(false);
    await button(page, 'Try again').click();
    await answers(page).first().getByText('first token after').waitFor();
    // The conversation is longer than visitors may send to the model.
    await setVisitors({ freeTurns: 100, requestsPerMinute: 1000, contextTokens: 10 });
    await field(page).fill('many words '.repeat(200));
    await page.keyboard.press('Enter');
    await alert.getByText('The conversation is too long for this model.').waitFor();
    await watched.expectAccessible('a refusal');
    await button(page, 'Start a new conversation').click();
    await setVisitors({ freeTurns: 0 });
    await field(page).fill('one more');
    await page.keyboard.press('Enter');
    await alert.getByText('Nothing left for now.').waitFor();
    expect(await alert.getByRole('link', { name: 'Sign in' }).getAttribute('href')).toBe(
      `${dev.ready.console.url}/sign-in`,
    );
    await setVisitors({ freeTurns: 100, requestsPerMinute: 1000 });
  });
});

test('with no model available the page says so and sends nothing, and it recovers once one is available', async () => {
  const watched = await WatchedPage.open(browser, dev.ready.gateways[0]?.play ?? '');
  const { page } = watched;
  let models: readonly string[] = [];
  let asked = 0;
  await page.route('**/api/visitor', (route) =>
    route.fulfill({ json: { turns: { left: 9, limit: 9 }, models } }),
  );
  await page.route('**/api/chat', (route) => {
    asked++;
    return route.abort();
  });
  await page.goto('/');
  await page.getByText('No model is available right now').waitFor();
  const field = page.getByLabel('Message', { exact: true });
  await field.fill('hello');
  await field.press('Enter');
  expect(await page.getByRole('button', { name: 'Send', exact: true }).isDisabled()).toBe(true);
  expect(asked).toBe(0);
  await watched.expectAccessible('no model');
  models = [model];
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText(`What would you like to ask ${model}?`).waitFor();
  await watched.close();
});

test('if the fleet serves no visitors, the page says that it is closed, and calls are refused', async () => {
  const empty = await startDev<Dev>(join(dir, 'empty'), [...trusted, '--no-demo', '--play-port', '0']);
  try {
    const play = empty.ready.gateways[0]?.play ?? '';
    const watched = await WatchedPage.open(browser, play, { allowed: /status of 404/ });
    await watched.page.goto('/');
    await watched.page.getByText('The playground is closed').waitFor();
    expect(await watched.page.getByLabel('Message', { exact: true }).count()).toBe(0);
    await watched.expectAccessible('closed');
    watched.expectClean();
    await watched.close();
    for (const path of ['/api/visitor', '/api/key', '/api/chat']) {
      const headers = { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' };
      const answer = await fetch(new URL(path, play), { method: 'POST', headers, body: '{}' });
      const { error } = (await answer.json()) as { error: { type: string } };
      expect([path, answer.status, error.type]).toEqual([path, 404, 'NotFoundError']);
    }
  } finally {
    await empty.end();
  }
});
