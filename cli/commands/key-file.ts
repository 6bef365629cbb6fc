/**
 * `headgate key create --from FILE.csv`: many keys, up to a thousand of them in one command, which creates all or none. What a
 * command created is printed before the next one is sent, so that values are lost with no answer but the last; where one fails, it is
 * said how many lines are done and how to continue.
 */
import { randomUUID } from 'node:crypto';
import { closeSync, fsyncSync, rmSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import { EffectFound } from '../../admin-client/admin-client.ts';
import type { BodyOf, ManyAnswerOf } from '../../schemas/admin.ts';
import { bodySchemas, keysAtOnceMax } from '../../schemas/commands.ts';
import { textOfNamed } from '../../shared/runtime/named-file.ts';
import { CliError, toCliError, usageError } from '../terminal/errors.ts';
import { writeAll } from '../terminal/io.ts';
import type { Format } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';
import { csvLine, csvRecords } from './csv.ts';
import { openSecretOutput, type SecretOutput } from './secrets.ts';

type NewKey = BodyOf<'key.create'>;
type CreatedKey = ManyAnswerOf<'key.create'>['items'][number];

/** A key that the file asks for, and where. */
interface KeyLine {
  readonly line: number;
  readonly key: NewKey;
}

export interface CreateFromOptions {
  readonly from: string;
  /** Lines after the header that are done. */
  readonly skip?: number | undefined;
  readonly out?: string | undefined;
}

const columns = ['organisation', 'name', 'expires'] as const;
const fileBytesMax = 256 * 1024 * 1024;
/** Of one command: below what its commit may have. */
const partBytesMax = 400 * 1024;
const faultsShown = 10;
/** A key of idempotency has 64 characters at most, and the number of the first line is part of it. */
const commandIdMax = 50;

export async function createFrom(
  session: Session,
  { from, skip = 0, out }: CreateFromOptions,
): Promise<void> {
  const all = keysIn(from, readText(session, from));
  if (skip >= all.length)
    throw usageError(`${from} has ${all.length} keys, and --skip-lines leaves none of them`);
  const parts = partsOf(all.slice(skip));
  if (session.globals.ifAt !== undefined && parts.length > 1)
    throw usageError('--if-at holds for one command, and this file takes several', 'leave out --if-at');
  const commandId = (session.globals.commandId ?? randomUUID()).slice(0, commandIdMax);
  const api = await session.api();
  const sheet = new KeySheet(session, openSheet(session, session.globals.dryRun ? undefined : out));
  let [done, lost] = [skip, 0];
  let part: readonly KeyLine[] = [];
  try {
    for (part of parts) {
      const keys = part.map(({ key }) => key);
      const { items } = await api.runMany('key.create', keys, `${commandId}.${done}`);
      await sheet.add(items);
      done += part.length;
      if (!session.globals.dryRun) lost += items.filter(({ value }) => value === undefined).length;
      if (parts.length > 1) session.note(`${done} of ${all.length} keys`);
    }
  } catch (error) {
    if (error instanceof EffectFound) throw error;
    const next = continuation(from, done, commandId);
    throw stopped(toCliError(error), part, `${done} of ${all.length} keys of ${from} are done`, next);
  } finally {
    await sheet.end();
  }
  sayDone(session, sheet, done - skip, lost);
}

function sayDone(session: Session, { path }: KeySheet, made: number, lost: number): void {
  if (lost > 0)
    throw new CliError(`${lost} keys were created by an earlier try, and their values were not received`, {
      type: 'ValueLost',
      exitCode: 1,
      why: 'the values are sent only once, and that answer was lost; the keys are those without a value',
      next: 'headgate key revoke KEY-ID for each of them, then create others',
    });
  const where = path === undefined ? 'are printed' : `are in ${path}, and can be shown`;
  session.note(
    session.globals.dryRun
      ? `keys that would be created: ${made}; nothing was written`
      : `keys created: ${made}; their values ${where} only once`,
  );
}

function continuation(from: string, done: number, commandId: string): string {
  const behind = done === 0 ? '' : ` --skip-lines ${done}`;
  return `headgate key create --from ${from}${behind} --command-id ${commandId}`;
}

/** The error of the control plane, in terms of the file. */
function stopped(error: CliError, part: readonly KeyLine[], done: string, next: string): CliError {
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

function readText({ io }: Session, file: string): string {
  try {
    return textOfNamed(resolve(io.cwd, file), fileBytesMax);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw fileError(`${file} cannot be read`, [reason], error);
  }
}

function fileError(message: string, why: readonly string[], cause?: unknown): CliError {
  const next = `its first line is ${columns.join(',')}, and each further line one key`;
  return new CliError(message, { type: 'InvalidFile', exitCode: 2, why, next, cause });
}

/** Throws CliError with the lines that are no keys: nothing is sent then. */
function keysIn(file: string, text: string): KeyLine[] {
  const [header, ...records] = csvRecords(text);
  if (header?.cells.map((cell) => cell.trim()).join() !== columns.join())
    throw fileError(`${file} does not begin with the line ${columns.join(',')}`, []);
  const faults: string[] = [];
  const keys = records.flatMap(({ line, cells }): KeyLine[] => {
    const given = Object.fromEntries(columns.map((column, index) => [column, cells[index] ?? '']));
    const parsed = bodySchemas.createKey.safeParse(given);
    if (parsed.success && cells.length === columns.length) return [{ line, key: parsed.data }];
    const issue = parsed.error?.issues[0];
    const fault = issue ? `${issue.path.join('.')}: ${issue.message}` : `it has ${cells.length} cells`;
    faults.push(`line ${line}: ${fault}`);
    return [];
  });
  if (faults.length > 0) {
    const more = faults.length > faultsShown ? [`and ${faults.length - faultsShown} more`] : [];
    throw fileError(`${faults.length} lines of ${file} are no keys`, [
      ...faults.slice(0, faultsShown),
      ...more,
    ]);
  }
  if (keys.length === 0) throw fileError(`${file} has no keys`, []);
  return keys;
}

/** What one command takes each. */
function partsOf(keys: readonly KeyLine[]): KeyLine[][] {
  const parts: KeyLine[][] = [];
  let part: KeyLine[] = [];
  let bytes = 0;
  for (const each of keys) {
    const size = Buffer.byteLength(JSON.stringify(each.key));
    if (part.length === keysAtOnceMax || bytes + size > partBytesMax) {
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
function openSheet(session: Session, out: string | undefined): SecretOutput {
  const { format } = session.out;
  if (!sheetFormats.includes(format))
    throw usageError(
      `-o ${format} cannot show keys as they are created`,
      'leave it out for CSV, or use -o json',
    );
  return openSecretOutput(session, out);
}

/** What was created, written as it comes: CSV, or one document or one line a key of JSON. */
class KeySheet {
  readonly path: string | undefined;
  readonly #session: Session;
  readonly #file: SecretOutput['file'];
  #isEmpty = true;

  constructor(session: Session, { file }: SecretOutput) {
    this.#session = session;
    this.#file = file;
    this.path = file?.path;
  }

  async add(items: readonly CreatedKey[]): Promise<void> {
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
    if (format === 'table') return csvLine(['id', 'organisation', 'name', 'value']);
    return format === 'json' ? '{"items": [\n' : '';
  }

  #line({ id, organisation, name, value }: CreatedKey): string {
    const { format } = this.#session.out;
    if (format === 'table') return csvLine([id, organisation, name, value ?? '']);
    return JSON.stringify({ id, organisation, name, value }) + (format === 'jsonl' ? '\n' : '');
  }

  async #write(text: string): Promise<void> {
    if (!this.#file) return writeAll(this.#session.io.stdout, text);
    writeSync(this.#file.descriptor, text);
    fsyncSync(this.#file.descriptor);
  }
}
