/** Reads an untrusted export of the log. Lines are `{"offset","value":BASE64,"signature"?:BASE64}` with original offsets. */
import type { LogRecord } from '../../shared/log/core/control-log.ts';
import { errorCode } from '../../shared/runtime/error-code.ts';
import { streamNamed } from '../../shared/runtime/named-file.ts';
import { CliError } from '../terminal/errors.ts';

/** Maximum length of a line in bytes. It is enough for the largest commit in base64. */
const lineBytesMax = 4 * 1024 * 1024;

const batchMax = 500;

/** Reads the records of a file. Throws a `CliError` with exit code 2 that names the first invalid line. */
export function readExportedLog(path: string): AsyncIterable<readonly LogRecord[]> {
  return parseRecords(readLines(path), path);
}

/** Yields records in batches. `first` is the number of the first line. Throws like `readExportedLog`. */
export async function* parseRecords(
  from: AsyncIterable<string>,
  path: string,
  first = 1,
): AsyncIterable<readonly LogRecord[]> {
  let batch: LogRecord[] = [];
  let number = first;
  for await (const line of from) {
    if (line.trim() !== '') batch.push(parseRecord(line, path, number));
    number++;
    if (batch.length < batchMax) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

/** Yields the lines of a file. Throws a `CliError` if the file is unreadable or a line is too long. */
export async function* readLines(path: string): AsyncIterable<string> {
  try {
    yield* splitLines(streamNamed(path));
  } catch (error) {
    throw new CliError(`${path} cannot be read`, {
      type: 'InvalidFile',
      why: errorCode(error) ?? (error instanceof Error ? error.message : String(error)),
      cause: error,
    });
  }
}

/** Splits chunks into lines. Throws an Error if a line is too long, and passes on the errors of the source. */
export async function* splitLines(chunks: AsyncIterable<Uint8Array>): AsyncIterable<string> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of chunks) {
    rest = Buffer.concat([rest, chunk]);
    let from = 0;
    for (let at = rest.indexOf(10); at >= 0; at = rest.indexOf(10, from)) {
      yield rest.toString('utf8', from, at);
      from = at + 1;
    }
    rest = rest.subarray(from);
    if (rest.length > lineBytesMax) throw new Error(`a line has more than ${lineBytesMax} bytes`);
  }
  if (rest.length > 0) yield rest.toString('utf8');
}

function parseRecord(line: string, path: string, number: number): LogRecord {
  try {
    const { offset, value, signature } = JSON.parse(line) as Record<string, unknown>;
    if (!Number.isSafeInteger(offset) || typeof value !== 'string') throw new Error('a member is missing');
    return {
      offset: number,
      value: Buffer.from(value, 'base64'),
      signature: typeof signature === 'string' ? Buffer.from(signature, 'base64') : null,
    };
  } catch (error) {
    throw new CliError(`${path}:${number}:1 is not a record of an exported log`, {
      type: 'InvalidFile',
      next: 'headgate events export --out log.jsonl',
      cause: error,
    });
  }
}
