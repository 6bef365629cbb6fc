/** Parses the heads of requests and responses, beginning with the first line. */
import { METHODS } from 'node:http';
import { carriageReturn, lineFeed, space, spanLength, token, value, visible } from './characters.ts';
import { broken, FieldReader, incomplete, matchVersion } from './field-reader.ts';
import { type MessageHead, ParsedAnswer, ParsedRequest } from './message-head.ts';

export abstract class HeadReader<Head extends MessageHead> extends FieldReader {
  protected version = '';

  /** Returns the head that was read, and prepares for the next one. */
  take(): Head {
    const head = this.makeHead();
    this.reset();
    return head;
  }

  protected abstract makeHead(): Head;

  /** Reads the HTTP version at `at` and returns the index after it, or `incomplete` if no further byte has arrived. */
  protected readVersion(text: string, at: number): number {
    const end = matchVersion(text, at);
    if (end === broken) return this.breakOff('version');
    if (end === incomplete || end === text.length) return incomplete;
    this.version = text.slice(end - 3, end);
    return end;
  }
}

/** Request methods that are accepted. CONNECT is not, because the gateway opens no tunnels. */
const methods = new Set(METHODS.filter((method) => method !== 'CONNECT'));

export class RequestHeadReader extends HeadReader<ParsedRequest> {
  #method = '';
  #url = '';

  protected override makeHead(): ParsedRequest {
    return new ParsedRequest(this.#method, this.#url, this.version, this.fields);
  }

  protected override startLine(text: string, at: number): number {
    let from = at;
    // Skip empty lines before the request.
    while (text.charCodeAt(from) === carriageReturn) {
      const next = this.lineEnd(text, from);
      if (next < 0) return next;
      from = next;
    }
    const methodEnd = spanLength(text, from, token);
    if (methodEnd === text.length) return incomplete;
    this.#method = text.slice(from, methodEnd);
    if (text.charCodeAt(methodEnd) !== space || !methods.has(this.#method))
      return this.#noMethod(text, methodEnd);
    const targetEnd = spanLength(text, methodEnd + 1, visible);
    if (targetEnd === text.length) return incomplete;
    if (targetEnd === methodEnd + 1 || text.charCodeAt(targetEnd) !== space) return this.breakOff('target');
    this.#url = text.slice(methodEnd + 1, targetEnd);
    const versionEnd = this.readVersion(text, targetEnd + 1);
    if (versionEnd < 0) return versionEnd;
    const code = text.charCodeAt(versionEnd);
    if (code === carriageReturn) return this.lineEnd(text, versionEnd);
    return this.breakOff(code === lineFeed ? 'bare line feed' : 'version');
  }

  #noMethod(text: string, at: number): number {
    return this.breakOff(text.charCodeAt(at) === lineFeed ? 'bare line feed' : 'method');
  }
}

export class AnswerHeadReader extends HeadReader<ParsedAnswer> {
  #status = 0;

  protected override makeHead(): ParsedAnswer {
    return new ParsedAnswer(this.#status, this.version, this.fields);
  }

  protected override startLine(text: string, at: number): number {
    const versionEnd = this.readVersion(text, at);
    if (versionEnd < 0) return versionEnd;
    if (this.version !== '1.1' && this.version !== '1.0') return this.breakOff('version');
    const statusEnd = this.#readStatus(text, versionEnd);
    if (statusEnd < 0) return statusEnd;
    const end = spanLength(text, statusEnd, value);
    return end === text.length ? incomplete : this.valueEnd(text, end);
  }

  /** Reads the status of a response: three digits between two spaces. */
  #readStatus(text: string, at: number): number {
    const end = at + 4;
    for (let i = at; i <= end; i++) {
      if (i === text.length) return incomplete;
      const code = text.charCodeAt(i);
      const least = i === at + 1 ? 0x31 : 0x30;
      const isRight = i === at || i === end ? code === space : code >= least && code <= 0x39;
      if (!isRight) return this.breakOff('status');
    }
    this.#status = Number(text.slice(at + 1, end));
    return end;
  }
}
