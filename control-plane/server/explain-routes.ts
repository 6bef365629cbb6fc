/** Routes of explanations and recorded decisions. A member asks about the own organisation only. */
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { AdminResponse } from '../../schemas/admin.ts';
import { type DecisionRecord, requestIdSchema } from '../../schemas/decisions.ts';
import { type ExplainRequest, type Explanation, explainRequestSchema } from '../../schemas/explanations.ts';
import { idSchema } from '../../schemas/names.ts';
import { decideOn, factsOf, type Question, questionOf } from '../../shared/decision/question.ts';
import { createLookup } from '../../shared/snapshot/lookup.ts';
import { periodOf } from '../../shared/usage/period.ts';
import { authorise, readingRoles } from '../commands/authorise.ts';
import { CommandError } from '../core/command-error.ts';
import { eventsBetween } from '../explain/events-between.ts';
import { differingSteps, type Explainer, explain, verdictOf } from '../explain/explanation.ts';
import { askDecision, type DecisionSources, decisionLines } from '../gateways/ask-decisions.ts';
import type { ReadableState } from '../history/past.ts';
import { listStacks } from '../state/capacity.ts';
import { listModels } from '../state/catalog.ts';
import { findKey, findOrganisation } from '../state/tenants.ts';
import { type AdminContext, actorOf, parseQuery } from './context.ts';

const matrixQuerySchema = z.object({
  organisation: idSchema,
  at: z.string().min(1).max(40).optional(),
});
const decisionParamsSchema = z.object({ request: requestIdSchema });
const decisionsQuerySchema = z.object({
  /** ms since 1970; an hour ago where it is left out. */
  since: z.coerce.number().min(0).optional(),
  gateway: z.string().min(1).max(200).optional(),
});
const sinceMsDefault = 3600 * 1000;
const nobody = { windowUsed: 0, inFlight: 0, poolTokens: 0, freeTurns: 0 };

function sourcesOf({ board, gatewayToken, previousGatewayToken: previous }: AdminContext): DecisionSources {
  return { board, tokens: [gatewayToken, ...(previous === undefined ? [] : [previous])] };
}

/** The organisation whose members may ask; undefined: operators only. */
function organisationOf(
  context: AdminContext,
  ask: ExplainRequest,
  record?: DecisionRecord,
): string | undefined {
  const { db } = context.snapshot;
  const key = record?.key ?? ask.key;
  if (key !== undefined) return findKey(db, key, Date.now())?.organisation;
  return record === undefined ? ask.organisation : undefined;
}

async function recordOf(context: AdminContext, ask: ExplainRequest): Promise<DecisionRecord | undefined> {
  if (ask.request === undefined) return ask.record;
  const { decision } = await askDecision(sourcesOf(context), ask.request);
  return decision;
}

function noRecord(): CommandError {
  return new CommandError('NotFound', 'no gateway has a decision of this request', {
    next: 'they keep a day, unless they run with --decisions off; headgate gateway list',
  });
}

/** What a request would be judged by now, or at a past position by the clock of that moment. */
function questionFor(
  context: AdminContext,
  ask: ExplainRequest,
  state: ReadableState,
  nowMs: number,
): Question {
  const { host, path, model, promptTokens, maxTokens, key, organisation = '' } = ask;
  const { db } = state;
  if (key !== undefined && findKey(db, key, nowMs) === undefined)
    throw new CommandError('NotFound', `there is no key ${key}`);
  if (ask.organisation !== undefined && findOrganisation(db, organisation) === undefined)
    throw new CommandError('NotFound', `there is no organisation ${organisation}`);
  const credential = key === undefined ? { organisation } : { keyId: key, header: 'authorization' as const };
  const facts = factsOf({
    ...{ operation: path, model, promptTokens, maxTokens, credential },
    visitor: ask.visitor ? 'v-explained' : undefined,
    host: host === 'shared' ? 'shared' : 'stack',
    stack: host === 'shared' ? undefined : host,
  });
  const counters = { ...nobody, poolTokens: poolTokens(context, state, ask, nowMs) };
  return { facts, counters, fenced: false, outboxFull: false, nowMs };
}

function poolTokens(
  context: AdminContext,
  { db }: ReadableState,
  ask: ExplainRequest,
  nowMs: number,
): number {
  const id = ask.organisation ?? (ask.key && findKey(db, ask.key, nowMs)?.organisation);
  const organisation = id === undefined ? undefined : findOrganisation(db, id);
  if (organisation === undefined) return 0;
  const period = periodOf(organisation.anchor, nowMs).start;
  const used = context.usage.poolTokens(organisation.id, period);
  return Math.max(0, used + createLookup(db).usageAdjustment(organisation.id, period));
}

