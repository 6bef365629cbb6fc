/**
 * Runs an engine behind the whole built service (`headgate dev --node …`, which `npm start` also runs). Tests call it with
 * the official OpenAI library. A proxy between gateway and engine, and the usage totals, show what really happened.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI from 'openai';
import type {
  ChatCompletionCreateParamsNonStreaming,
  ChatCompletionTool,
} from 'openai/resources/chat/completions';
import { expect } from 'vitest';
import { DevAdmin } from '../../tools/dev/dev-admin.ts';
import { type Launch, startProcess } from '../support/processes.ts';
import type { Engine, RunningEngine } from './engine.ts';
import { openTap, type Tap } from './tap.ts';
import { habitualCall } from './tiny-model.ts';

interface DevReady {
  readonly admin: string;
  readonly operatorToken: string;
  readonly gateways: readonly { readonly api: string }[];
}

interface Usage {
  readonly totalTokens: number;
  readonly requests: number;
}

export interface Bench {
  readonly engine: Engine;
  readonly running: RunningEngine;
  /** Proxy between the gateway and the chat server. */
  readonly tap: Tap;
  readonly admin: DevAdmin;
  /** Client with the settings of an ordinary application, except that it never retries. */
  readonly client: OpenAI;
  /** Base URL of the gateway's API, which ends in `/v1`. */
  readonly api: string;
  readonly key: string;
  /** Waits until this many requests have been billed to the key's organisation. Returns the number of tokens billed. */
  billed(requests: number): Promise<number>;
  /** Waits until the control plane sees the chat server as up or down. */
  seen(up: boolean): Promise<void>;
  /** Returns a bench for a new organisation on the top tier, to which nothing has been billed yet. */
  forNewcomer(): Promise<Bench>;
  close(): Promise<void>;
}

export async function startBench(engine: Engine): Promise<Bench> {
  const dir = mkdtempSync(join(tmpdir(), `headgate-${engine.dialect}-`));
  const running = await engine.start(dir);
  const tap = await openTap(running.url);
  const urls = [tap.url, ...(running.embeddingUrl === undefined ? [] : [running.embeddingUrl])];
  const dev = await startDev(dir, urls).catch(async (error: unknown) => {
    await Promise.all([tap.close(), running.stop()]);
    throw error;
  });
  const { ready } = dev;
  const admin = new DevAdmin(ready.admin, ready.operatorToken);
  const api = ready.gateways[0]?.api ?? '';
  let newcomers = 0;
  const forNewcomer = async (): Promise<Bench> => {
    const organisation = `newcomer-${++newcomers}`;
    const named = { id: organisation, name: organisation, tier: 'Platinum' };
    await admin.call('POST', '/organisations', named);
    const { value: key } = await admin.createKey(organisation, 'a claim');
    await admin.confirmed(await admin.position(), 30);
    const usage = (): Promise<Usage> => admin.call('GET', `/usage?organisation=${organisation}`);
    return {
      ...shared,
      key,
      client: new OpenAI({ baseURL: api, apiKey: key, maxRetries: 0, timeout: 150_000 }),
      billed: async (requests) => {
        const settled = expect.poll(async () => (await usage()).requests, { timeout: 30_000, interval: 20 });
        await settled.toBe(requests);
        return (await usage()).totalTokens;
      },
    };
  };
  const shared = {
    engine,
    running,
    tap,
    admin,
    api,
    forNewcomer,
    seen: (up) =>
      expect
        .poll(async () => (await admin.nodes()).find(({ url }) => url === tap.url)?.up, {
          timeout: 60_000,
          interval: 50,
        })
        .toBe(up),
    close: async () => {
      await dev.end();
      await tap.close();
      await running.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  } satisfies Partial<Bench>;
  return forNewcomer();
}

function startDev(dir: string, nodes: readonly string[]): Promise<Launch<DevReady>> {
  const ports = ['--port', '0', '--admin-port', '0', '--metrics-port', '0'];
  return startProcess<DevReady>({
    dir,
    name: 'dev',
    args: [
      ...['dev', '--gateways', '1', '--data', join(dir, 'data'), ...ports],
      ...nodes.flatMap((url) => ['--node', url]),
    ],
    env: { HEADGATE_CONTEXT: join(dir, 'context.json') },
    timeoutMs: 60_000,
  });
}

/** Returns a request with one short turn. `more` adds or replaces fields. */
export function turn(
  { engine }: Pick<Bench, 'engine'>,
  more: Partial<ChatCompletionCreateParamsNonStreaming> = {},
): ChatCompletionCreateParamsNonStreaming {
  return {
    model: engine.model,
    messages: [{ role: 'user', content: 'hello there' }],
    max_tokens: 12,
    temperature: 0,
    seed: 1,
    ...more,
  };
}

/** The tool that the tiny test model calls by habit. */
export const unitTool = tool(habitualCall.name, 'unit', ['c', 'f']);
/** A tool that the model calls only if the request forces it to. */
export const zoneTool = tool('get_zone', 'zone', ['utc', 'cet']);

function tool(name: string, parameter: string, values: readonly string[]): ChatCompletionTool {
  return { type: 'function', function: { name, strict: true, parameters: objectOf(parameter, values) } };
}

/** Returns a schema that leaves no room for free text, so that a model with random weights can satisfy it. */
export function objectOf(parameter: string, values: readonly string[]): Record<string, unknown> {
  return {
    type: 'object',
    properties: { [parameter]: { type: 'string', enum: values } },
    required: [parameter],
    additionalProperties: false,
  };
}

/** Returns the refusal that the library threw. Rejects if it threw another error or none. */
export async function refusalFrom(
  call: Promise<unknown>,
): Promise<{ status: number; type: string; message: string }> {
  const error = await call.then(
    () => expect.fail('this was not refused'),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof OpenAI.APIError) || error.status === undefined) throw error;
  return { status: error.status, type: String(error.type), message: error.message };
}
