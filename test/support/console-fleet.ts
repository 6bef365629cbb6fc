/** A `headgate dev` with its console in a real browser, and the ways in. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { expect } from 'vitest';
import type { AdminMethod } from '../../schemas/admin/admin-routes.ts';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { launchBrowser, type View, WatchedPage } from './browser.ts';
import { completion } from './process-fleet.ts';
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

/** As a link in the page leads there: without a load, which takes most of the time of a visit. */
export async function follow(page: Page, path: string): Promise<void> {
  await page.evaluate(`{
    const link = document.createElement('a');
    link.href = ${JSON.stringify(path)};
    document.body.append(link);
    link.click();
    link.remove();
  }`);
}

/** Follows a link, until the page of this heading is there. */
export async function visit(page: Page, path: string, name: string): Promise<void> {
  await follow(page, path);
  await heading(page, name).waitFor();
}

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

  /** Signed in, a page that begins there. The form of the sign-in is for the tests of processes on their own. */
  asOperator(page: Page, path = '/fleet'): Promise<void> {
    return this.#begin(page, { operatorToken: this.ready.operatorToken }, path);
  }

  asMember(page: Page, person: string, path = '/keys'): Promise<void> {
    return this.#begin(page, { demo: person }, path);
  }

  /** By the call of the form, which saves each test the load of one page more. */
  async #begin(page: Page, data: object, path: string): Promise<void> {
    const headers = { 'sec-fetch-site': 'same-origin' };
    const answer = await page.request.post('/api/session', { headers, data });
    expect([answer.status(), await answer.text()]).toEqual([200, expect.any(String)]);
    await page.goto(path);
  }

  /** One completion with an organisation's key, at the first gateway. */
  ask(organisation: string, model: string, more: object = {}): Promise<Response> {
    const { gateways, organisations } = this.ready;
    const key = organisations.find(({ id }) => id === organisation)?.key ?? '';
    return completion(gateways[0]?.api ?? '', key, { model, ...more });
  }

  /** One call of the admin API as the operator. */
  async admin<T = unknown>(method: AdminMethod, path: string, body?: object): Promise<T> {
    const answer: unknown = await new DevAdmin(this.ready.admin, this.ready.operatorToken).call(
      method,
      path,
      body,
    );
    return answer as T;
  }
}
