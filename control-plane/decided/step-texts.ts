/** A step in words, and the rows that made it so. */
import type { PlaceKey } from '../../schemas/names.ts';
import type { Step, StepName } from '../../shared/decision/trace.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import type { TableName } from '../../shared/snapshot/tables.ts';
import { isInstalled, type NodeReport, nodesAt } from './places.ts';

/** A mark of a row that a step depends on. */
export interface StepMark {
  readonly table: TableName;
  readonly id: string;
  readonly mark?: string;
}

export interface StepText {
  readonly text: string;
  readonly marks: readonly StepMark[];
}

type Describe = (step: Step, db: Database, model: string) => StepText;

const plain = (text: string, ...marks: StepMark[]): StepText => ({ text, marks });
const limitText = (value: unknown): string => (value === null ? 'no limit' : `of ${String(value)}`);
const tierMark = ({ facts }: Step): StepMark[] =>
  typeof facts['tier'] === 'string' ? [{ table: 'tier', id: facts['tier'] }] : [];

/** Why there was no request for the rules to judge; another reason is shown as it is. */
const unreadTexts: Readonly<Record<string, string>> = {
  'bad http': 'it is not well-formed HTTP',
  'large headers': 'its headers are too large',
  'no visitor': 'it has no cookie of a visitor',
  NotFoundError: 'the playground has no such call',
  'new visitors': 'its network has had too many new visitors in this hour',
};

const descriptions: Readonly<Record<StepName, Describe>> = {
  http: ({ facts: { reason } }) => plain(unreadTexts[String(reason)] ?? String(reason ?? 'it was not read')),
  host: ({ facts, result }) => {
    if (result === 'refused') return plain('no host of this service');
    return plain(facts['kind'] === 'stack' ? `the host of ${String(facts['stack'])}` : 'the shared host');
  },
  fresh: ({ result }) =>
    plain(result === 'ok' ? 'the state is proven fresh' : 'the state was too old to prove a key'),
  key: keyText,
  path: ({ facts, result }) =>
    plain(result === 'ok' ? `operation ${String(facts['operation'])}` : 'there is nothing at this path'),
  shape: ({ result }) =>
    plain(result === 'assumed' ? 'taken as well-formed' : 'the body could not be carried'),
  usage: ({ result }) => plain(result === 'ok' ? 'usage can be recorded' : 'usage could not be recorded'),
  plan: planText,
  context: (step) => {
    const { needed, allowed, atLeast } = step.facts;
    return plain(
      `${atLeast ? 'at least ' : ''}${String(needed)} tokens, ${limitText(allowed)}`,
      ...tierMark(step),
    );
  },
  allowance: (step) => {
    if (step.result === 'skipped') return plain('not asked: the pool would not answer');
    const { used, allowed, kind } = step.facts;
    const unit = kind === 'turns' ? 'turns' : 'tokens of this period';
    return plain(`${String(used)} ${unit} used, ${limitText(allowed)}`, ...tierMark(step));
  },
  'network allowance': (step) =>
    plain(
      `${String(step.facts['used'])} turns of the network used today, ${limitText(step.facts['allowed'])}`,
      ...tierMark(step),
    ),
  'visitor tokens': (step) =>
    plain(
      `${String(step.facts['used'])} tokens of all visitors used today, ${limitText(step.facts['allowed'])}`,
      ...tierMark(step),
    ),
  'visitor requests': (step) =>
    plain(
      `${String(step.facts['used'])} of all visitors in this minute, ${limitText(step.facts['allowed'])}`,
      ...tierMark(step),
    ),
  'visitor concurrency': (step) =>
    plain(
      `${String(step.facts['inFlight'])} of all visitors in flight, this one counts ${String(step.facts['weight'])}, ${limitText(step.facts['allowed'])}`,
      ...tierMark(step),
    ),
  requests: (step) =>
    plain(
      `${String(step.facts['used'])} in this minute, ${limitText(step.facts['allowed'])}`,
      ...tierMark(step),
    ),
  concurrency: (step) => {
    const { inFlight, weight, allowed } = step.facts;
    return plain(
      `${String(inFlight)} in flight, this one counts ${String(weight)}, ${limitText(allowed)}`,
      ...tierMark(step),
    );
  },
  stack: ({ facts, result }) =>
    result === 'refused'
      ? plain(`${String(facts['stack'])} is not yours, or not there`)
      : plain(`${String(facts['stack'])} is of this organisation`, {
          table: 'stack',
          id: String(facts['stack']),
        }),
  surface: ({ facts, result, reads }) => {
    const marks = reads.map(({ id }): StepMark => ({ table: 'stack', id, mark: 'surface_set_at' }));
    return plain(
      result === 'ok' ? `it speaks ${String(facts['surface'])}` : 'it speaks the other API style',
      ...marks,
    );
  },
  'own nodes': nodesText,
  pool: ({ result }, _db, model) =>
    plain(result === 'ok' ? 'installed' : 'not installed', { table: 'pool_model', id: model }),
  tier: ({ reads, result }, _db, model) => {
    const tier = reads.find(({ table }) => table === 'tier')?.id;
    const text = `${tier ?? 'the plan'} ${result === 'ok' ? 'includes it' : 'does not include it'}`;
    if (tier === undefined) return plain(text);
    // A change of its models alone is none of the tier's own row.
    const models = [model, '*'].map((id): StepMark => ({ table: 'tier_model', id: `${tier}/${id}` }));
    return plain(text, { table: 'tier', id: tier }, ...models);
  },
  nodes: nodesText,
  listing: ({ result }) =>
    plain(result === 'ok' ? 'the list of models' : 'it is not in the list of this host'),
  answer: ({ facts: { reason } }) =>
    plain(reason === 'InternalError' ? 'the gateway failed to handle it' : 'the node did not answer it'),
};

