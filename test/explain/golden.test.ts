/**
 * Tests the golden decisions over the admin API. Each is recorded as a gateway would record it. The explanation must name the
 * decision, its step and the event that caused it, and the rules must still decide the same. traced.test.ts reads the same
 * decisions without a server, and wire.process.test.ts sends one request of each type to running processes.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { toDecisionRecord } from '../../data-plane/records/project.ts';
import { toRecordedRequest } from '../../data-plane/records/recorded.ts';
import type { RequestRecord } from '../../data-plane/request/request-record.ts';
import { controlTopic } from '../../schemas/events/commit.ts';
import { type DecisionRecord, decisionRecordSchema } from '../../schemas/records/decisions.ts';
import { type Explanation, explanationSchema } from '../../schemas/records/explanations.ts';
import { type Cause, causes, findCause } from '../../shared/decision/causes.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import { openLog } from '../../shared/log/open-log.ts';
import {
  corpusHosts,
  factsOf,
  type GoldenCase,
  goldenCases,
  openCorpus,
  recordsOfCorpus,
} from '../replay/decisions/corpus.ts';
import { recordLive } from '../replay/decisions/live.ts';
import { replayDecision } from '../replay/decisions/replay.ts';
import { startControlPlaneAlone, type TestControlPlane } from '../support/control-plane.ts';
import { operatorToken } from '../support/fleet.ts';
import { runCli } from '../support/run-cli.ts';
import { until } from '../support/until.ts';

const corpus = openCorpus();
const dir = mkdtempSync(join(tmpdir(), 'headgate-golden-'));
let plane: TestControlPlane;
beforeAll(async () => {
  const logUrl = `sqlite:${join(dir, 'log')}`;
  const log = await openLog(logUrl, { topic: controlTopic });
  for (const { value } of recordsOfCorpus()) await log.append(value);
  await log.close();
  plane = await startControlPlaneAlone({ logUrl });
  await until(async () => (await plane.admin.position()) >= recordsOfCorpus().length);
});
afterAll(async () => {
  await plane.close();
  corpus.close();
  rmSync(dir, { recursive: true });
});

/** Golden cases that do not depend on a gateway in a wave. changes.test.ts covers the others. */
const cases = goldenCases.filter(({ gateway }) => gateway === undefined);

/**
 * Returns the record that a gateway would write for the request. A request placed on a node is recorded as completed there.
 */
async function recordOf(golden: GoldenCase, index: number): Promise<DecisionRecord> {
  const facts = factsOf(golden);
  const req = `req_${index.toString(16).padStart(32, '0')}`;
  if (golden.visitor !== undefined || golden.promptTokens !== undefined) return byHand(golden, req);
  const { record } = await recordLive(corpus.at(golden), facts);
  const { placement } = record.decision ?? {};
  const served: Partial<RequestRecord> | undefined =
    placement !== undefined && !(placement instanceof Refusal)
      ? {
          ...{ refusal: undefined, status: 200 },
          outcome: {
            kind: 'completed',
            node: placement.candidates[0]?.node ?? '',
            usage: { promptTokens: 1, completionTokens: 1 },
          } as RequestRecord['outcome'],
        }
      : undefined;
  const moment = {
    nowMs: facts.nowMs,
    endMs: record.startMs + 1,
    position: golden.atSeq,
    isKnown: () => true,
  };
  const ended = { ...record, status: record.refusal?.status ?? 200, ...served, ids: { requestId: req } };
  const recorded = toRecordedRequest(ended as RequestRecord, moment);
  return decisionRecordSchema.parse(JSON.parse(JSON.stringify(toDecisionRecord(recorded, 'gw-1'))));
}

const operationAt: Readonly<Record<string, DecisionRecord['operation']>> = {
  '/v1/chat/completions': 'chat',
  '/v1/embeddings': 'embeddings',
  '/v1/messages/count_tokens': 'count-tokens',
};

