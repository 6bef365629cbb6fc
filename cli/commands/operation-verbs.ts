/** Declares verbs as data: the operation, how operands and options fill its input, and how the response is printed. */
import type { Command } from 'commander';
import type { OperationAnswer, OperationInput } from '../../schemas/admin/admin.ts';
import { type OperationName, operationRoute } from '../../schemas/admin/admin-routes.ts';
import { pageRows } from '../../schemas/admin/page-rows.ts';
import type { Resource } from '../admin-client/answers.ts';
import { buildRequest } from '../admin-client/call-path.ts';
import { confirmDestructive } from '../terminal/confirm.ts';
import type { Io } from '../terminal/io.ts';
import { parseCount, parseMomentOption } from '../terminal/options.ts';
import type { View } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';
import { type groups, type Noun, noun, type Verb } from '../terminal/verbs.ts';
import { printWriteResult, showList } from './answers.ts';
import { withStage } from './stage-options.ts';

/** An input field of an operation, set by an option. */
export interface Field<Value> {
  readonly flags: string;
  declare(verb: Verb): Verb;
  /** Converts the value from commander. Returns undefined if the option was not given. */
  read(raw: unknown): Value | undefined;
}

type Need = 'required' | 'option';
const asIs = <Value>(raw: unknown) => raw as Value | undefined;
// A `--no-…` option yields false. Ignore that value here, because another field of the same name reads it.
const asText = (raw: unknown) => (typeof raw === 'string' ? raw : undefined);

export function textField(flags: string, summary: string, need: Need = 'option'): Field<string> {
  return { flags, declare: (verb) => verb[need](flags, summary), read: asText };
}

/** Declares an option that takes a text. An empty text counts as not given. */
export function nonEmptyTextField(flags: string, summary: string): Field<string> {
  return { ...textField(flags, summary), read: (raw) => asText(raw) || undefined };
}

export function parsedField<Value>(
  flags: string,
  summary: string,
  parse: (text: string) => Value,
  need: Need = 'option',
): Field<Value> {
  return { flags, declare: (verb) => verb[need](flags, summary, parse), read: asIs<Value> };
}

export function choiceField<Value extends string>(
  flags: string,
  summary: string,
  values: readonly Value[],
  need: Need = 'option',
): Field<Value> {
  const isRequired = need === 'required';
  return { flags, declare: (verb) => verb.choice(flags, summary, values, isRequired), read: asIs<Value> };
}

/** Declares an option without a value. If given, it sets the field to a fixed value. */
export function flagField<Value>(flags: string, summary: string, value: Value): Field<Value> {
  const given = !flags.startsWith('--no-');
  return { ...textField(flags, summary), read: (raw) => (raw === given ? value : undefined) };
}

export const sinceField = parsedField(
  '--since <time>',
  'start at this time (RFC 3339), or this long ago, such as 10m or 1h',
  parseMomentOption,
);

/** Option that also shows the version of a resource that the open change applies at the gateways in its waves. */
export const waveField = flagField(
  '--wave',
  'also show the row that applies at gateways in a wave of the open change',
  'true' as const,
);

export function repeatedField<Value>(
  flags: string,
  summary: string,
  made: (texts: readonly string[]) => Value,
): Field<Value> {
  const read = (raw: unknown) => (raw === undefined ? undefined : made(raw as readonly string[]));
  return { flags, declare: (verb) => verb.repeated(flags, summary), read };
}

type OperationFields<Name extends OperationName> = {
  readonly [Key in keyof OperationInput<Name>]?:
    | Field<OperationInput<Name>[Key]>
    | readonly Field<OperationInput<Name>[Key]>[];
};

type FieldRows = Readonly<Record<string, Field<unknown> | readonly Field<unknown>[] | undefined>>;

