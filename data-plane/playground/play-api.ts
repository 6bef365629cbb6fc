/** API for the playground's page: the state of a visitor, models that an API key may use, and turns of a conversation. */
import type { BlockList } from 'node:net';
import { z } from 'zod';
import { operations } from '../../schemas/api/operations.ts';
import { daySeconds } from '../../schemas/durations.ts';
import { countNoun } from '../../schemas/grouped.ts';
import type { PlaceKey } from '../../schemas/names.ts';
import { admit } from '../../shared/decision/admission.ts';
import { organisationPlan, unauthorized } from '../../shared/decision/authenticate.ts';
import { textModels } from '../../shared/decision/model-listing.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import { noVisitors, type Target } from '../../shared/decision/route.ts';
import { ClientGone } from '../../shared/runtime/body-pieces.ts';
import { isJson, isOwnCall, portAsked } from '../../shared/runtime/browser-rules.ts';
import { type AnswerIds, sendJson, sendRefusal, targetPath } from '../http/answers.ts';
import { readBody } from '../http/body.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Gateway } from '../request/gateway.ts';
import { handle } from '../request/handle.ts';
import { mintRequestId } from '../surfaces/common/request-id.ts';
import { type Solution, solutionSchema } from './challenges.ts';
import { addressOf } from './network.ts';
import { NewVisitors, newPerHourMax } from './new-visitors.ts';
import { authenticateTurnByKey, authenticateVisitor, type Visitor } from './turn-admission.ts';
import { cookieDays, Visitors } from './visitors.ts';

export interface PlayApiOptions {
  readonly gateway: Gateway;
  readonly gatewayToken: string;
  readonly proxies: BlockList;
  readonly isTls: boolean;
  /** URL of the console, where people can sign in and see how a request was decided. */
  readonly consoleUrl: string | undefined;
}

const shared: Target = { kind: 'shared' };
const turnPath = /^\/api\/(?:stacks\/([a-z0-9-]{1,63})\/)?(chat|messages)$/;

export class PlayApi {
  readonly #options: PlayApiOptions;
  readonly #visitors: Visitors;
  readonly #newVisitors: NewVisitors;

  constructor(options: PlayApiOptions) {
    this.#options = options;
    this.#visitors = new Visitors(options.gatewayToken);
    this.#newVisitors = new NewVisitors(options.gatewayToken);
  }

  /** Answers a call to a path under /api/. Never rejects. */
  async handle(exchange: Exchange): Promise<void> {
    const { method, url, headers } = exchange.head;
    const path = targetPath(url);
    exchange.answer.setField('cache-control', 'no-store');
    try {
      if (method !== 'POST' || !isOwnCall('POST', headers) || !isJson(headers))
        throw new Refusal('no such call', 'The playground has no such call.');
      const turn = turnPath.exec(path);
      if (turn !== null) await this.#turn(exchange, turn);
      else if (path === '/api/visitor') await this.#visitor(exchange);
      else if (path === '/api/key') this.#key(exchange);
      else throw new Refusal('no such call', 'The playground has no such call.');
    } catch (error) {
      this.#refuse(exchange, error, path);
    }
  }

  /** Handles one turn of a conversation. It is counted, limited, routed and metered like any other request. */
  async #turn(exchange: Exchange, [, stack, operation]: RegExpExecArray): Promise<void> {
    const hasKey = exchange.head.headers.authorization !== undefined;
    if (!hasKey && (stack !== undefined || operation !== 'chat')) throw unauthorized('no visitor');
    const authenticate = hasKey
      ? authenticateTurnByKey(operation as 'chat' | 'messages')
      : authenticateVisitor((logMs) => this.#known(exchange, logMs));
    const target: Target = stack === undefined ? shared : { kind: 'stack', stack };
    await handle(this.#options.gateway, exchange, target, authenticate);
  }

  /** Sends the state of the cookie's visitor, or of a new visitor, who may have to solve a proof of work first. */
  async #visitor(exchange: Exchange): Promise<void> {
    const solved = await this.#readSolution(exchange);
    // Read the clock only after the body has arrived, because the client decides how long that takes.
    const nowMs = this.#options.gateway.logNow();
    const known = this.#known(exchange, nowMs);
    if (known !== undefined) return this.#sendState(exchange, known, nowMs);
    const address = addressOf(exchange, this.#options.proxies);
    const network = this.#visitors.network(address, nowMs);
    const admitted = await this.#newVisitors.admit({ network, address }, solved, nowMs);
    if (admitted.kind === 'refused') throw tooManyVisitors(admitted.retryAfterSeconds);
    if (admitted.kind === 'busy') throw tooManySolutions(admitted.retryAfterSeconds);
    if (admitted.kind === 'work')
      return sendJson(exchange, ids(), JSON.stringify({ work: admitted.challenge }));
    const { cookie, id } = this.#visitors.mint(nowMs);
    const attributes = `Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=${cookieDays * daySeconds}`;
    exchange.answer.setField('set-cookie', `${this.#cookieName(exchange.head)}=${cookie}; ${attributes}`);
    return this.#sendState(exchange, { id: this.#visitors.subject(id, nowMs), network }, nowMs);
  }

  /** Sends the models, and the turns that the visitor has left in the month and on the day of `nowMs`. */
  async #sendState(exchange: Exchange, { id, network }: Visitor, nowMs: number): Promise<void> {
    const { gateway, consoleUrl } = this.#options;
    const { lookup, meter } = gateway;
    const tier = lookup.anonymousTier();
    const totals = lookup.visitorTotals();
    if (tier === undefined || totals === undefined) throw noVisitors();
    await meter.loadTotal({ visitor: id, network }, nowMs);
    const limit = tier.freeTurns ?? 0;
    const left = Math.min(
      limit - meter.freeTurns(id, nowMs),
      limit * totals.networkFactor - meter.networkTurns(network, nowMs),
    );
    const models = textModels(lookup, 'pool').filter((model) => lookup.tierIncludes(tier.id, model.id));
    const state = {
      turns: { left: Math.max(0, left), limit },
      models: models.map((model) => model.id),
      contextTokens: tier.contextTokens,
      console: consoleUrl,
    };
    sendJson(exchange, ids(), JSON.stringify(state));
  }

