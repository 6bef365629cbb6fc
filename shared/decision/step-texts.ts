/** Describes the steps of a decision in words, and names the snapshot rows that determined each result. */
import { groupDigits } from '../../schemas/grouped.ts';
import type { PlaceKey } from '../../schemas/names.ts';
import { causes } from './causes.ts';
import type { Read, Step, StepFacts } from './step.ts';

export interface StepText {
  readonly text: string;
  readonly marks: readonly Read[];
}

export interface NodeReport {
  readonly id: string;
  readonly fault?: 'down' | 'drained' | 'not loaded';
  /** Name of the column in the node's row that contains the number of the commit that caused the node's condition. */
  readonly mark: 'up_set_at' | 'drained_set_at' | 'loaded_set_at';
}

/** Look-ups that a step's text needs. */
export interface StepContext {
  readonly model: string;
  /** Whether the prompt's token count is an upper bound. */
  readonly isBound: boolean;
  /** Returns the name of a row, followed by its id if the two differ. If the row no longer exists, returns only the id. */
  nameOf(table: 'organisation' | 'api_key', id: string): string;
  /** Nodes of the place. Nodes that have loaded the model come first. */
  nodesAt(place: PlaceKey): readonly NodeReport[];
  isInstalled(place: PlaceKey): boolean;
}

export type Describe = (step: Step, of: StepContext) => StepText;

/** Texts for each result of a step. A plain string cites all rows that the step read. */
export interface StepTexts {
  readonly ok?: Describe | string;
  /** Text if the step was not checked and is assumed to have passed. */
  readonly assumed?: Describe | string;
  /** Replaces the texts of the causes for which this step refuses requests. */
  readonly refused?: Describe | string;
}

const plain = (text: string, ...marks: Read[]): StepText => ({ text, marks });
const number = (value: unknown): string => (typeof value === 'number' ? groupDigits(value) : String(value));
const tokensText = (value: unknown): string => `${number(value)} token${value === 1 ? '' : 's'}`;
const turnsText = (value: unknown): string => `${number(value)} turn${value === 1 ? '' : 's'}`;
const limitText = (value: unknown): string => (value === null ? 'no limit' : `limit ${number(value)}`);
const placeOf = ({ facts }: Step): PlaceKey => String(facts['place']) as PlaceKey;

/** Text of the refusal's cause, or a general text for an unknown cause in a record from another build. */
const said: Describe = ({ cause }) =>
  plain((cause && causes[cause].says) ?? 'refused for a cause that this build does not know');

/** Explains a refusal from before the rules. Playground calls may have causes of other steps, so their text is general. */
export const unread: Describe = (step, of) => {
  if (step.cause !== undefined && causes[step.cause].step === 'http') return said(step, of);
  return plain(
    step.facts['type'] === 'Unauthorized' ? 'the key is not accepted' : 'the request could not be read',
  );
};

export const host: Describe = ({ facts: { kind, stack } }) =>
  plain(kind === 'stack' ? `the host of ${String(stack)}` : 'the shared host');

export const key: Describe = (step, of) => {
  const { expiresAtMs } = step.facts;
  const end = typeof expiresAtMs === 'number' ? `, expires ${new Date(expiresAtMs).toISOString()}` : '';
  return keyText(step, of, (name, owner) => `${name} of ${owner}${end}`);
};

/** Explains why there was no response, or only part of one. */
export const unfinished: Describe = (step, of) =>
  step.facts['endedBy'] === undefined ? said(step, of) : plain(String(step.facts['reason']));

export const anyKey: Describe = ({ facts }, of) =>
  plain(`any valid key of ${of.nameOf('organisation', String(facts['organisation']))}`);

export const refusedKey: Describe = (step, of) =>
  typeof step.facts['keyId'] === 'string'
    ? keyText(step, of, (name) => `${name} is ${String(step.facts['state'])}`)
    : said(step, of);