interface OperationVerb<Name extends OperationName> {
  /** Verb with its operands as help shows them, then the summary and examples. */
  readonly verb: readonly [signature: string, summary: string, ...examples: string[]];
  /** Input fields that the operands set. By default, these are the parameters in the operation's path. */
  readonly operands?: readonly (keyof OperationInput<Name> & string)[];
  /** Values that operands may have, by operand. */
  readonly allowed?: Readonly<Record<string, readonly string[]>>;
  /** Options in the order in which help lists them. */
  readonly options?: OperationFields<Name>;
  /** Set if the operation's changes can be released in waves. */
  readonly stages?: true;
  /** Fixed values for some input fields. */
  readonly always?: Partial<OperationInput<Name>>;
}

interface ListVerb<Name extends OperationName> extends OperationVerb<Name> {
  readonly view: View;
  /** Adds data from another API call to the listed items. */
  extend?(
    session: Session,
    items: readonly Resource[],
    input: OperationInput<Name>,
  ): Promise<readonly Resource[]>;
}

interface WriteVerb<Name extends OperationName> extends OperationVerb<Name> {
  /** Kind of resource to name in the output. The default is the operation's noun. */
  readonly what?: string;
  /** Returns the id to print. The default is the last operand. */
  id?(input: OperationInput<Name>, answer: Resource): string;
  readonly done: string | ((input: OperationInput<Name>) => string);
  /** Text that completes the question "type NAME to …". Omit it for commands that do not destroy anything. */
  confirm?(input: OperationInput<Name>): string;
  /** Throws a usage error if the input is inconsistent. */
  check?(input: OperationInput<Name>, session: Session): void;
  /** Prints a note after the command has succeeded. */
  after?(session: Session, input: OperationInput<Name>): Promise<void>;
}

interface OwnVerb<Name extends OperationName> extends OperationVerb<Name> {
  confirm?(input: OperationInput<Name>): string;
  print(session: Session, answer: OperationAnswer<Name>, input: OperationInput<Name>): Promise<void>;
}

/** Function that adds a verb, such as `list`, to its noun, such as `key`. */
export type VerbRow = (noun: Noun) => void;
export interface NounRow {
  readonly noun: readonly [name: string, summary: string, group: keyof typeof groups, example: string];
  readonly verbs: readonly VerbRow[];
}

export function addNoun(program: Command, io: Io, { noun: texts, verbs }: NounRow): Command {
  const made = noun(program, io, ...texts);
  for (const add of verbs) add(made);
  return made.command;
}

type Work<Name extends OperationName> = (
  session: Session,
  input: OperationInput<Name>,
  operands: readonly string[],
) => Promise<void>;

/** Creates a verb with declared input and a custom handler. */
export function customVerb<Name extends OperationName>(
  name: Name,
  row: OperationVerb<Name>,
  work: Work<Name>,
  further: FieldRows = {},
): VerbRow {
  const options: FieldRows = row.options ?? {};
  const fields = Object.entries({ ...options, ...further }).flatMap(([key, given = []]) =>
    [given].flat().map((field) => ({ key, field })),
  );
  const inPath = [...operationRoute(name).path.matchAll(/:(\w+)/g)].map(([, param = '']) => param);
  const names: readonly string[] = row.operands ?? inPath;
  return (to) => {
    let verb = to.verb(...row.verb);
    if (row.stages) verb = withStage(verb);
    for (const { field } of fields) verb = field.declare(verb);
    for (const [operand, values] of Object.entries(row.allowed ?? {})) verb.operand(operand, values);
    verb.action<Readonly<Record<string, unknown>>>((session, options, ...operands) => {
      const given = fields
        .map(({ key, field }) => [key, field.read(options[attributeName(field.flags)])] as const)
        .filter(([, value]) => value !== undefined);
      const positional = names.map((key, index) => [key, operands[index] ?? ''] as const);
      const input = {
        ...Object.fromEntries([...positional, ...given]),
        ...row.always,
      } as OperationInput<Name>;
      return work(session, input, operands);
    });
  };
}