  /** Sends the models that an API key may use in the playground. */
  #key(exchange: Exchange): void {
    const { gateway } = this.#options;
    const { lookup } = gateway;
    const head = {
      ...{ host: undefined, fixed: shared, method: 'POST', path: operations.chat.path },
      ...{ authorization: exchange.head.headers.authorization, xApiKey: undefined },
    };
    const admitted = admit(
      lookup,
      gateway.hosts,
      head,
      { fenced: gateway.fenced(), nowMs: gateway.now() },
      {},
    );
    if (admitted.kind !== 'inference' || admitted.caller.kind !== 'key') throw unauthorized('no key');
    const { owner } = admitted.caller;
    const { organisation } = owner;
    const tier = organisationPlan(owner);
    // Return no models for an organisation without a plan, because all of its requests are refused.
    const modelIds = (place: PlaceKey): string[] =>
      tier === null ? [] : textModels(lookup, place).map(({ id }) => id);
    const own = modelIds(`organisation:${organisation}`);
    const pool = modelIds('pool').filter((id) => tier !== null && lookup.tierIncludes(tier.id, id));
    const stacks = lookup.listStacks(organisation).map(({ id, surface }) => ({
      ...{ id, surface },
      models: modelIds(`stack:${id}`),
    }));
    const models = [...new Set([...own, ...pool])];
    sendJson(exchange, ids(), JSON.stringify({ organisation, models, stacks }));
    exchange.discardBody();
  }

  async #readSolution(exchange: Exchange): Promise<Solution | undefined> {
    const memory = this.#options.gateway.bodies.of('playground');
    const body = await readBody(exchange, memory, { bytesMax: 4096 });
    try {
      return callSchema.safeParse(JSON.parse(body.bytes.whole().toString('utf8'))).data?.solution;
    } catch {
      return undefined;
    } finally {
      body.release();
    }
  }

  /** Subjects, at `nowMs`, of the visitor that the request's cookie names, or undefined without a valid cookie. */
  #known(exchange: Exchange, nowMs: number): Visitor | undefined {
    const name = `${this.#cookieName(exchange.head)}=`;
    const found = (exchange.head.headers.cookie ?? '')
      .split(';')
      .find((part) => part.trim().startsWith(name));
    const id = found && this.#visitors.open(found.trim().slice(name.length), nowMs);
    if (id === undefined) return undefined;
    return { id: this.#visitors.subject(id, nowMs), network: this.#clientNetwork(exchange, nowMs) };
  }

  #clientNetwork(exchange: Exchange, nowMs: number): string {
    return this.#visitors.network(addressOf(exchange, this.#options.proxies), nowMs);
  }

  #cookieName({ headers }: Exchange['head']): string {
    return `__Host-headgate-visitor-${portAsked(headers.host, this.#options.isTls)}`;
  }

  #refuse(exchange: Exchange, error: unknown, path: string): void {
    if (error instanceof ClientGone) {
      exchange.abort();
      return;
    }
    const refusal =
      error instanceof Refusal ? error : new Refusal('fault', 'The service failed to handle this request.');
    if (!(error instanceof Refusal) && !exchange.answer.isGone)
      this.#options.gateway.logger.error({ err: error }, 'a playground call failed');
    const answer = ids();
    const { requestId } = answer;
    this.#options.gateway.observeEarly({ requestId, refusal, target: shared });
    sendRefusal(exchange, answer, refusal, path);
    exchange.discardBody();
  }
}

const callSchema = z.object({ solution: solutionSchema });

function ids(): AnswerIds {
  return { requestId: mintRequestId(), surface: 'openai' };
}

function tooManyVisitors(retryAfterSeconds: number): Refusal {
  return new Refusal(
    'new visitors',
    `The anonymous tier allows ${newPerHourMax} new visitors an hour from one network. Sign in, or try again in ${countNoun(retryAfterSeconds, 'second')}.`,
    { retryAfterSeconds },
  );
}

function tooManySolutions(retryAfterSeconds: number): Refusal {
  return new Refusal(
    'solutions',
    `The anonymous tier allows no more new visitors in this second. Sign in, or try again in ${retryAfterSeconds} second.`,
    { retryAfterSeconds },
  );
}
