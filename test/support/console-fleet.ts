/** Runs `headgate dev`, opens its console in a real browser, and signs in. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { expect } from 'vitest';
import type { AdminMethod } from '../../schemas/admin/admin-routes.ts';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { launchBrowser, type View, WatchedPage } from './browser.ts';
import { completion } from './process-fleet.ts';
import { type Launch, startDev } from './processes.ts';

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

/** Navigates within the open page, as a link does. This avoids a page load, which takes most of the time of a visit. */
export async function follow(page: Page, path: string): Promise<void> {
  await page.evaluate(`{
    const link = document.createElement('a');
    link.href = ${JSON.stringify(path)};
    document.body.append(link);
    link.click();
    link.remove();
  }`);
}

/** Follows a link and waits for the page with this heading. */
export async function visit(page: Page, path: string, name: string): Promise<void> {
  await follow(page, path);
  await heading(page, name).waitFor();
}

export class ConsoleFleet {
  readonly dir: string;
  readonly #dev: Launch<Dev>;
  readonly #browser: Browser;

  private constructor(dir: string, dev: Launch<Dev>, browser: Browser) {
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

  /** Opens a page in a separate browser context, runs the work and fails if the page caused any error. */
  async withPage(view: View, work: (page: Page, watched: WatchedPage) => Promise<void>): Promise<void> {
    const watched = await WatchedPage.open(this.#browser, this.ready.console.url, view);
    try {
      await work(watched.page, watched);
      watched.expectClean();
    } finally {
      await watched.close();
    }
  }

  /** Signs in as the operator and opens the page. Process tests cover the sign-in form itself. */
  asOperator(page: Page, path = '/fleet'): Promise<void> {
    return this.#begin(page, { operatorToken: this.ready.operatorToken }, path);
  }

  asMember(page: Page, person: string, path = '/keys'): Promise<void> {
    return this.#begin(page, { demo: person }, path);
  }

  /** Signs in with the same request as the sign-in form, which saves each test one page load. */
  async #begin(page: Page, data: object, path: string): Promise<void> {
    const headers = { 'sec-fetch-site': 'same-origin' };
    const answer = await page.request.post('/api/session', { headers, data });
    expect([answer.status(), await answer.text()]).toEqual([200, expect.any(String)]);
    await page.goto(path);
  }

  /** Requests one completion from the first gateway with the organisation's key. */
  ask(organisation: string, model: string, more: object = {}): Promise<Response> {
    const { gateways, organisations } = this.ready;
    const key = organisations.find(({ id }) => id === organisation)?.key ?? '';
    return completion(gateways[0]?.api ?? '', key, { model, ...more });
  }

  async admin<T = unknown>(method: AdminMethod, path: string, body?: object): Promise<T> {
    const answer: unknown = await new DevAdmin(this.ready.admin, this.ready.operatorToken).call(
      method,
      path,
      body,
    );
    return answer as T;
  }
}