/** Returns the name under which commander stores the value of an option. */
function attributeName(flags: string): string {
  const name = /--(?:no-)?([a-z-]+)/.exec(flags)?.[1] ?? '';
  return name.replace(/-([a-z])/g, (_all, letter: string) => letter.toUpperCase());
}

/** Creates a verb that reads one resource and prints it. */
export function showVerb<Name extends OperationName>(
  name: Name,
  row: OperationVerb<Name> & { readonly view: View },
): VerbRow {
  return customVerb(name, row, async (session, input) => {
    const api = await session.api();
    await session.out.resource(await api.send(name, input), row.view);
  });
}

/** Creates a verb that reads a list and prints it, page by page if the list has pages. */
export function listVerb<Name extends OperationName>(
  name: Name,
  row: ListVerb<Name>,
  further: FieldRows = {},
): VerbRow {
  const { view, extend } = row;
  return customVerb(
    name,
    row,
    async (session, input) => {
      const api = await session.api();
      const { limit } = input as { readonly limit?: number };
      await showList(session, {
        view,
        limit,
        rowsPerPage: 'after' in further || limit !== undefined ? pageRows.max : undefined,
        ask: (part) => api.send(name, { ...input, ...part }),
        ...(extend && { extend: (items, part) => extend(session, items, { ...input, ...part }) }),
      });
    },
    further,
  );
}

/** Creates a verb for a list that the control plane searches, sorts and divides into pages. */
export function pagedListVerb<Name extends PagedName>(name: Name, row: ListVerb<Name>): VerbRow {
  return listVerb(name, row, pageFields);
}

export const limitField = parsedField('--limit <n>', 'maximum number of rows', parseCount);
type PageInput = Pick<OperationInput<'key.list'>, 'text' | 'sort' | 'limit' | 'after'>;
type PagedName = {
  [Name in OperationName]: OperationInput<Name> extends PageInput
    ? 'after' extends keyof OperationInput<Name>
      ? Name
      : never
    : never;
}[OperationName];
const pageFields: { readonly [Key in keyof PageInput]-?: Field<PageInput[Key]> } = {
  text: textField('--text <text>', 'only rows that contain this text'),
  sort: textField('--sort <field>', 'sort by a field of the JSON output; --sort=-FIELD reverses the order'),
  limit: limitField,
  after: textField('--after <cursor>', 'continue after this cursor, which the previous page printed'),
};

/** Creates a verb that runs an operation and prints the response with a custom function. */
export function runVerb<Name extends OperationName>(name: Name, row: OwnVerb<Name>): VerbRow {
  return customVerb(name, row, async (session, input, operands) => {
    const what = row.confirm?.(input);
    if (what !== undefined) await confirmCommand(session, name, input, operands.at(-1) ?? '', what);
    await row.print(session, await (await session.api()).run(name, input), input);
  });
}

/** Creates a verb that runs a command and prints its result. */
export function writeVerb<Name extends OperationName>(name: Name, row: WriteVerb<Name>): VerbRow {
  return customVerb(name, row, async (session, input, operands) => {
    row.check?.(input, session);
    const named = operands.at(-1) ?? '';
    const what = row.confirm?.(input);
    if (what !== undefined) await confirmCommand(session, name, input, named, what);
    const answer = await (await session.api()).send(name, input);
    const done = typeof row.done === 'string' ? row.done : row.done(input);
    const [noun = ''] = name.split('.');
    await printWriteResult(session, answer, row.what ?? noun, row.id?.(input, answer) ?? named, done);
    if (answer['dryRun'] !== true) await row.after?.(session, input);
  });
}

/** Checks that the ids are valid, then asks the user to confirm the command. */
export async function confirmCommand(
  session: Session,
  name: OperationName,
  input: object,
  id: string,
  what: string,
): Promise<void> {
  buildRequest(name, input);
  await confirmDestructive(session, id, what, { name, input });
}