/** Builds the record by hand, because in this test visitors and counted prompts do not come over a socket. */
function byHand(golden: GoldenCase, req: string): DecisionRecord {
  const { counters, nowMs: at, path, host = '', authorization = '', ...facts } = factsOf(golden);
  const decided = replayDecision(corpus.at(golden), factsOf(golden), corpusHosts);
  const stack = /^(stk-.*)\.stacks\.test/.exec(host)?.[1];
  const own = golden.authorization ?? golden.xApiKey ?? '';
  const { promptTokensMax, promptTokensLeast, maxTokens, model, visitor, fenced, outboxFull } = facts;
  const refusal =
    decided.kind === 'refused'
      ? (({ type, status, reason, message }) => ({ type, status, reason, message }))(decided)
      : {};
  return decisionRecordSchema.parse({
    ...{ v: 1, req, gateway: 'gw-1', at, position: golden.atSeq, operation: operationAt[path] },
    ...(stack === undefined || visitor !== undefined ? { host: 'shared' } : { host: 'stack', stack }),
    ...(visitor === undefined
      ? { key: `key-${/\{(.+)\}/.exec(own)?.[1]}`, header: authorization ? 'authorization' : 'x-api-key' }
      : { visitor, fault: 'missing' }),
    ...{
      model,
      promptTokensMax,
      promptTokensLeast,
      maxTokens,
      counted: 'bound',
      counters,
      fenced,
      outboxFull,
    },
    ...{ stage: 'admission', served: decided.kind !== 'refused', status: 200, ...refusal },
    ...{ outcome: decided.kind === 'refused' ? undefined : 'completed', ms: { decided: 1, end: 1 } },
  });
}

const records: DecisionRecord[] = [];
beforeAll(async () => {
  for (const [index, golden] of cases.entries()) records.push(await recordOf(golden, index));
});

const causeOfRecord = (record: DecisionRecord): Cause | undefined =>
  record.served ? undefined : findCause({ stage: record.stage, type: record.type, reason: record.reason });

/** Expected texts of some steps, by case and step. ⨉ marks a refusal. */
const texts: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'the shared host by name': {
    host: 'the shared host',
    fresh: 'the state is proven fresh',
    key: 'cedar (key-cedar) of Cedar (cedar)',
    path: 'operation chat',
    shape: 'the body was read and is well-formed',
    usage: 'usage can be recorded',
    plan: 'on Starter',
    'own nodes': 'not asked: the organisation has no nodes',
    pool: 'installed',
    tier: 'Starter includes it',
    nodes: 'pool-1, pool-2 serve it',
  },
  'a stack host in capitals and with a port': {
    host: 'the host of stk-amber-otter-9k2f',
    allowance: 'not asked: the pool would not answer',
    concurrency: 'room for 400 more at this gateway, this one counts as 4, limit 400',
    stack: 'stk-amber-otter-9k2f belongs to this organisation',
    surface: 'it speaks openai',
    nodes: 'otter-1 serves it',
  },
  'a key after its revocation': { key: '⨉ acme-revoked (key-acme-revoked) is revoked', nodes: 'not asked' },
  suspended: { plan: '⨉ the organisation is suspended' },
  'no plan on an own stack': { plan: '⨉ no tier', nodes: 'moth-1 serves it' },
  'a model that reranks refuses a chat': {
    requests: 'no limit',
    concurrency: 'no limit, this one counts as 1',
  },
  'a foreign stack': {
    stack: '⨉ stk-amber-otter-9k2f does not exist or belongs to another organisation',
    surface: 'not asked',
  },
  'messages on the shared host': { surface: '⨉ this host does not serve the API style of this path' },
  'an unknown model': { pool: '⨉ no model has this name' },
  'an own node wins over the pool': { 'own nodes': 'acme-own serves it' },
  'an own node that is drained': { 'own nodes': '⨉ acme-own is drained', pool: '⨉ not installed' },
  'the plan does not include the pooled model': { tier: '⨉ Starter does not include it' },
  'a model taken from a stack': { nodes: '⨉ not installed' },
  'a visitor while nobody answers': { nodes: '⨉ pool-2 is drained, pool-1 has not loaded it' },
  'one listed model, its slash and colon escaped': { path: 'operation model', listing: 'the list of models' },
  'one model that is not listed on a stack host': { listing: '⨉ this host does not list the model' },
};

/** Types of events that the decisive step of a refusal may name, by the cause of the refusal. Other causes name no event. */
const events: Partial<Record<Cause, readonly string[]>> = {
  missing: ['key.revoked', 'none'],
  expired: ['key.created'],
  revoked: ['key.revoked'],
  'no entitlement': ['organisation.set', 'organisation.suspended'],
  'not listed without a plan': ['organisation.set'],
  context: ['anonymous.set', 'tier.set'],
  allowance: ['anonymous.set', 'tier.set'],
  requests: ['anonymous.set', 'tier.set'],
  concurrency: ['anonymous.set', 'tier.set'],
  'wrong surface': ['none', 'stack.created', 'stack.surface_set'],
  'no pool': ['node.drained', 'none', 'pool.model_uninstalled'],
  'own node away': ['node.drained', 'node.health_changed'],
  'model not in plan': ['anonymous.set', 'tier.set'],
  'no node answers': ['node.drained', 'node.health_changed'],
  'not serving': ['node.health_changed', 'none', 'stack.model_uninstalled'],
};