function keyText(
  { facts: { keyId, organisation } }: Step,
  of: StepContext,
  text: (name: string, owner: string) => string,
): StepText {
  const id = String(keyId);
  const owner = of.nameOf('organisation', String(organisation));
  return plain(text(of.nameOf('api_key', id), owner), { table: 'api_key', id });
}

export const operation: Describe = ({ facts }) => plain(`operation ${String(facts['operation'])}`);

export const unlisted: Describe = (step, of) =>
  step.cause === 'not listed without a plan' ? withoutPlan(step, of) : said(step, of);

export const plan: Describe = (step) => plain(`on ${String(step.facts['tier'])}`, ...planMarks(step));

export const withoutPlan: Describe = (step, of) =>
  step.cause === 'no visitors'
    ? said(step, of)
    : plain(
        step.facts['suspended'] === true ? 'the organisation is suspended' : 'no tier',
        ...planMarks(step),
      );

/** Keeps only the organisation's row, because the tier's row does not show which organisation has the tier. */
function planMarks({ reads }: Step): Read[] {
  return reads.filter(({ table }) => table === 'organisation');
}

/** Builds a text about a tier's limit. The text cites the tier's row. */
const tierLimit =
  (text: (facts: StepFacts, of: StepContext) => string): Describe =>
  ({ facts }, of) => {
    const { tier } = facts;
    return plain(
      text(facts, of),
      ...(typeof tier === 'string' ? [{ table: 'tier', id: tier } as const] : []),
    );
  };

/** States the tokens of prompt and completion separately, so that the number for the prompt matches the recorded number. */
export const context = tierLimit(({ needed, prompt, answer, atLeast, allowed }, { isBound }) => {
  const bound = atLeast ? 'at least ' : isBound ? 'at most ' : '';
  const parts = answer === 0 ? '' : ` (${number(prompt)} for the prompt, ${number(answer)} for the answer)`;
  return `${bound}${tokensText(needed)}${parts}, ${limitText(allowed)}`;
});

export const allowance = tierLimit(({ used, allowed, kind }) =>
  kind === 'turns'
    ? `${turnsText(used)} used this month, ${limitText(allowed)}`
    : `${tokensText(used)} ${used === 1 ? 'counts' : 'count'} against the allowance of this period, ${limitText(allowed)}`,
);

export const networkAllowance = tierLimit(
  ({ used, allowed }) => `${turnsText(used)} used by the network today, ${limitText(allowed)}`,
);

export const visitorTokens = tierLimit(
  ({ used, allowed }) => `${tokensText(used)} used by all visitors today, ${limitText(allowed)}`,
);

/** Describes a limit's use by the best known facts: all gateways' sum, what one gateway knew, or just the free room. */
export function uses(what: string): Describe {
  return tierLimit(({ used, here, elsewhere, held, room, weight, allowed }) => {
    const counts = weight === undefined ? '' : `, this one counts as ${number(weight)}`;
    if (allowed === null) return `no limit${counts}`;
    if (used !== undefined) return `${number(used)} of ${number(allowed)} ${what}${counts}`;
    const left = `room for ${number(room)} more at this gateway${counts}`;
    if (here === undefined) return `${left}, ${limitText(allowed)}`;
    if (elsewhere === undefined)
      return `${number(here)} ${what} at this gateway${counts}, ${limitText(allowed)}`;
    const kept = Number(held) > Number(elsewhere) ? ` (which hold ${number(held)})` : '';
    const sum = `${number(Number(here) + Number(elsewhere))} of ${number(allowed)} ${what}`;
    return `${sum}: ${number(here)} at this gateway, ${number(elsewhere)} at others${kept}; ${left}`;
  });
}

export const stack: Describe = ({ facts }) => {
  const id = String(facts['stack']);
  return plain(`${id} belongs to this organisation`, { table: 'stack', id });
};

export const noStack: Describe = ({ facts }) =>
  plain(`${String(facts['stack'])} does not exist or belongs to another organisation`);

