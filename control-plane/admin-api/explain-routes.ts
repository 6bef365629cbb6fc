/** Routes of explanations and recorded decisions. Members may ask only about their own organisation. */
import { Readable } from 'node:stream';
import type { OperationAnswer } from '../../schemas/admin/admin.ts';
import { readingRoles } from '../../schemas/admin/admin-row.ts';
import type { DecisionRecord } from '../../schemas/records/decisions.ts';
import type { ExplainRequest, Explanation } from '../../schemas/records/explanations.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { inSlices } from '../../shared/runtime/slices.ts';
import { type Actor, authorise, callerName } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import { describeDecision } from '../explain/described.ts';
import { eventsBetween } from '../explain/events-between.ts';
import { differingSteps, type Explainer, explain, type ToExplain } from '../explain/explanation.ts';
import { findAsker, imagineQuestion } from '../explain/imagined.ts';
import { matrixSteps } from '../explain/matrix.ts';
import { chooseView, questionFromRecord } from '../explain/question.ts';
import { askDecision, type DecisionSources, decisionLines } from '../gateways/ask-decisions.ts';
import type { PastReader } from '../history/past.ts';
import { CallerQueue } from '../state/caller-queue.ts';
import { findKey } from '../state/tenants.ts';
import {
  type AdminContext,
  clientSignal,
  createPastReader,
  type GatewayQuestions,
  requestActor,
} from './context.ts';
import { type FoundCounters, pastCounters, presentCounters } from './live-counters.ts';
import type { AskedOf, OperationHandlers } from './operations.ts';

type Context = Pick<
  AdminContext,
  GatewayQuestions | 'snapshot' | 'replicator' | 'log' | 'past' | 'usage' | 'counters' | 'gauges'
>;

const sinceMsDefault = 3600 * 1000;

/** Returns the organisation of a key. A request without a key belongs to none, so only operators may read its decision. */
function organisationOfKey({ snapshot }: Context, key: string | undefined): string | undefined {
  return key === undefined ? undefined : findKey(snapshot.db, key, wallClockMs())?.organisation;
}

/** Finds the decision record to explain, if the actor may read it. Returns undefined for a hypothetical request. */
async function findRecord(
  context: Context,
  actor: Actor,
  ask: ExplainRequest,
  client: AbortSignal,
): Promise<DecisionRecord | undefined> {
  const { request, record, key, organisation } = ask;
  if (request !== undefined) return (await recordedDecision(context, actor, request, client)).decision;
  const own = (): string | undefined =>
    record === undefined && key === undefined ? organisation : organisationOfKey(context, record?.key ?? key);
  authorise(context.snapshot.db, actor, readingRoles, own);
  return record;
}

/** Finds a recorded decision, if the actor may read it. The route has checked that a person belongs to some organisation. */
async function recordedDecision(
  context: Context,
  actor: Actor,
  request: string,
  client: AbortSignal,
): Promise<OperationAnswer<'decision.get'>> {
  const { decision, unanswered } = await context.gatewayTurns.run(actor, client, () =>
    askDecision(context, request, client),
  );
  authorise(context.snapshot.db, actor, readingRoles, () => organisationOfKey(context, decision?.key));
  if (decision === undefined) throw noRecord(unanswered);
  return { decision, unanswered };
}

function noRecord(unanswered: readonly string[]): CommandError {
  const silent = unanswered.length === 0 ? '' : `; no answer from ${unanswered.join(', ')}`;
  return new CommandError('NotFound', `no gateway has a decision for this request${silent}`, {
    next: 'gateways keep decisions for a day, unless they run with --decisions off: headgate gateway list',
  });
}

type Moment = ExplainRequest['at'];

/** Reads counters. To compare moments (`diff`), reads only tokens, because past values of other counters are not known. */
function readCounters(
  context: Context,
  ask: Pick<ExplainRequest, 'key' | 'organisation' | 'diff'>,
): FoundCounters {
  const nowMs = context.gauges.logNow();
  const asker = findAsker(context.snapshot.db, ask, nowMs);
  return ask.diff === undefined ? presentCounters(context, asker, nowMs) : pastCounters(context, asker);
}

