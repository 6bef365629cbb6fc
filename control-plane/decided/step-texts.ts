/** A step in words, and the rows that made it so. */
import type { PlaceKey } from '../../schemas/names.ts';
import type { Step, StepFacts, StepName, StepResult, StepResults } from '../../shared/decision/trace.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { installsIn } from '../../shared/snapshot/routes.ts';
import type { TableName } from '../../shared/snapshot/tables.ts';
import { type NodeReport, nodesAt } from './places.ts';
import { refusalText } from './refusal-texts.ts';

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

/** What a step is described by. */
export interface Described {
  readonly db: Database;
  readonly model: string;
  /** The number of tokens of the prompt is a bound from above. */
  readonly isBound: boolean;
}

type Describe = (step: Step, of: Described) => StepText;
/** A text for each result that a step can have. */
type Descriptions = {
  readonly [Name in StepName]: { readonly [Result in StepResults[Name]]: Describe };
};

const plain = (text: string, ...marks: StepMark[]): StepText => ({ text, marks });
const limitText = (value: unknown): string => (value === null ? 'no limit' : `of ${String(value)}`);
const tierMark = ({ facts }: Step): StepMark[] =>
  typeof facts['tier'] === 'string' ? [{ table: 'tier', id: facts['tier'] }] : [];

const asText =
  (text: string): Describe =>
  () =>
    plain(text);
const asRefused =
  (step: Parameters<typeof refusalText>[0]): Describe =>
  ({ facts }) =>
    plain(refusalText(step, facts));
/** For steps that compare a number with a limit: the numbers are all there is to say, whichever is larger. */
const either = (describe: Describe) => ({ ok: describe, refused: describe });
const tierLimit = (text: (step: Step, of: Described) => string) =>
  either((step, of) => plain(text(step, of), ...tierMark(step)));

const descriptions: Descriptions = {
  http: { refused: asRefused('http') },
  host: {
    ok: ({ facts }) =>
      plain(facts['kind'] === 'stack' ? `the host of ${String(facts['stack'])}` : 'the shared host'),
    refused: asText('no host of this service'),
  },
  fresh: {
    ok: asText('the state is proven fresh'),
    refused: asText('the state was too old to prove a key'),
  },
  key: {
    ok: (step, { db }) => {
      const { expiresAtMs } = step.facts;
      const end = typeof expiresAtMs === 'number' ? `, expires ${new Date(expiresAtMs).toISOString()}` : '';
      return keyText(step, db, (key, owner) => `${key} of ${owner}${end}`);
    },
    refused: (step, of) =>
      typeof step.facts['keyId'] === 'string'
        ? keyText(step, of.db, (key) => `${key} is ${String(step.facts['state'])}`)
        : asRefused('key')(step, of),
    assumed: ({ facts }, { db }) =>
      plain(`any good key of ${nameOf(db, 'organisation', String(facts['organisation']))}`),
  },
  path: {
    ok: ({ facts }) => plain(`operation ${String(facts['operation'])}`),
    refused: asText('there is nothing at this path'),
  },
  shape: {
    ok: asText('the body was read and is well-formed'),
    refused: asRefused('shape'),
    assumed: asText('taken as well-formed'),
  },
  usage: { ok: asText('usage can be recorded'), refused: asRefused('usage') },
  plan: {
    ok: (step) => plain(`on ${String(step.facts['tier'])}`, ...planMarks(step)),
    refused: withoutPlan,
  },
  context: tierLimit(contextText),
  allowance: tierLimit(({ facts: { used, allowed, kind } }) =>
    kind === 'turns'
      ? `${String(used)} turns of this month used, ${limitText(allowed)}`
      : `${String(used)} tokens count against the allowance of this period, ${limitText(allowed)}`,
  ),
  'network allowance': tierLimit(
    ({ facts: { used, allowed } }) =>
      `${String(used)} turns of the network used today, ${limitText(allowed)}`,
  ),
  'visitor tokens': tierLimit(
    ({ facts: { used, allowed } }) =>
      `${String(used)} tokens of all visitors used today, ${limitText(allowed)}`,
  ),
  requests: tierLimit(({ facts }) => usedText(facts, 'in this minute')),
  concurrency: tierLimit(({ facts }) => usedText(facts, 'in flight')),
  'visitor requests': tierLimit(({ facts }) => usedText(facts, 'of all visitors in this minute')),
  'visitor concurrency': tierLimit(({ facts }) => usedText(facts, 'of all visitors in flight')),
  stack: {
    ok: ({ facts }) =>
      plain(`${String(facts['stack'])} is of this organisation`, {
        table: 'stack',
        id: String(facts['stack']),
      }),
    refused: ({ facts }) => plain(`${String(facts['stack'])} is not yours, or not there`),
  },
  surface: {
    ok: (step) => plain(`it speaks ${String(step.facts['surface'])}`, ...surfaceMarks(step)),
    refused: (step) => plain('it speaks the other API style', ...surfaceMarks(step)),
  },
  'own nodes': { ok: servingNodes, refused: awayNodes },
  pool: {
    ok: (_step, { model }) => plain('installed', { table: 'pool_model', id: model }),
    refused: (_step, { model }) => plain('not installed', { table: 'pool_model', id: model }),
  },
  tier: {
    ok: (step, { model }) => tierText(step, model, 'includes it'),
    refused: (step, { model }) => tierText(step, model, 'does not include it'),
  },
  nodes: {
    ok: servingNodes,
    refused: (step, of) => {
      const place = placeOf(step);
      if (installsIn(of.db)(place, of.model)) return awayNodes(step, of);
      return plain('not installed', ...installedMarks(place, of.model));
    },
  },
  listing: {
    ok: asText('the list of models'),
    refused: (step, of) =>
      step.facts['type'] === 'ModelNotInPlanError' ? withoutPlan(step) : asRefused('listing')(step, of),
  },
  answer: { refused: asRefused('answer') },
};

