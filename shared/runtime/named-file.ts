/** Opens files that a user names. They must be regular and bounded, because a pipe may block and a device never ends. */
import {
  closeSync,
  constants,
  createReadStream,
  fstatSync,
  openSync,
  type ReadStream,
  readSync,
} from 'node:fs';

/** Thrown if the path is not a regular file or the file is too large. The message says what was found. */
export class NoRegularFile extends Error {
  override readonly name = 'NoRegularFile';
}

export interface NamedFileOptions {
  /** Whether to refuse symbolic links. Use it in folders that others can write to, because a link could lead elsewhere. */
  readonly refuseLinks?: boolean;
  readonly bytesMax?: number;
}

/** Matches the path that a shell passes for `<(command)`. That pipe is already open, so reading it does not block. */
const openPipe = /^\/(?:dev|proc\/self)\/(?:fd\/\d+|stdin)$/;

/** Opens a file. The caller must close the descriptor. Throws `NoRegularFile` or the system's error. */
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
    if (code === 'ENXIO') throw new NoRegularFile('it is a socket, not a file', { cause: error });
    throw error;
  }
}

/** Reads a whole file. Throws `NoRegularFile`, also if the file is larger than `bytesMax`, or the system's error. */
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

/** Returns the text of a small file, such as a key or a document. */
export function textOfNamed(path: string, bytesMax: number = 1024 * 1024): string {
  return readNamed(path, bytesMax).toString('utf8');
}

/** Streams a file of any size. Throws `NoRegularFile` or the system's error. */
export function streamNamed(path: string, options?: NamedFileOptions): ReadStream {
  return createReadStream(path, { fd: openNamed(path, options), highWaterMark: 256 * 1024 });
}