describe('an explanation agrees with its golden decision:', () => {
  const found = new Map<string, Explanation>();
  const kinds = new Set<string>();
  /**
   * Picks all cases with expected texts, and one case for each combination of cause or capacity, kind of host, early or late
   * position, and kind of caller.
   */
  const chosen = cases.flatMap((golden, index) => {
    const { kind, ...rest } = golden.decision;
    const what = 'reason' in rest ? rest.reason : 'draw' in rest ? rest.draw : '';
    const host = golden.host?.startsWith('stk-') ? 'stack' : 'shared';
    const key = [kind, what, host, golden.atSeq > 10, golden.visitor !== undefined].join();
    const isNew = !kinds.has(key);
    kinds.add(key);
    return isNew || golden.name in texts ? [[golden.name, golden, index] as const] : [];
  });

  test.each(chosen)('%s', async (name, { atSeq, decision }, index) => {
    const record = records[index] as DecisionRecord;
    const explanation = explanationSchema.parse(await plane.admin.call('POST', '/explain', { record }));
    found.set(name, explanation);
    const { verdict, at, same, steps, decisive, before } = explanation;
    expect([at, same]).toEqual([atSeq, true]);
    const { status, type, message } = record;
    expect(verdict).toEqual(
      record.served
        ? { outcome: 'served', served: true, status: 200 }
        : { outcome: 'refused', served: false, status, type, message },
    );
    if (decision.kind === 'refused')
      expect([verdict.status, verdict.type]).toEqual([decision.status, decision.type]);
    const cause = causeOfRecord(record);
    const gave = { own: 'own nodes', pool: 'nodes', stack: 'nodes' }[record.capacity ?? 'pool'];
    const step = cause === undefined ? (decision.kind === 'listed' ? 'listing' : gave) : causes[cause].step;
    // If a node of the organisation served the model, the later change may concern this node instead of the pool.
    expect([step, ...(step === 'pool' ? ['own nodes'] : [])]).toContain(decisive);
    const because = steps.find((one) => one.step === decisive)?.because;
    if (cause !== undefined) expect(events[cause] ?? ['none']).toContain(because?.type ?? 'none');
    if (because !== undefined) {
      const commit = JSON.parse(String(recordsOfCorpus()[because.position - 1]?.value));
      expect(commit.events.map((event: { type: string }) => event.type)).toContain(because.type);
      expect(because.position).toBeLessThanOrEqual(at);
    }
    if (before !== undefined) expect(before.position).toBeLessThan(at);
    for (const [named, text] of Object.entries(texts[name] ?? {})) {
      const shown = steps.find((one) => one.step === named);
      expect(`${shown?.result === 'refused' ? '⨉ ' : ''}${shown?.text}`, named).toBe(text);
    }
  });

  test('every cause that rules alone decide, and every text of the table, occurred', () => {
    const seen = new Set(records.map(causeOfRecord));
    const ruled = (Object.keys(causes) as Cause[]).filter((name) => causes[name].stage === 'admission');
    // These causes need limits on all visitors together, which the golden log does not have.
    expect(ruled.filter((name) => !seen.has(name))).toEqual([
      ...['network turns', 'visitor tokens', 'visitor requests', 'visitor concurrency'],
    ]);
    expect(Object.keys(texts).filter((name) => !found.has(name))).toEqual([]);
  });
});

test('replay decide repeats every golden decision as it was recorded', async () => {
  const path = join(dir, 'recorded.jsonl');
  writeFileSync(path, records.map((record) => `${JSON.stringify(record)}\n`).join(''));
  const env = { HEADGATE_ADMIN: plane.url, HEADGATE_TOKEN: operatorToken };
  const run = await runCli(['replay', 'decide', '--requests', path, '-o', 'json'], { env });
  expect([JSON.parse(run.out), run.code]).toEqual([{ decided: cases.length, differ: 0, outside: 0 }, 0]);
});
