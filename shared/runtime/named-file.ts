/**
 * Opens files that a person names, or that are found in a folder: regular files only, and at most so large. To open a pipe
 * would wait for its writer, and a device never ends.
 */
import {
  closeSync,
  constants,
  createReadStream,
  fstatSync,
  openSync,
  type ReadStream,
  readSync,
} from 'node:fs';

/** The message says what is there instead. */
export class NoRegularFile extends Error {
  override readonly name = 'NoRegularFile';
}

export interface NamedFileOptions {
  /** Of a folder that others may have written: a link could lead out of it. */
  readonly refuseLinks?: boolean;
  readonly bytesMax?: number;
}

/** What a shell puts in place of `<(command)`: it is open, so nothing waits for a writer. */
const openPipe = /^\/(?:dev|proc\/self)\/(?:fd\/\d+|stdin)$/;

/** A descriptor, for its caller to close. Throws NoRegularFile, or the error of the system. */
function openNamed(path: string, options: NamedFileOptions = {}): number {
  const { refuseLinks = false, bytesMax = Number.POSITIVE_INFINITY } = options;
  const links = refuseLinks ? constants.O_NOFOLLOW : 0;
  const waits = openPipe.test(path) ? 0 : constants.O_NONBLOCK;
  const descriptor = openUnlessLink(path, constants.O_RDONLY | waits | links);
  const stats = fstatSync(descriptor);
  const what = stats.isDirectory() ? 'a folder' : stats.isFIFO() ? 'a pipe' : 'a device';
  const isUsable = stats.isFile() || (waits === 0 && !stats.isDirectory());
  if (isUsable && stats.size <= bytesMax) return descriptor;
  closeSync(descriptor);
  throw new NoRegularFile(isUsable ? `it is larger than ${bytesMax} bytes` : `it is ${what}, not a file`);
}

function openUnlessLink(path: string, flags: number): number {
  try {
    return openSync(path, flags);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ELOOP') throw new NoRegularFile('it is a link, not a file', { cause: error });
    // A socket.
    if (code === 'ENXIO') throw new NoRegularFile('it is a socket, not a file', { cause: error });
    throw error;
  }
}

/** The whole file. Throws NoRegularFile, also where it is larger than `bytesMax`, or the error of the system. */
export function readNamed(path: string, bytesMax: number, options: NamedFileOptions = {}): Buffer {
  const descriptor = openNamed(path, { ...options, bytesMax });
  try {
    const pieces: Buffer[] = [];
    for (let length = 0; ; ) {
      const piece = Buffer.allocUnsafe(64 * 1024);
      const read = readSync(descriptor, piece);
      if (read === 0) return Buffer.concat(pieces);
      length += read;
      if (length > bytesMax) throw new NoRegularFile(`it is larger than ${bytesMax} bytes`);
      pieces.push(piece.subarray(0, read));
    }
  } finally {
    closeSync(descriptor);
  }
}

/** The text of a small file, such as a key or a document. */
export function textOfNamed(path: string, bytesMax: number = 1024 * 1024): string {
  return readNamed(path, bytesMax).toString('utf8');
}

/** The bytes of a file of any size. Throws as `openNamed`. */
export function streamNamed(path: string, options?: NamedFileOptions): ReadStream {
  return createReadStream(path, { fd: openNamed(path, options), highWaterMark: 256 * 1024 });
}
