/**
 * Group of recorded requests that are written together. Each request is converted to text as soon as it is added. Otherwise,
 * its thirty or so values would live until the group is sent, and the garbage collector would copy them twice.
 */
import { type RecordedRequest, recordedNames } from '../../schemas/records/request-record.ts';
import { idBytes, type RecordGroup } from '../usage/segment-frame.ts';

/** Position of the request's id, and of its time, in the list of recorded values. */
const idCell = 0;
export const timeCell = 1;
const idPrefix = 'req_';
/** Position after the id and its closing quote in a request's JSON text, which begins with the id. */
const idEnd = '["req_'.length + 2 * idBytes + 1;
const textBytesMax = 256 * 1024;
const [opening, comma, zero] = [0x5b, 0x2c, 0x30];
/** Maximum number of UTF-8 bytes for one code unit of a string. */
const bytesPerCharacter = 3;

interface GroupText {
  readonly ids: Buffer;
  readonly text: string;
  /** Names of the fields that each request in `text` contains, in order, as JSON. */
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

  /** Adds a request. Returns false if the group has no room for it. */
  add(request: RecordedRequest): boolean {
    const text = JSON.stringify(request).slice(idEnd);
    const isFull = (this.#count + 1) * idBytes > this.#ids.length;
    if (isFull || this.#length + bytesPerCharacter * text.length + 4 > textBytesMax) return false;
    this.#ids.write(String(request[idCell]).slice(idPrefix.length), this.#count * idBytes, 'hex');
    this.#text[this.#length++] = this.#count === 0 ? opening : comma;
    // Write a 0 in place of the id, byte by byte, because joining strings would copy the text once more.
    this.#text[this.#length++] = opening;
    this.#text[this.#length++] = zero;
    this.#length += this.#text.write(text, this.#length);
    this.#lastMs = Math.max(this.#lastMs, Number(request[timeCell]));
    this.#count++;
    return true;
  }

  /** Empties the group and returns its requests as UTF-8 JSON, but their ids separately in binary, at half the size. */
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

/** Names of the fields that this build writes for a request, in order, as JSON. */
export const groupHeading = JSON.stringify(recordedNames);

/** Parses a stored group and puts the fields in this build's order. Returns no requests if it does not name its fields. */
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

/** The 16 bytes of a request id, or undefined if the text is not a request id. */
export function parseId(req: string): Buffer | undefined {
  const id = Buffer.from(req.slice(idPrefix.length), 'hex');
  return id.length === idBytes ? id : undefined;
}
