/**
 * Simulated operators of a fleet. They send random commands to random control planes, and repeat commands that are not
 * answered.
 */
import { type OperationName, operationRoute, resolvePath } from '../../schemas/admin/admin-routes.ts';
import { type Answer, ask } from './ask.ts';
import { type Fleet, operatorToken } from './fleet.ts';
import type { Journal } from './journal.ts';
import type { Dice, Scheduler } from './scheduler.ts';
import { models, organisations, stacks, tiers } from './world.ts';

export interface KnownKey {
  readonly id: string;
  readonly value: string;
  readonly organisation: string;
  /** Whether an operator has asked the control plane to revoke the key. */
  isRevoked: boolean;
}

export interface CommandOutcome {
  readonly id: string;
  readonly name: OperationName;
  /** Whether the command was acknowledged or refused, or `unknown` if neither is certain. */
  readonly outcome: 'done' | 'refused' | 'unknown';
}

const attemptsMax = 4;

export class Operators {
  readonly keys: KnownKey[] = [];
  readonly commands: CommandOutcome[] = [];
  /** Ids of the random actions so far. */
  readonly actions: string[] = [];
  /** Called when all gateways have confirmed a position of the log. */
  onConfirmed: (position: number) => void = () => undefined;
  readonly #scheduler: Scheduler;
  readonly #fleet: Fleet;
  readonly #journal: Journal;
  #sent = 0;

  constructor(scheduler: Scheduler, fleet: Fleet, journal: Journal) {
    this.#scheduler = scheduler;
    this.#fleet = fleet;
    this.#journal = journal;
  }

  /** Sends one command, and repeats it with the same id while its outcome is unknown. */
  async command(name: OperationName, input: object): Promise<Answer | undefined> {
    const id = `command-${++this.#sent}`;
    const { path, rest } = resolvePath(name, input);
    const hasBody = Object.keys(rest).length > 0;
    let answer: Answer | undefined;
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      if (attempt > 0) await this.#scheduler.sleep(this.#scheduler.between(200, 2000));
      answer = await this.#ask(
        `${path}?force=true`,
        operationRoute(name).method,
        hasBody ? rest : undefined,
        id,
      );
      if (answer !== undefined && answer.status < 500) break;
    }
    const outcome =
      answer === undefined || answer.status >= 500 ? 'unknown' : answer.status < 300 ? 'done' : 'refused';
    this.commands.push({ id, name, outcome });
    const why = outcome === 'done' ? '' : ` ${answer?.text ?? 'no answer'}`;
    this.#journal.note('operator', `${id} ${name} ${JSON.stringify(input).slice(0, 200)} ${outcome}${why}`);
    return outcome === 'done' ? answer : undefined;
  }

  async createKey(organisation: string): Promise<void> {
    const answer = await this.command('key.create', { organisation, name: 'a key', expires: 'never' });
    if (answer === undefined) return;
    const { id, value } = JSON.parse(answer.text);
    if (value !== undefined) this.keys.push({ id, value, organisation, isRevoked: false });
  }

  /** Creates a token for the agent of the node with this id. */
  async createToken(id: string): Promise<string> {
    const answer = await this.command('node-token.create', { id });
    return answer === undefined ? '' : JSON.parse(answer.text).value;
  }

  /** Revokes a key and waits until all gateways have confirmed the revocation. */
  async revokeKey(dice: Dice): Promise<void> {
    const key = dice.pick(this.keys);
    if (key === undefined) return;
    key.isRevoked = true;
    if ((await this.command('key.revoke', { id: key.id })) === undefined) return;
    const status = await this.#ask('/status', 'GET');
    const position = status?.status === 200 ? JSON.parse(status.text).position : undefined;
    if (position === undefined) return;
    const answer = await this.#ask(`/confirmations/${position}?timeoutSeconds=60`, 'GET');
    if (answer?.status !== 200 || JSON.parse(answer.text).complete !== true) return;
    this.#journal.note('operator', `position ${position} is confirmed`);
    this.onConfirmed(position);
  }

  /** Runs one operator, who acts until `isOver`. `without` contains ids of actions to leave out. */
  async run(operator: number, isOver: () => boolean, without: ReadonlySet<string>): Promise<void> {
    for (let n = 1; ; n++) {
      const dice = this.#scheduler.fork(operator * 10_000 + n);
      await this.#scheduler.sleep(dice.between(500, 4000));
      if (isOver()) return;
      const id = `action-${operator}-${n}`;
      if (without.has(id)) continue;
      this.actions.push(id);
      await this.#act(dice);
    }
  }

  async #act(dice: Dice): Promise<void> {
    const one = <Value>(values: readonly Value[]): Value => dice.pick(values);
    const [organisation, model, stack] = [one(organisations), one(models), one(stacks)];
    const node = one(this.#fleet.nodes).name;
    const actions: readonly (() => Promise<unknown>)[] = [
      () => this.createKey(organisation),
      () => this.createKey(organisation),
      () => this.revokeKey(dice),
      () => this.revokeKey(dice),
      () => this.command('organisation.update', { id: organisation, suspended: dice.chance(0.2) }),
      () => this.command('organisation.update', { id: organisation, tier: one([...tiers, ...tiers, null]) }),
      () => this.command('pool.install', { model }),
      () => this.command('pool.install', { model }),
      () => this.command('pool.uninstall', { model }),
      () => this.command('stack.install', { id: stack, model }),
      () => this.command('stack.install', { id: stack, model }),
      () => this.command('stack.uninstall', { id: stack, model }),
      () => this.command('node.drain', { id: node }),
      () => this.command('node.undrain', { id: node }),
      () =>
        this.command('tier.set', {
          id: 'Starter',
          requestsPerMinute: Math.floor(dice.between(5, 40)),
          concurrency: 4,
          models: models.filter(() => dice.chance(0.7)),
        }),
    ];
    await one(actions)();
  }

  #ask(path: string, method: string, body?: unknown, id?: string): Promise<Answer | undefined> {
    const { port } = this.#scheduler.pick(this.#fleet.controlPlanes);
    return ask({
      ...{ port, method, path: `/admin/v1${path}` },
      ...(body !== undefined && { body }),
      headers: {
        authorization: `Bearer ${operatorToken}`,
        ...(id !== undefined && { 'idempotency-key': id }),
      },
    });
  }
}