export function describeStep(step: Step, db: Database, model: string): StepText {
  if (step.result === 'skipped' && step.step !== 'allowance') return plain('not asked');
  return descriptions[step.step](step, db, model);
}

function keyText({ facts, result }: Step, db: Database): StepText {
  const { keyId, organisation, state } = facts;
  const owner = nameOf(db, 'organisation', String(organisation));
  if (result === 'assumed') return plain(`any good key of ${owner}`);
  if (typeof keyId !== 'string') return plain('no key that is known');
  const key = nameOf(db, 'api_key', keyId);
  const { expiresAtMs } = facts;
  const end = typeof expiresAtMs === 'number' ? `, expires ${new Date(expiresAtMs).toISOString()}` : '';
  const text = result === 'ok' ? `${key} of ${owner}${end}` : `${key} is ${String(state)}`;
  return plain(text, { table: 'api_key', id: keyId });
}

/** Its name, and its id where that is another; the id alone where the row is gone. */
function nameOf(db: Database, table: 'organisation' | 'api_key', id: string): string {
  const row = db.prepare(`SELECT name FROM ${table} WHERE id = ?`).get(id) as { name: string } | undefined;
  return row === undefined || row.name === id ? id : `${row.name} (${id})`;
}

function planText({ facts, reads, result }: Step): StepText {
  const organisation = reads.find(({ table }) => table === 'organisation');
  const mark = facts['suspended'] === true ? 'suspended_set_at' : 'tier_set_at';
  const own: StepMark[] = organisation ? [{ table: 'organisation', id: organisation.id, mark }] : [];
  if (result === 'ok') return plain(`on ${String(facts['tier'])}`, ...own);
  return plain(facts['suspended'] === true ? 'the organisation is suspended' : 'no plan', ...own);
}

const faultTexts = { down: 'is down', drained: 'is drained', 'not loaded': 'has not loaded it' } as const;
const nodesNamedMax = 8;

function nodesText({ facts, result, step }: Step, db: Database, model: string): StepText {
  const place = String(facts['place']) as PlaceKey;
  const reports = nodesAt(db, place, model);
  const installed: StepMark[] = place.startsWith('stack:')
    ? [{ table: 'stack_model', id: `${place.slice('stack:'.length)}/${model}` }]
    : [];
  if (result === 'ok') {
    const serving = reports.filter(({ fault }) => fault === undefined);
    const names = serving.slice(0, nodesNamedMax).map(({ id }) => id);
    return plain(
      `${names.join(', ')} serve${names.length === 1 ? 's' : ''} it`,
      ...installed,
      ...serving.map(markOf),
    );
  }
  if (step === 'nodes' && !isInstalled(db, place, model)) return plain('not installed', ...installed);
  if (reports.length === 0) return plain('no nodes');
  const texts = reports
    .slice(0, nodesNamedMax)
    .map(({ id, fault }) => `${id} ${fault ? faultTexts[fault] : 'serves it'}`);
  // Nodes that never had it say less than those that would serve it if they were there.
  const away = reports.filter(({ fault }) => fault !== 'not loaded');
  const deciding = away.length > 0 || step === 'own nodes' ? away : reports;
  return plain(texts.join(', '), ...deciding.map(markOf));
}

function markOf({ id, mark }: NodeReport): StepMark {
  return { table: 'node', id, mark };
}