/** Decides the question to explain, on the current state or at a past position with the time of that moment. */
async function decideAt(
  context: Context,
  reader: PastReader,
  ask: ExplainRequest,
  record: DecisionRecord | undefined,
  at: Moment,
): Promise<ToExplain> {
  const { snapshot, past } = context;
  const asked = at ?? (record?.position === 0 ? undefined : record?.position);
  const imaginedView = ask.wave ? 'wave' : 'base';
  const view = record ? { gateway: record.gateway } : imaginedView;
  if (asked === undefined) {
    const nowMs = wallClockMs();
    const found = record ? undefined : readCounters(context, ask);
    const question = found
      ? imagineQuestion(ask, found.counters, nowMs)
      : questionFromRecord(record as DecisionRecord);
    const decision = snapshot.stateAt({ kind: 'present', view: imaginedView }, (state) =>
      describeDecision(state, question, record),
    );
    return { question, record, decision, view, isPast: false, countedSecondsAgo: found?.ageSeconds };
  }
  const { seq, nowMs } = await past.moment(String(asked), reader);
  const asker = record ? undefined : await past.ask('asker', [seq, ask, nowMs], reader);
  const question = record
    ? questionFromRecord(record)
    : imagineQuestion(ask, pastCounters(context, asker).counters, nowMs);
  const seen = record ? chooseView(record, seq) : imaginedView;
  const decision = await past.ask('described', [seq, question, seen, record], reader);
  return { question, record, decision, view, isPast: true };
}

async function answer(
  context: Context,
  { query, body: ask, request, reply }: AskedOf<'decision.explain'>,
): Promise<Explanation> {
  const actor = requestActor(request);
  const reader = createPastReader(request, reply);
  const record = await findRecord(context, actor, ask, reader.client);
  const { log, snapshot, past, replicator } = context;
  const isLogReachable = replicator.reachable && replicator.fault === undefined;
  const isOperator = actor.person === undefined;
  const explainer: Explainer = {
    ...{ log, isLogReachable, snapshot, isOperator },
    answerBefore: (...asked) => past.ask('answerBefore', asked, reader),
  };
  const explained = async (moment: Moment): Promise<Explanation> =>
    explain(explainer, await decideAt(context, reader, ask, record, moment));
  const { at = ask.at } = query;
  const now = await explained(at);
  if (ask.diff === undefined) return now;
  const other = await explained(ask.diff);
  const [from, to] = other.at <= now.at ? [other, now] : [now, other];
  const steps = differingSteps(from, to);
  return { ...now, diff: { from: from.at, to: to.at, steps, events: eventsBetween(from, to, steps) } };
}

async function matrix(
  context: Context,
  { query: { at, ...asked }, request, reply }: AskedOf<'decision.matrix'>,
  turns: CallerQueue,
): Promise<OperationAnswer<'decision.matrix'>> {
  const { organisation } = asked;
  const actor = requestActor(request);
  authorise(context.snapshot.db, actor, readingRoles, () => organisation);
  const { snapshot, past } = context;
  if (at === undefined) {
    return turns.run(callerName(actor), clientSignal(reply), async () => {
      const { seq: position } = snapshot;
      const { counters } = readCounters(context, asked);
      return { ...(await inSlices(matrixSteps(snapshot.db, asked, counters, wallClockMs()))), position };
    });
  }
  const reader = createPastReader(request, reply);
  const { seq, nowMs } = await past.moment(at, reader);
  const { counters } = pastCounters(context, await past.ask('asker', [seq, { organisation }, nowMs], reader));
  return { ...(await past.ask('matrix', [seq, asked, counters, nowMs], reader)), position: seq };
}

async function* exported(
  sources: DecisionSources,
  sinceMs: number,
  gateway: string | undefined,
): AsyncIterable<string> {
  const unanswered = yield* decisionLines(sources, sinceMs, gateway);
  yield `${JSON.stringify({ unanswered })}\n`;
}

type DecisionName = 'decision.explain' | 'decision.matrix' | 'decision.get' | 'decision.export';

export function decisionHandlers(context: Context): OperationHandlers<DecisionName> {
  const matrixTurns = new CallerQueue({
    ...{ concurrencyMax: 1, waitersPerCallerMax: 64, what: 'questions about all models' },
  });
  return {
    'decision.explain': (asked) => answer(context, asked),
    'decision.matrix': (asked) => matrix(context, asked, matrixTurns),
    'decision.get': ({ params, request, reply }) =>
      recordedDecision(context, requestActor(request), params.request, clientSignal(reply)),
    'decision.export': ({ query: { since = context.gauges.logNow() - sinceMsDefault, gateway }, reply }) =>
      reply.type('application/x-ndjson').send(Readable.from(exported(context, since, gateway))),
  };
}