export const surface: Describe = ({ facts, reads }) =>
  plain(`it speaks ${String(facts['surface'])}`, ...reads);

export function inPool(text: string): Describe {
  return ({ facts }, { model }) =>
    facts['unknown'] === true
      ? plain('no model has this name')
      : plain(text, { table: 'pool_model', id: model });
}

export function inTier(says: string): Describe {
  return ({ reads }, { model }) => {
    const tier = reads.find(({ table }) => table === 'tier')?.id;
    const text = `${tier ?? 'the plan'} ${says}`;
    if (tier === undefined) return plain(text);
    // Adding a model to a tier changes the model's row in `tier_model` but not the tier's row, so cite both.
    const models = [model, '*'].map((id): Read => ({ table: 'tier_model', id: `${tier}/${id}` }));
    return plain(text, { table: 'tier', id: tier }, ...models);
  };
}

const faultTexts = { down: 'is down', drained: 'is drained', 'not loaded': 'has not loaded it' } as const;
const nodesNamedMax = 8;

function installedMarks(place: PlaceKey, model: string): Read[] {
  if (!place.startsWith('stack:')) return [];
  return [{ table: 'stack_model', id: `${place.slice('stack:'.length)}/${model}` }];
}

export const serving: Describe = (step, of) => {
  const place = placeOf(step);
  const found = of.nodesAt(place).filter(({ fault }) => fault === undefined);
  const names = found.slice(0, nodesNamedMax).map(({ id }) => id);
  const more = found.length > nodesNamedMax ? ` and ${found.length - nodesNamedMax} more` : '';
  return plain(
    `${names.join(', ')}${more} serve${found.length === 1 ? 's' : ''} it`,
    ...installedMarks(place, of.model),
    ...found.map(nodeMark),
  );
};

export const away: Describe = (step, of) => {
  const reports = of.nodesAt(placeOf(step));
  if (reports.length === 0) return plain('no nodes');
  const texts = reports
    .slice(0, nodesNamedMax)
    .map(({ id, fault }) => `${id} ${fault ? faultTexts[fault] : 'serves it'}`);
  if (reports.length > nodesNamedMax) texts.push(`and ${reports.length - nodesNamedMax} more`);
  // Prefer nodes that would serve the model if they were up. Nodes that never loaded the model explain less.
  const absent = reports.filter(({ fault }) => fault !== 'not loaded');
  const deciding = absent.length > 0 || step.step === 'own nodes' ? absent : reports;
  return plain(texts.join(', '), ...deciding.map(nodeMark));
};

const otherKind: Describe = (step, of) => {
  const { asksToRerank } = step.facts;
  if (asksToRerank === undefined) return said(step, of);
  return plain(
    asksToRerank === true
      ? 'the request needs reranking, and the model is not known to rerank'
      : 'the model only reranks, and the request needs something else',
  );
};

export const notServing: Describe = (step, of) => {
  if (step.cause === 'wrong kind') return otherKind(step, of);
  const place = placeOf(step);
  if (of.isInstalled(place)) return away(step, of);
  return plain('not installed', ...installedMarks(place, of.model));
};

function nodeMark({ id, mark }: NodeReport): Read {
  return { table: 'node', id, mark };
}

/** Describes a step in words. All skipped steps share one text. */
export function describeStep(
  step: Step,
  { ok, assumed, refused = said }: StepTexts,
  of: StepContext,
): StepText {
  const texts = { ok, assumed, refused, skipped: notAsked };
  const text = texts[step.result] ?? notAsked;
  return typeof text === 'string' ? plain(text, ...step.reads) : text(step, of);
}

const notAsked: Describe = ({ facts }) => {
  if (facts['nodes'] !== undefined) return plain('not asked: the organisation has no nodes');
  return plain(facts['fromPool'] === false ? 'not asked: the pool would not answer' : 'not asked');
};
