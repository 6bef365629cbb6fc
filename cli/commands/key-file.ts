/**
 * `create --from FILE.csv`: many keys or tokens, up to a thousand of them in one command, which creates all or none. What a
 * command created is printed before the next one is sent, so that values are lost with no answer but the last; where one fails, it is
 * said how many lines are done and how to continue.
 */
import { randomUUID } from 'node:crypto';
import { closeSync, fsyncSync, rmSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import type { z } from 'zod';
import { EffectFound } from '../../admin-client/admin-client.ts';
import type { ManyAnswerOf, ManyName, ManyOf } from '../../schemas/admin.ts';
import { bodySchemas, madeAtOnceMax } from '../../schemas/commands.ts';
import { textOfNamed } from '../../shared/runtime/named-file.ts';
import { CliError, toCliError, usageError } from '../terminal/errors.ts';
import { writeAll } from '../terminal/io.ts';
import type { Format } from '../terminal/options.ts';
import type { Session } from '../terminal/session.ts';
import { csvLine, csvRecords } from './csv.ts';
import { openSecretOutput, type SecretOutput } from './secrets.ts';

type New<Name extends ManyName> = ManyOf<Name>['items'][number];
type Made = ManyAnswerOf<ManyName>['items'][number];

/** What is made of the lines of a file, and how it is called. */
interface Kind<Name extends ManyName> {
  readonly name: Name;
  readonly one: string;
  readonly many: string;
  /** Without `headgate`. */
  readonly noun: string;
  readonly columns: readonly string[];
  readonly line: z.ZodType<New<Name>>;
  /** What is printed of each. */
  readonly shown: readonly string[];
}
type AnyKind = Kind<ManyName>;

/** In their order. A field that is new has a column, or is false here. */
function columnsOf<Name extends ManyName>(
  fields: {
    readonly [Field in keyof New<Name>]-?: boolean;
  },
): string[] {
  return Object.entries(fields).flatMap(([field, hasColumn]) => (hasColumn ? [field] : []));
}

const kinds: { readonly [Name in ManyName]: Kind<Name> } = {
  'key.create': {
    ...{ name: 'key.create', one: 'key', many: 'keys', noun: 'key' },
    columns: columnsOf<'key.create'>({ organisation: true, name: true, expires: true }),
    line: bodySchemas.createKey,
    shown: ['id', 'organisation', 'name', 'value'],
  },
  'token.create': {
    ...{ name: 'token.create', one: 'token', many: 'tokens', noun: 'node token' },
    columns: columnsOf<'token.create'>({ node: true }),
    line: bodySchemas.createToken,
    shown: ['id', 'node', 'value'],
  },
};

/** What a line of the file asks for, and which line. */
interface Line {
  readonly line: number;
  readonly item: New<ManyName>;
}

export interface CreateFromOptions {
  readonly from: string;
  /** Lines after the header that are done. */
  readonly skip?: number | undefined;
  readonly out?: string | undefined;
}

const fileBytesMax = 256 * 1024 * 1024;
/** Of one command: below what its commit may have. */
const partBytesMax = 400 * 1024;
const faultsShown = 10;
/** A key of idempotency has 64 characters at most, and the number of the first line is part of it. */
const commandIdMax = 50;

export async function createFrom(
  session: Session,
  name: ManyName,
  { from, skip = 0, out }: CreateFromOptions,
): Promise<void> {
  const kind: AnyKind = kinds[name];
  const { many } = kind;
  const all = linesIn(kind, from, readText(session, kind, from));
  if (skip >= all.length)
    throw usageError(`${from} has ${all.length} ${many}, and --skip-lines leaves none of them`);
  const parts = partsOf(all.slice(skip));
  if (session.globals.ifAt !== undefined && parts.length > 1)
    throw usageError('--if-at holds for one command, and this file takes several', 'leave out --if-at');
  const commandId = (session.globals.commandId ?? randomUUID()).slice(0, commandIdMax);
  const api = await session.api();
  const sheet = new Sheet(
    session,
    kind.shown,
    openSheet(session, kind, session.globals.dryRun ? undefined : out),
  );
  let [done, lost] = [skip, 0];
  let part: readonly Line[] = [];
  try {
    for (part of parts) {
      const wanted = part.map(({ item }) => item);
      const { items } = await api.runMany(name, wanted, `${commandId}.${done}`);
      await sheet.add(items);
      done += part.length;
      if (!session.globals.dryRun) lost += items.filter(({ value }) => value === undefined).length;
      if (parts.length > 1) session.note(`${done} of ${all.length} ${many}`);
    }
  } catch (error) {
    if (error instanceof EffectFound) throw error;
    const next = continuation(kind, from, done, commandId);
    throw stopped(toCliError(error), part, `${done} of ${all.length} ${many} of ${from} are done`, next);
  } finally {
    await sheet.end();
  }
  sayDone(session, kind, sheet, done - skip, lost);
}

function sayDone(
  session: Session,
  { one, many, noun }: AnyKind,
  { path }: Sheet,
  made: number,
  lost: number,
): void {
  if (lost > 0)
    throw new CliError(`${lost} ${many} were created by an earlier try, and their values were not received`, {
      type: 'ValueLost',
      why: `the values are sent only once, and that answer was lost; the ${many} are those without a value`,
      next: `headgate ${noun} revoke ${one.toUpperCase()}-ID for each of them, then create others`,
    });
  const where = path === undefined ? 'are printed' : `are in ${path}, and can be shown`;
  session.note(
    session.globals.dryRun
      ? `${many} that would be created: ${made}; nothing was written`
      : `${many} created: ${made}; their values ${where} only once`,
  );
}

function continuation({ noun }: AnyKind, from: string, done: number, commandId: string): string {
  const behind = done === 0 ? '' : ` --skip-lines ${done}`;
  return `headgate ${noun} create --from ${from}${behind} --command-id ${commandId}`;
}

/** The error of the control plane, in terms of the file. */
function stopped(error: CliError, part: readonly Line[], done: string, next: string): CliError {
  const { type, exitCode, why, cause } = error;
  const named = (text: string): string =>
    text.replace(/items\[(\d+)\](?:\.\w+)?/g, (item, index) => {
      const line = part[Number(index)]?.line;
      return line === undefined ? item : `line ${line}`;
    });
  return new CliError(`${done}: ${named(error.message)}`, {
    ...{ type, exitCode, cause },
    why: [...why.map(named), ...(error.next === undefined ? [] : [named(error.next)])],
    next,
  });
}

function readText({ io }: Session, kind: AnyKind, file: string): string {
  try {
    return textOfNamed(resolve(io.cwd, file), fileBytesMax);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw fileError(kind, `${file} cannot be read`, [reason], error);
  }
}

function fileError(
  { columns, one }: AnyKind,
  message: string,
  why: readonly string[],
  cause?: unknown,
): CliError {
  const next = `its first line is ${columns.join(',')}, and each further line one ${one}`;
  return new CliError(message, { type: 'InvalidFile', why, next, cause });
}

/** Throws CliError with the lines that are none: nothing is sent then. */
function linesIn(kind: AnyKind, file: string, text: string): Line[] {
  const { columns, many } = kind;
  const [header, ...records] = csvRecords(text);
  if (header?.cells.map((cell) => cell.trim()).join() !== columns.join())
    throw fileError(kind, `${file} does not begin with the line ${columns.join(',')}`, []);
  const faults: string[] = [];
  const lines = records.flatMap(({ line, cells }): Line[] => {
    const given = Object.fromEntries(columns.map((column, index) => [column, cells[index] ?? '']));
    const parsed = kind.line.safeParse(given);
    if (parsed.success && cells.length === columns.length) return [{ line, item: parsed.data }];
    const issue = parsed.error?.issues[0];
    const fault = issue ? `${issue.path.join('.')}: ${issue.message}` : `it has ${cells.length} cells`;
    faults.push(`line ${line}: ${fault}`);
    return [];
  });
  if (faults.length > 0) {
    const more = faults.length > faultsShown ? [`and ${faults.length - faultsShown} more`] : [];
    throw fileError(kind, `${faults.length} lines of ${file} are no ${many}`, [
      ...faults.slice(0, faultsShown),
      ...more,
    ]);
  }
  if (lines.length === 0) throw fileError(kind, `${file} has no ${many}`, []);
  return lines;
}

/** What one command takes each. */
function partsOf(lines: readonly Line[]): Line[][] {
  const parts: Line[][] = [];
  let part: Line[] = [];
  let bytes = 0;
  for (const each of lines) {
    const size = Buffer.byteLength(JSON.stringify(each.item));
    if (part.length === madeAtOnceMax || bytes + size > partBytesMax) {
      parts.push(part);
      [part, bytes] = [[], 0];
    }
    part.push(each);
    bytes += size;
  }
  return [...parts, part];
}

const sheetFormats: readonly Format[] = ['table', 'json', 'jsonl'];

/** Throws a usage error for a format in which values cannot be written as they come. */
function openSheet(session: Session, { many }: AnyKind, out: string | undefined): SecretOutput {
  const { format } = session.out;
  if (!sheetFormats.includes(format))
    throw usageError(
      `-o ${format} cannot show ${many} as they are created`,
      'leave it out for CSV, or use -o json',
    );
  return openSecretOutput(session, out);
}

/** What was created, written as it comes: CSV, or one document or one line each of JSON. */
class Sheet {
  readonly path: string | undefined;
  readonly #session: Session;
  readonly #shown: readonly string[];
  readonly #file: SecretOutput['file'];
  #isEmpty = true;

  constructor(session: Session, shown: readonly string[], { file }: SecretOutput) {
    this.#session = session;
    this.#shown = shown;
    this.#file = file;
    this.path = file?.path;
  }

  async add(items: readonly Made[]): Promise<void> {
    const { format } = this.#session.out;
    const separator = format === 'json' ? ',\n' : '';
    const before = this.#isEmpty ? this.#begin() : separator;
    this.#isEmpty = false;
    await this.#write(before + items.map((item) => this.#line(item)).join(separator));
  }

  /** A document that was begun is ended, whatever happened. */
  async end(): Promise<void> {
    if (!this.#isEmpty && this.#session.out.format === 'json') await this.#write('\n]}\n');
    if (!this.#file) return;
    closeSync(this.#file.descriptor);
    if (this.#isEmpty) rmSync(this.#file.path, { force: true });
  }

  #begin(): string {
    const { format } = this.#session.out;
    if (format === 'table') return csvLine(this.#shown);
    return format === 'json' ? '{"items": [\n' : '';
  }

  #line(made: Made): string {
    const { format } = this.#session.out;
    const cells = this.#shown.map(
      (name) => [name, (made as Record<string, string | undefined>)[name]] as const,
    );
    if (format === 'table') return csvLine(cells.map(([, cell = '']) => cell));
    return JSON.stringify(Object.fromEntries(cells)) + (format === 'jsonl' ? '\n' : '');
  }

  async #write(text: string): Promise<void> {
    if (!this.#file) return writeAll(this.#session.io.stdout, text);
    writeSync(this.#file.descriptor, text);
    fsyncSync(this.#file.descriptor);
  }
}
