/** A `headgate dev` with its console in a real browser, and the ways in. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { launchBrowser, type View, WatchedPage } from './browser.ts';
import { type Started, startDev } from './processes.ts';

interface Dev {
  readonly admin: string;
  readonly operatorToken: string;
  readonly console: { readonly url: string; readonly signIn: string };
  readonly gateways: readonly { readonly name: string; readonly api: string }[];
  readonly stacks: readonly { readonly id: string; readonly url: string }[];
  readonly organisations: readonly { readonly id: string; readonly key: string }[];
}

export const heading = (page: Page, name: string) =>
  page.getByRole('heading', { name, exact: true, level: 1 });
export const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });

export class ConsoleFleet {
  readonly dir: string;
  readonly #dev: Started<Dev>;
  readonly #browser: Browser;

  private constructor(dir: string, dev: Started<Dev>, browser: Browser) {
    this.dir = dir;
    this.#dev = dev;
    this.#browser = browser;
  }

  static async start(): Promise<ConsoleFleet> {
    const dir = mkdtempSync(join(tmpdir(), 'headgate-console-'));
    return new ConsoleFleet(dir, await startDev<Dev>(dir), await launchBrowser());
  }

  get ready(): Dev {
    return this.#dev.ready;
  }

  async close(): Promise<void> {
    await this.#browser.close();
    await this.#dev.end();
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** A browser of its own, in which nothing may go wrong. */
  async withPage(view: View, work: (page: Page, watched: WatchedPage) => Promise<void>): Promise<void> {
    const watched = await WatchedPage.open(this.#browser, this.ready.console.url, view);
    try {
      await work(watched.page, watched);
      watched.expectClean();
    } finally {
      await watched.close();
    }
  }

  async asOperator(page: Page): Promise<void> {
    await page.goto('/sign-in');
    await page.getByLabel('Operator token').fill(this.ready.operatorToken);
    await button(page, 'Sign in').click();
    await heading(page, 'Fleet').waitFor();
  }

  async asMember(page: Page, person: string): Promise<void> {
    await page.goto('/sign-in');
    await page.getByRole('button', { name: new RegExp(`^${person},`) }).click();
    await heading(page, 'API keys').waitFor();
  }

  /** One call of the admin API as the operator. */
  async admin<T = unknown>(method: string, path: string, body?: object): Promise<T> {
    const headers = {
      authorization: `Bearer ${this.ready.operatorToken}`,
      'content-type': 'application/json',
    };
    const answer = await fetch(`${this.ready.admin}/admin/v1${path}`, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    });
    return (await answer.json()) as T;
  }
}
