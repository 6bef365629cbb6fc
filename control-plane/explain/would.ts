/** Suggests commands that would turn a refusal into success. Tries single changes on the state and undoes each one. */

import type { Organisation } from '../../schemas/admin/admin.ts';
import { pathSurface } from '../../schemas/api/operations.ts';
import type { EventTypeName } from '../../schemas/events/event-definitions.ts';
import { type EventData, type KnownEvent, toStored } from '../../schemas/events/events.ts';
import { countNoun } from '../../schemas/grouped.ts';
import { modelIdSchema, type PlaceKey } from '../../schemas/names.ts';
import type { Step, StepName } from '../../shared/decision/step.ts';
import { steps as rows } from '../../shared/decision/steps.ts';
import type { Database } from '../../shared/runtime/sqlite.ts';
import { installsIn } from '../../shared/snapshot/routes.ts';
import type { Snapshot } from '../../shared/snapshot/snapshot.ts';
import { findAnonymous, findModel, findTier, listTiers } from '../state/catalog.ts';
import { countOnTier, findOrganisation } from '../state/tenants.ts';
import { listNodeReports } from './places.ts';
import { decideInState, type Question, type TracedVerdict } from './question.ts';

interface Change {
  readonly command: string;
  readonly events: readonly KnownEvent[];
  /** Changed request to decide instead, if the suggestion changes the request and not the state. */
  readonly ask?: Question;
}

/** Maximum number of changes to try for one explanation. */
const triesMax = 24;
/** Maximum number of suggested commands. `ofKindMax` is the maximum for commands of the same kind. */
const shownMax = 4;
const ofKindMax = 2;

/** Finds commands that would make the request succeed. Tries each on the current state, in its own turn of the event loop. */
export async function wouldTurn(
  snapshot: Snapshot,
  question: Question,
  { trace }: TracedVerdict,
): Promise<string[]> {
  const found: string[] = [];
  let tries = 0;
  for (const change of proposeChanges(snapshot, question, trace.steps)) {
    if (found.length >= shownMax || tries >= triesMax) break;
    if (found.includes(change.command) || found.filter(sameKind(change)).length >= ofKindMax) continue;
    tries++;
    await new Promise((resolve) => setImmediate(resolve));
    if (turns(snapshot, change, question)) found.push(change.command);
  }
  return found;
}

/** Whether two suggestions are the same kind of command. Their number is limited, to leave room for other kinds. */
function sameKind({ command }: Change): (other: string) => boolean {
  const kind = (text: string): string => text.split(' ', 3).join(' ');
  return (other) => kind(other) === kind(command);
}

function turns(snapshot: Snapshot, { events, ask }: Change, question: Question): boolean {
  const context = { seq: snapshot.seq + 1, atMs: question.nowMs, by: 'explain' };
  return snapshot.stateAt({ kind: 'previewed', events, context }, ({ db }, passedOver) => {
    if (passedOver.length > 0) return false;
    const { verdict, trace } = decideInState(db, ask ?? question);
    if (verdict.kind !== 'refused') return true;
    // If only the key caused the refusal, the model was not recorded. The new key is then good if it passes the step `key`.
    return ask !== undefined && isUnknown(question) && trace.steps.some(isGoodKey);
  });
}

function isUnknown({ facts: { model } }: Question): boolean {
  return !modelIdSchema.safeParse(model).success;
}

function isGoodKey({ step, result }: Step): boolean {
  return step === 'key' && result === 'assumed';
}

function* proposeChanges(snapshot: Snapshot, question: Question, steps: readonly Step[]): Iterable<Change> {
  const organisation = findAskingOrganisation(steps);
  const refused = steps.filter(({ result }) => result === 'refused');
  const { model } = question.facts;
  const isCatalogued = findModel(snapshot.db, model) !== undefined;
  for (const { step, facts } of refused) {
    if (step === 'key') yield* newKey(question, organisation);
    if (step === 'surface') yield* otherSurface(question);
    if (!isCatalogued) continue;
    if (step === 'own nodes' || step === 'nodes')
      yield* nodeChanges(snapshot, String(facts['place']) as PlaceKey, model);
    if (step === 'pool')
      yield change('pool.model_installed', { model }, `headgate pool install ${word(model)}`);
  }
  if (refused.some(({ step }) => rows[step].plan !== undefined))
    yield* planChanges(snapshot, question, refused, organisation);
}

function findAskingOrganisation(steps: readonly Step[]): string | undefined {
  const key = steps.find(({ step }) => step === 'key');
  const id = key?.facts['organisation'];
  return typeof id === 'string' ? id : undefined;
}

function change<Name extends EventTypeName>(type: Name, data: EventData<Name>, command: string): Change {
  const event = { type, data } as unknown as KnownEvent;
  toStored(event);
  return { command, events: [event] };
}

function* newKey(question: Question, organisation: string | undefined): Iterable<Change> {
  if (organisation === undefined) return;
  const facts = { ...question.facts, recorded: { organisation } };
  const command = `headgate key create --org ${organisation} --name replacement --expires 90d`;
  yield { command, events: [], ask: { ...question, facts } };
}

function* nodeChanges({ db }: Snapshot, place: PlaceKey, model: string): Iterable<Change> {
  for (const { id, fault } of listNodeReports(db, place, model))
    if (fault === 'drained') yield change('node.undrained', { id }, `headgate node undrain ${id}`);
  if (installsIn(db)(place, model)) return;
  if (place === 'pool')
    yield change('pool.model_installed', { model }, `headgate pool install ${word(model)}`);
  const stack = place.slice('stack:'.length);
  if (place.startsWith('stack:'))
    yield change('stack.model_installed', { stack, model }, `headgate stack install ${stack} ${word(model)}`);
}

