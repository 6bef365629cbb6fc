/**
 * A simulated node for tests that fails as its behaviour says, and records what it did. Its listener also serves the control
 * API under `/sim/` without authentication. Faults do not affect requests to the control API, and these are not counted.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { emit } from '../../tools/simulator/emission.ts';
import { guarded } from '../../tools/simulator/guarded.ts';
import { isRecord } from '../../tools/simulator/loose.ts';
import { jsonPlan, type Plan } from '../../tools/simulator/plan.ts';
import {
  jsonOf,
  readBody,
  SimNode,
  type SimNodeOptions,
  type SimRequest,
} from '../../tools/simulator/sim-node.ts';
import { answerWordsDefault } from '../../tools/simulator/text.ts';
import { type Behaviour, BehaviourInvalid, type Fault, parseBehaviour, RuleBook } from './behaviour.ts';
import { spoil } from './faults.ts';
import { Ledger, type LedgerEntry, type SimStats } from './ledger.ts';
import { emitSpoilt } from './spoilt-plan.ts';

const controlBytesMax = 8 * 2 ** 20;
/** Pause before trying again to listen on a port that another process has taken, in ms. */
const listenAgainMs = 100;

export interface FaultyNodeOptions extends SimNodeOptions {
  readonly behaviour?: Behaviour;
  /** Keeps the last 100 request bodies in `stats()`. */
  readonly recordBodies?: boolean;
}

export class FaultyNode extends SimNode {
  readonly #behaviour: Behaviour;
  readonly #recordsBodies: boolean;
  readonly #ledger = new Ledger();
  readonly #entries = new WeakMap<ServerResponse, LedgerEntry>();
  #rules = new RuleBook({ rules: [] });
  #isResetting = false;
  #isClosed = false;
  #reopen: NodeJS.Timeout | undefined;

  constructor({ behaviour = parseBehaviour({}), recordBodies = false, ...options }: FaultyNodeOptions) {
    super(options);
    this.#behaviour = behaviour;
    this.#recordsBodies = recordBodies;
    this.server.on('connection', (socket: Socket) => {
      if (this.#isResetting) socket.resetAndDestroy();
    });
  }

  override async open(): Promise<void> {
    await super.open();
    this.server.on('error', () => this.#listenLater(listenAgainMs));
    this.setBehaviour(this.#behaviour);
  }

  override async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#reopen);
    await super.close();
  }

  stats(): SimStats {
    return this.#ledger.stats();
  }

  /** Replaces the behaviour. Its rules start counting from zero. */
  setBehaviour(behaviour: Behaviour): void {
    this.#rules = new RuleBook(behaviour);
    this.engine = { ...this.engine, answerWords: behaviour.answerWords ?? answerWordsDefault };
    clearTimeout(this.#reopen);
    const connections = behaviour.connections;
    this.#isResetting = connections?.mode === 'reset';
    if (connections?.mode === 'refused') {
      this.server.close();
      this.server.closeAllConnections();
    } else {
      this.#listen();
    }
    if (connections?.forMs !== undefined) this.#listenLater(connections.forMs);
  }

  #listenLater(waitMs: number): void {
    clearTimeout(this.#reopen);
    if (!this.#isClosed) this.#reopen = setTimeout(() => this.#listen(false), waitMs);
  }

  #listen(isResetting = this.#isResetting): void {
    this.#isResetting = isResetting;
    if (!this.server.listening && !this.#isClosed) this.server.listen(this.port, this.host);
  }

  protected override handle(request: IncomingMessage, response: ServerResponse): void {
    const path = request.url ?? '/';
    if (!path.startsWith('/sim/')) {
      super.handle(request, response);
      return;
    }
    response.on('error', () => {});
    readBody(request, controlBytesMax, (body) =>
      guarded(response, () => emit(this.#control(request.method ?? 'GET', path, body, response), response)),
    );
  }

  protected override begin(path: string, request: IncomingMessage, response: ServerResponse): void {
    const requestId = request.headers['x-request-id'];
    const entry = this.#ledger.begin(path, typeof requestId === 'string' ? requestId : '', response);
    this.#entries.set(response, entry);
    super.begin(path, request, response);
  }

  protected override send(plan: Plan, request: SimRequest | undefined, response: ServerResponse): void {
    const entry = this.#entries.get(response);
    if (entry === undefined) throw new Error('the request was not begun');
    const fault = request === undefined ? undefined : this.#pick(request, entry);
    entry.fault = fault !== undefined && fault.kind !== 'latency';
    entry.stream = plan.stream;
    entry.work = plan.work;
    const spoilt = fault === undefined ? plan : spoil(plan, fault, this.engine.dialect);
    emitSpoilt(this.signed(spoilt), response, () => {
      entry.ended = true;
    });
  }

  #pick({ method, path, body }: SimRequest, entry: LedgerEntry): Fault | undefined {
    if (method === 'POST' && this.#recordsBodies) this.#ledger.record(body);
    const fields = isRecord(body) ? body : {};
    entry.model = typeof fields.model === 'string' ? fields.model : '';
    return this.#rules.pick({ method, path, model: entry.model, stream: fields['stream'] === true });
  }

  #control(method: string, path: string, bytes: Buffer | undefined, response: ServerResponse): Plan {
    const document = bytes === undefined ? undefined : jsonOf(bytes);
    switch (`${method} ${path}`) {
      case 'GET /sim/stats':
        return jsonPlan(200, this.stats());
      case 'PUT /sim/behaviour':
        return this.#replaceBehaviour(document, response);
      default:
        return jsonPlan(404, { message: 'no such control' });
    }
  }

  #replaceBehaviour(document: unknown, response: ServerResponse): Plan {
    try {
      const behaviour = parseBehaviour(document);
      // A behaviour that ends connections takes effect only after this answer has been sent.
      if (behaviour.connections === undefined) this.setBehaviour(behaviour);
      else response.once('close', () => this.setBehaviour(behaviour));
      return jsonPlan(200, { rules: behaviour.rules.length }, { connection: 'close' });
    } catch (error) {
      if (!(error instanceof BehaviourInvalid)) throw error;
      return jsonPlan(400, { message: error.message });
    }
  }
}

/** Starts a node and resolves once it listens. Rejects if the address is not available. */
export async function startFaultyNode(options: FaultyNodeOptions): Promise<FaultyNode> {
  const node = new FaultyNode(options);
  await node.open();
  return node;
}
