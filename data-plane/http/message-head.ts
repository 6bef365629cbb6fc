/** Heads of requests and responses, including how each declares its body. An ambiguous head is a fault. */
import type { IncomingHttpHeaders } from 'node:http';
import type { FaultName } from './faults.ts';
import { toHeaderObject } from './header-object.ts';

/** Rule that determines where a body ends. */
export type BodyFraming = 'none' | 'counted' | 'chunked' | 'until-close';

export interface MessageHead {
  readonly framing: BodyFraming;
  /** Length in bytes of a body whose length is declared. */
  readonly bodyBytes: number;
  /** Whether the connection closes after this message, or after the response if the message is a request. */
  readonly isLast: boolean;
  /** Reason why the message must be rejected, although its head could be parsed. */
  readonly fault: FaultName | undefined;
}

/** Header fields that determine a message's length or destination, and how often each occurred. */
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

  /** Returns the fault that makes the length of the body ambiguous, if there is one. */
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

/** Lengths of the names of the fields that `FramingFields` reads. Names of other lengths need not be compared. */
const framingLengths = new Set([4, 6, 10, 14, 17]);

const closing = /(?:^|,)[\t ]*close[\t ]*(?:,|$)/i;
/** Matches a number below 2^53. Leading zeros are not allowed, because some readers take them to mean octal. */
const plainNumber = /^(?:0|[1-9]\d{0,14})$/;

export class ParsedRequest implements MessageHead {
  readonly method: string;
  readonly url: string;
  readonly httpVersion: string;
  readonly rawHeaders: readonly string[];
  readonly framing: BodyFraming;
  readonly bodyBytes: number;
  readonly isLast: boolean;
  /** Whether the client waits for `100 Continue` before it sends the body. */
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

  /** Headers by name in lower case. Only created when needed. */
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

  /** Whether this is an interim response (1xx), which must be followed by a final response. */
  get isInterim(): boolean {
    return this.status < 200;
  }
}