function* otherSurface({ facts: { fixed, path } }: Question): Iterable<Change> {
  if (fixed?.kind !== 'stack') return;
  const surface = pathSurface(path);
  const { stack: id } = fixed;
  yield change('stack.surface_set', { id, surface }, `headgate stack surface ${id} ${surface}`);
}

function* planChanges(
  { db }: Snapshot,
  question: Question,
  refused: readonly Step[],
  id: string | undefined,
): Iterable<Change> {
  const { model, visitor } = question.facts;
  const organisation = id === undefined ? undefined : findOrganisation(db, id);
  if (organisation !== undefined) {
    const allowance = refused.find(({ step }) => step === 'allowance');
    if (allowance !== undefined) yield adjustment(question, organisation.id, allowance);
    yield* otherPlans(db, organisation);
  }
  const tier = visitor === undefined ? organisation?.tier : 'anonymous';
  if (!tier) return;
  for (const { step, facts } of refused) {
    if (visitor !== undefined) yield* moreTurns(db, step, Number(facts['used']));
    if (visitor === undefined || step !== 'allowance') yield* tierChanges(db, tier, step, model);
  }
}

/** Proposes to credit the organisation with just enough tokens, in whole thousands, to make room in its allowance. */
function adjustment({ counters, ...question }: Question, id: string, { facts }: Step): Change {
  const used = Number(facts['used']);
  const tokens = Math.ceil((used - Number(facts['allowed']) + 1) / 1000) * 1000;
  const ask = { ...question, counters: { ...counters, poolTokens: used - tokens } };
  const command = `headgate usage adjust --org ${id} --tokens -${tokens} --why REASON`;
  return { command, events: [], ask };
}

/** Proposes other tiers for the organisation: first higher ones, then lower ones, nearest first. */
function* otherPlans(db: Database, { id, name, anchor, tier, suspended }: Organisation): Iterable<Change> {
  if (suspended)
    yield change('organisation.suspended', { id, suspended: false }, `headgate org resume ${id}`);
  const tiers = listTiers(db);
  const at = tiers.findIndex((each) => each.id === tier);
  for (const { id: other } of [...tiers.slice(at + 1), ...tiers.slice(0, Math.max(0, at)).reverse()])
    yield change(
      'organisation.set',
      { id, name, anchor, tier: other },
      `headgate org set ${id} --tier ${word(other)}`,
    );
}

/** Proposes the smallest settings that allow a visitor one more turn. Turn limits can only be raised, not removed. */
function* moreTurns(db: Database, step: StepName, used: number): Iterable<Change> {
  const before = findAnonymous(db)?.freeTurns ?? 0;
  const turns = { flag: '--free-turns', field: 'freeTurns', value: used + 1 };
  const factor = { flag: '--network-factor', field: 'networkFactor', value: Math.floor(used / before) + 1 };
  const more = step === 'allowance' ? turns : step === 'network allowance' ? factor : undefined;
  if (more === undefined || !Number.isSafeInteger(more.value)) return;
  const event = exactTierEvent(db, 'anonymous', { [more.field]: more.value }, undefined);
  if (event !== undefined)
    yield { command: `headgate tier set anonymous ${more.flag} ${more.value}`, events: [event] };
}

/** Proposes the tier without the limit that refused the request, or with the model added. */
function* tierChanges(db: Database, tier: string, step: StepName, model: string): Iterable<Change> {
  const set = `headgate tier set ${word(tier)}`;
  const others = countOnTier(db, tier) - 1;
  const reach = others > 0 ? `  # also changes ${countNoun(others, 'other organisation')}` : '';
  const limit = rows[step].plan?.limit;
  if (limit !== undefined) {
    const without = { [limit.field]: undefined };
    const changed = limit.isOfAll ? { total: { ...findAnonymous(db)?.total, ...without } } : without;
    const event = exactTierEvent(db, tier, changed, undefined);
    if (event !== undefined) yield { command: `${set} ${limit.flag} none${reach}`, events: [event] };
  }
  if (step !== 'tier') return;
  const event = exactTierEvent(db, tier, {}, model);
  if (event === undefined || event.data.models === '*') return;
  yield { command: `${set} --models ${event.data.models.map(word).join(',')}${reach}`, events: [event] };
}

/** Quotes a word for the shell. Model ids cannot contain quotes. */
function word(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text}'`;
}

type TierEvent =
  | { readonly type: 'tier.set'; readonly data: EventData<'tier.set'> }
  | { readonly type: 'anonymous.set'; readonly data: EventData<'anonymous.set'> };

/** Returns the event that changes a tier. In `changed`, an undefined limit removes the limit. `model` is a model to add. */
function exactTierEvent(
  db: Database,
  id: string,
  changed: object,
  model: string | undefined,
): TierEvent | undefined {
  const withModel = (models: '*' | readonly string[]): '*' | string[] =>
    models === '*' ? '*' : [...models, ...(model === undefined ? [] : [model])];
  if (id === 'anonymous') {
    const found = findAnonymous(db);
    return (
      found && { type: 'anonymous.set', data: { ...found, ...changed, models: withModel(found.models) } }
    );
  }
  const found = findTier(db, id);
  return found && { type: 'tier.set', data: { ...found, ...changed, models: withModel(found.models) } };
}