export function describeStep(step: Step, of: Described): StepText {
  const texts: { readonly [Result in StepResult]?: Describe } = descriptions[step.step];
  const describe = texts[step.result];
  if (describe !== undefined) return describe(step, of);
  return plain(step.facts['fromPool'] === false ? 'not asked: the pool would not answer' : 'not asked');
}

/** The parts, so that the number of the prompt is the one that the record has. */
function contextText(
  { facts: { needed, prompt, answer, atLeast, allowed } }: Step,
  { isBound }: Described,
): string {
  const bound = atLeast ? 'at least ' : isBound ? 'at most ' : '';
  const parts = answer === 0 ? '' : ` (${String(prompt)} of the prompt, ${String(answer)} for the answer)`;
  return `${bound}${String(needed)} tokens${parts}, ${limitText(allowed)}`;
}

/** What is known of who used it: the sum that gateways published, what the gateway that decided knew, or only its room. */
function usedText({ used, here, elsewhere, held, room, weight, allowed }: StepFacts, what: string): string {
  const counts = weight === undefined ? '' : `, this one counts ${String(weight)}`;
  if (allowed === null) return `no limit${counts}`;
  if (used !== undefined) return `${String(used)} ${what}${counts}, ${limitText(allowed)}`;
  const left = `room for ${String(room)} more at this gateway${counts}, ${limitText(allowed)}`;
  if (here === undefined) return left;
  if (elsewhere === undefined)
    return `${String(here)} ${what} at this gateway${counts}, ${limitText(allowed)}`;
  const kept = Number(held) > Number(elsewhere) ? ` (others hold ${String(held)})` : '';
  return `${String(here)} here and ${String(elsewhere)} elsewhere ${what}${kept}; ${left}`;
}

function keyText(
  { facts: { keyId, organisation } }: Step,
  db: Database,
  text: (key: string, owner: string) => string,
): StepText {
  const id = String(keyId);
  const owner = nameOf(db, 'organisation', String(organisation));
  return plain(text(nameOf(db, 'api_key', id), owner), { table: 'api_key', id });
}

/** Its name, and its id where that is another; the id alone where the row is gone. */
function nameOf(db: Database, table: 'organisation' | 'api_key', id: string): string {
  const row = db.prepare(`SELECT name FROM ${table} WHERE id = ?`).get(id) as { name: string } | undefined;
  return row === undefined || row.name === id ? id : `${row.name} (${id})`;
}

function withoutPlan(step: Step): StepText {
  const text = step.facts['suspended'] === true ? 'the organisation is suspended' : 'no plan';
  return plain(text, ...planMarks(step));
}

function planMarks({ facts, reads }: Step): StepMark[] {
  const organisation = reads.find(({ table }) => table === 'organisation');
  const mark = facts['suspended'] === true ? 'suspended_set_at' : 'tier_set_at';
  return organisation ? [{ table: 'organisation', id: organisation.id, mark }] : [];
}

function surfaceMarks({ reads }: Step): StepMark[] {
  return reads.map(({ id }): StepMark => ({ table: 'stack', id, mark: 'surface_set_at' }));
}

function tierText({ reads }: Step, model: string, says: string): StepText {
  const tier = reads.find(({ table }) => table === 'tier')?.id;
  const text = `${tier ?? 'the plan'} ${says}`;
  if (tier === undefined) return plain(text);
  // A change of its models alone is none of the tier's own row.
  const models = [model, '*'].map((id): StepMark => ({ table: 'tier_model', id: `${tier}/${id}` }));
  return plain(text, { table: 'tier', id: tier }, ...models);
}

const faultTexts = { down: 'is down', drained: 'is drained', 'not loaded': 'has not loaded it' } as const;
const nodesNamedMax = 8;

function placeOf({ facts }: Step): PlaceKey {
  return String(facts['place']) as PlaceKey;
}

function installedMarks(place: PlaceKey, model: string): StepMark[] {
  if (!place.startsWith('stack:')) return [];
  return [{ table: 'stack_model', id: `${place.slice('stack:'.length)}/${model}` }];
}

function servingNodes(step: Step, { db, model }: Described): StepText {
  const place = placeOf(step);
  const serving = nodesAt(db, place, model).filter(({ fault }) => fault === undefined);
  const names = serving.slice(0, nodesNamedMax).map(({ id }) => id);
  const more = serving.length > nodesNamedMax ? ` and ${serving.length - nodesNamedMax} more` : '';
  return plain(
    `${names.join(', ')}${more} serve${serving.length === 1 ? 's' : ''} it`,
    ...installedMarks(place, model),
    ...serving.map(markOf),
  );
}

function awayNodes(step: Step, { db, model }: Described): StepText {
  const reports = nodesAt(db, placeOf(step), model);
  if (reports.length === 0) return plain('no nodes');
  const texts = reports
    .slice(0, nodesNamedMax)
    .map(({ id, fault }) => `${id} ${fault ? faultTexts[fault] : 'serves it'}`);
  if (reports.length > nodesNamedMax) texts.push(`and ${reports.length - nodesNamedMax} more`);
  // Nodes that never had it say less than those that would serve it if they were there.
  const away = reports.filter(({ fault }) => fault !== 'not loaded');
  const deciding = away.length > 0 || step.step === 'own nodes' ? away : reports;
  return plain(texts.join(', '), ...deciding.map(markOf));
}

function markOf({ id, mark }: NodeReport): StepMark {
  return { table: 'node', id, mark };
}
