/**
 * Records that are written together, as text from the moment that they are added: kept as lists, each would hold some
 * thirty objects alive until the group is sent, and the garbage collector would copy all of them twice.
 */
import { type RecordedRequest, recordedNames } from '../../schemas/records/request-record.ts';
import { idBytes, type RecordGroup } from '../usage/segment-frame.ts';

/** Place of the id in what is recorded of a request, and of its time. */
const idCell = 0;
export const timeCell = 1;
const idPrefix = 'req_';
/** Where the id ends in the text of a request, which begins with it. */
const idEnd = '["req_'.length + 2 * idBytes + 1;
const textBytesMax = 256 * 1024;
const [opening, comma, zero] = [0x5b, 0x2c, 0x30];
/** A character of a string may take so many bytes. */
const bytesPerCharacter = 3;

interface GroupText {
  readonly ids: Buffer;
  readonly text: string;
  /** Of what wrote it. */
  readonly heading: string;
}

export class RecordGroupBuffer {
  readonly #ids: Buffer;
  readonly #text = Buffer.allocUnsafeSlow(textBytesMax);
  #count = 0;
  #lastMs = 0;
  #length = 0;

  constructor(recordsMax: number) {
    this.#ids = Buffer.allocUnsafeSlow(recordsMax * idBytes);
  }

  get count(): number {
    return this.#count;
  }

  /** False where it has no room for it. */
  add(request: RecordedRequest): boolean {
    const text = JSON.stringify(request).slice(idEnd);
    const isFull = (this.#count + 1) * idBytes > this.#ids.length;
    if (isFull || this.#length + bytesPerCharacter * text.length + 4 > textBytesMax) return false;
    this.#ids.write(String(request[idCell]).slice(idPrefix.length), this.#count * idBytes, 'hex');
    this.#text[this.#length++] = this.#count === 0 ? opening : comma;
    // In place of the id, byte by byte: a text that is joined of two is copied once more.
    this.#text[this.#length++] = opening;
    this.#text[this.#length++] = zero;
    this.#length += this.#text.write(text, this.#length);
    this.#lastMs = Math.max(this.#lastMs, Number(request[timeCell]));
    this.#count++;
    return true;
  }

  /**
   * What was added, in memory of its own, as a JSON list in UTF-8, with 0 for the ids: as hexadecimal digits they cost twice
   * their bytes. The buffer is empty afterwards.
   */
  take(): RecordGroup {
    this.#length += this.#text.write(this.#count === 0 ? '[]' : ']', this.#length);
    const group = {
      count: this.#count,
      lastMs: this.#lastMs,
      ids: new Uint8Array(this.#ids.subarray(0, this.#count * idBytes)),
      text: new Uint8Array(this.#text.subarray(0, this.#length)),
    };
    this.#count = 0;
    this.#lastMs = 0;
    this.#length = 0;
    return group;
  }
}

/** How this build writes a request: the names of its fields, in their order. */
export const groupHeading = JSON.stringify(recordedNames);

/**
 * The requests of a group that was read, each with its id, in the order of this build, whichever wrote it; none where that cannot
 * be known.
 */
export function parseRequests({ ids, text, heading }: GroupText): unknown[][] {
  if (heading === '') return [];
  const written = JSON.parse(text) as unknown[][];
  const lists = heading === groupHeading ? written : reorderColumns(JSON.parse(heading) as string[], written);
  lists.forEach((list, at) => {
    list[idCell] = idPrefix + ids.toString('hex', at * idBytes, (at + 1) * idBytes);
  });
  return lists;
}

function reorderColumns(names: readonly string[], written: readonly (readonly unknown[])[]): unknown[][] {
  const cells = recordedNames.map((name) => names.indexOf(name));
  return written.map((list) => cells.map((cell) => list[cell]));
}

/** Undefined where it is no id. */
export function parseId(req: string): Buffer | undefined {
  const id = Buffer.from(req.slice(idPrefix.length), 'hex');
  return id.length === idBytes ? id : undefined;
}