type Moment = ExplainRequest['at'];

async function explained(
  context: AdminContext,
  explainer: Explainer,
  ask: ExplainRequest,
  record: DecisionRecord | undefined,
  at: Moment,
): Promise<Explanation> {
  const { snapshot, past } = context;
  const recordedAt = record?.position === 0 ? undefined : record?.position;
  const asked = at ?? recordedAt;
  const moment =
    asked === undefined ? { seq: snapshot.seq, nowMs: Date.now() } : await past.moment(String(asked));
  const state = asked === undefined ? snapshot : await past.at(moment.seq);
  const question = record === undefined ? questionFor(context, ask, state, moment.nowMs) : questionOf(record);
  return explain(explainer, question, state, record);
}

async function answer(context: AdminContext, request: FastifyRequest): Promise<Explanation> {
  const ask = parseQuery(explainRequestSchema, request.body);
  const actor = actorOf(request);
  const record = await recordOf(context, ask);
  authorise(context.snapshot.db, actor, readingRoles, () => organisationOf(context, ask, record));
  if (ask.request !== undefined && record === undefined) throw noRecord();
  const { log, snapshot, past } = context;
  const explainer: Explainer = { log, snapshot, past, isOperator: actor.person === undefined };
  const now = await explained(context, explainer, ask, record, ask.at);
  if (ask.diff === undefined) return now;
  const other = await explained(context, explainer, ask, record, ask.diff);
  const [from, to] = other.at <= now.at ? [other, now] : [now, other];
  const steps = differingSteps(from, to);
  return { ...now, diff: { from: from.at, to: to.at, steps, events: eventsBetween(from, to, steps) } };
}

async function matrix(
  context: AdminContext,
  request: FastifyRequest,
): Promise<AdminResponse<'GET /explain/matrix'>> {
  const { organisation, at } = parseQuery(matrixQuerySchema, request.query);
  authorise(context.snapshot.db, actorOf(request), readingRoles, () => organisation);
  const { snapshot, past } = context;
  const { seq, nowMs } = at === undefined ? { seq: snapshot.seq, nowMs: Date.now() } : await past.moment(at);
  const state = at === undefined ? snapshot : await past.at(seq);
  const hosts = ['shared', ...listStacks(state.db, organisation).map(({ id }) => id)];
  const items = listModels(state.db).flatMap(({ id: model }) =>
    hosts.map((host) => {
      const base = explainRequestSchema.parse({ organisation, model, host });
      const { served, status, type } = verdictOf(
        decideOn(state.db, questionFor(context, base, state, nowMs)),
      );
      return { model, host, served, status, ...(type !== undefined && { type }) };
    }),
  );
  return { items, position: state.seq };
}

async function* exported(
  sources: DecisionSources,
  sinceMs: number,
  gateway: string | undefined,
): AsyncIterable<string> {
  const unanswered = yield* decisionLines(sources, sinceMs, gateway);
  yield `${JSON.stringify({ unanswered })}\n`;
}

export function registerExplainRoutes(app: FastifyInstance, context: AdminContext): void {
  const config = { access: readingRoles };
  app.route({
    method: 'POST',
    url: '/explain',
    config,
    schema: { summary: 'Explain a decision, made or imagined', body: explainRequestSchema },
    validatorCompiler: () => (data: unknown) => ({ value: data }),
    handler: (request) => answer(context, request),
  });
  app.get(
    '/explain/matrix',
    { config, schema: { summary: 'Each model at each host of an organisation' } },
    (request) => matrix(context, request),
  );
  app.get(
    '/decisions/:request',
    { config, schema: { summary: 'The recorded decision of a request' } },
    async (request): Promise<AdminResponse<'GET /decisions/:request'>> => {
      const params = parseQuery(decisionParamsSchema, request.params);
      const { decision, unanswered } = await askDecision(sourcesOf(context), params.request);
      authorise(context.snapshot.db, actorOf(request), readingRoles, () => decision?.organisation);
      if (decision === undefined) throw noRecord();
      return { decision, unanswered };
    },
  );
  app.get(
    '/decisions',
    { config: { access: 'operator' }, schema: { summary: 'Recorded decisions of all gateways, one a line' } },
    (request, reply) => {
      const { since = Date.now() - sinceMsDefault, gateway } = parseQuery(
        decisionsQuerySchema,
        request.query,
      );
      const lines = exported(sourcesOf(context), since, gateway);
      return reply.type('application/x-ndjson').send(Readable.from(lines));
    },
  );
}
