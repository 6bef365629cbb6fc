/** The heads of requests and answers, and what they say of their bodies. What could be said in two ways is a fault. */
import type { IncomingHttpHeaders } from 'node:http';
import type { FaultName } from './faults.ts';
import { toHeaderObject } from './header-object.ts';

/** How the end of a body is known. */
export type BodyFraming = 'none' | 'counted' | 'chunked' | 'until-close';

export interface MessageHead {
  readonly framing: BodyFraming;
  /** Of a counted body. */
  readonly bodyBytes: number;
  /** The connection ends with this message or its answer. */
  readonly isLast: boolean;
  /** Why the body is not read, where the lines of the head are right. */
  readonly fault: FaultName | undefined;
}

/** The fields that frame or route a message, each as it was sent, and how many there were. */
class FramingFields {
  lengths = 0;
  length = '';
  codings = 0;
  coding = '';
  closes = false;
  hosts = 0;
  expected: string | undefined;

  constructor(fields: readonly string[]) {
    for (let i = 0; i < fields.length; i += 2) {
      const name = fields[i] as string;
      if (framingLengths.has(name.length)) this.#note(name.toLowerCase(), fields[i + 1] as string);
    }
  }

  /** What makes a head one that two readers can understand differently. */
  findFault(version: string): FaultName | undefined {
    if (this.lengths > 0 && this.codings > 0) return 'length and chunks';
    if (this.lengths > 1 || (this.lengths === 1 && !plainNumber.test(this.length))) return 'length';
    const isChunked = this.codings === 1 && version === '1.1' && this.coding.toLowerCase() === 'chunked';
    return this.codings === 0 || isChunked ? undefined : 'coding';
  }

  faultInRequest(url: string, version: string): FaultName | undefined {
    if (!url.startsWith('/')) return 'no path';
    if (version !== '1.1' && version !== '1.0') return 'version';
    if (this.hosts > 1 || (this.hosts === 0 && version === '1.1')) return 'host';
    if (this.expected !== undefined && this.expected.toLowerCase() !== '100-continue') return 'expectation';
    return this.findFault(version);
  }

  #note(name: string, value: string): void {
    switch (name) {
      case 'host':
        this.hosts++;
        break;
      case 'expect':
        this.expected = this.expected === undefined ? value : 'more than one';
        break;
      case 'connection':
        this.closes ||= closing.test(value);
        break;
      case 'content-length':
        this.lengths++;
        this.length = value;
        break;
      case 'transfer-encoding':
        this.codings++;
        this.coding = value;
        break;
      default:
    }
  }
}

/** Of the names above: few others have to be compared. */
const framingLengths = new Set([4, 6, 10, 14, 17]);

const closing = /(?:^|,)[\t ]*close[\t ]*(?:,|$)/i;
/** Below 2^53, and without zeros before it, which are octal to some. */
const plainNumber = /^(?:0|[1-9]\d{0,14})$/;

export class ParsedRequest implements MessageHead {
  readonly method: string;
  readonly url: string;
  readonly httpVersion: string;
  readonly rawHeaders: readonly string[];
  readonly framing: BodyFraming;
  readonly bodyBytes: number;
  readonly isLast: boolean;
  /** The client waits with the body until it is asked for. */
  readonly expectsContinue: boolean;
  readonly fault: FaultName | undefined;
  #headers: IncomingHttpHeaders | undefined;

  constructor(method: string, url: string, version: string, fields: readonly string[]) {
    this.method = method;
    this.url = url;
    this.httpVersion = version;
    this.rawHeaders = fields;
    const framing = new FramingFields(fields);
    this.fault = framing.faultInRequest(url, version);
    this.framing = framing.codings > 0 ? 'chunked' : framing.lengths > 0 ? 'counted' : 'none';
    this.bodyBytes = framing.lengths > 0 ? Number(framing.length) : 0;
    this.isLast = framing.closes || version !== '1.1';
    this.expectsContinue = framing.expected !== undefined && version === '1.1';
  }

  /** By their names in lower case, made when they are first asked for. */
  get headers(): IncomingHttpHeaders {
    this.#headers ??= toHeaderObject(this.rawHeaders);
    return this.#headers;
  }
}

export class ParsedAnswer implements MessageHead {
  readonly status: number;
  readonly httpVersion: string;
  readonly rawHeaders: readonly string[];
  readonly framing: BodyFraming;
  readonly bodyBytes: number;
  readonly isLast: boolean;
  readonly fault: FaultName | undefined;

  constructor(status: number, version: string, fields: readonly string[]) {
    this.status = status;
    this.httpVersion = version;
    this.rawHeaders = fields;
    const framing = new FramingFields(fields);
    const hasBody = status >= 200 && status !== 204 && status !== 304;
    if (!hasBody) this.framing = 'none';
    else if (framing.codings > 0) this.framing = 'chunked';
    else this.framing = framing.lengths > 0 ? 'counted' : 'until-close';
    this.bodyBytes = framing.lengths > 0 ? Number(framing.length) : 0;
    this.isLast = framing.closes || version !== '1.1' || this.framing === 'until-close';
    const endsEarly = status < 200 && this.isLast;
    this.fault = status === 101 ? 'upgrade' : endsEarly ? 'early answer' : framing.findFault(version);
  }

  /** An answer before the answer. */
  get isInterim(): boolean {
    return this.status < 200;
  }
}
