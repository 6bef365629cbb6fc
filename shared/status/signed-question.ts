/**
 * Lets a process query another process without sending a secret, at the address in that process's status report. The question
 * and each piece of the answer carry an HMAC under the token that signed the report. So nobody without the token can ask,
 * alter or replay anything. The queried process first issues a challenge, which avoids comparing clocks.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { z } from 'zod';
import { RecordMac } from '../log/core/record-mac.ts';
import { Sealer } from '../runtime/sealed-text.ts';

export const questionScheme = 'Headgate-MAC';

const challengeMs = 30_000;
/** Maximum number of used challenges remembered. Only holders of the token can reach it, because each costs a MAC. */
const usedMax = 10_000;
/** Format of a challenge or nonce. Longer texts are refused. */
const partSchema = z.string().regex(/^[\w-]{16,300}$/);
const challengeSchema = z.object({ id: z.string(), untilMs: z.number() });
const endMark = 'end ';
const pieceMark = 'mac ';
/** Maximum number of characters per line, and of lines between two MACs. */
const lineCharactersMax = 16 * 1024;
const pieceLinesMax = 100;

interface Question {
  /** Incarnation of the process to be queried. The question is not valid for any other process. */
  readonly incarnation: string;
  /** Path of the question, including its query string. */
  readonly path: string;
  readonly challenge: string;
  /** Random text from the sender, so that an answer to another question is not accepted. */
  readonly nonce: string;
}

/** Computes the MACs of a question and its answer, for both sides. */
class Exchange {
  readonly #questions: RecordMac;
  readonly #answers: RecordMac;
  readonly #asked: Question;
  #pieces = 0;

  constructor(token: string, asked: Question) {
    this.#questions = new RecordMac('headgate question', token);
    this.#answers = new RecordMac('headgate answer', token);
    this.#asked = asked;
  }

  get #question(): Buffer {
    const { incarnation, path, challenge, nonce } = this.#asked;
    return Buffer.from(`GET\n${path}\n${incarnation}\n${challenge}\n${nonce}`);
  }

  get header(): string {
    const { challenge, nonce } = this.#asked;
    return `${questionScheme} ${challenge}.${nonce}.${this.#questions.of(this.#question).toString('base64url')}`;
  }

  accepts(mac: string): boolean {
    return this.#questions.accepts(this.#question, Buffer.from(mac, 'base64url'));
  }

  /** Returns the text that the next MAC of the answer covers. */
  #answered(mark: string, text: string): Buffer {
    return Buffer.from(`${this.#pieces++}\n${mark}\n${this.#question.toString()}\n${text}`);
  }

  seal(mark: string, text: string): string {
    return `${text}${mark}${this.#answers.of(this.#answered(mark, text)).toString('base64url')}\n`;
  }

  isSealed(mark: string, text: string, mac: string): boolean {
    return this.#answers.accepts(this.#answered(mark, text), Buffer.from(mac, 'base64url'));
  }
}

/** Prepares a question to this incarnation of a process. Returns the `Authorization` header and a reader for the answer. */
export function signQuestion(token: string, asked: Omit<Question, 'nonce'>): SignedQuestion {
  if (!partSchema.safeParse(asked.challenge).success) throw new Error('this is not a challenge');
  const exchange = new Exchange(token, { ...asked, nonce: randomBytes(18).toString('base64url') });
  return { authorization: exchange.header, answer: (body) => verifyAnswer(exchange, body) };
}

export interface SignedQuestion {
  readonly authorization: string;
  /** Yields whole lines of the answer. Throws at the first piece without a valid MAC, or if the end is missing. */
  answer(body: AsyncIterable<Uint8Array>): AsyncGenerator<string, void>;
}

async function* verifyAnswer(
  exchange: Exchange,
  body: AsyncIterable<Uint8Array>,
): AsyncGenerator<string, void> {
  let lines: string[] = [];
  for await (const line of splitLines(body)) {
    const mark = [pieceMark, endMark].find((each) => line.startsWith(each));
    if (mark === undefined) {
      if (lines.push(`${line}\n`) > pieceLinesMax) throw new Error('too many lines have no MAC');
      continue;
    }
    const text = lines.join('');
    if (!exchange.isSealed(mark, text, line.slice(mark.length))) throw new Error('its MAC is wrong');
    if (text !== '') yield text;
    if (mark === endMark) return;
    lines = [];
  }
  throw new Error('the answer is incomplete');
}

async function* splitLines(body: AsyncIterable<Uint8Array>): AsyncGenerator<string, void> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of body) {
    const found = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = found.pop() ?? '';
    if ([...found, rest].some(({ length }) => length > lineCharactersMax))
      throw new Error('a line is too long');
    yield* found;
  }
}

/** Adds MACs to an answer. Each MAC covers a piece with a bounded number of lines. */
export type SealAnswer = (pages: AsyncIterable<readonly string[]>) => AsyncIterable<string>;

/** Accepts signed questions to one process. Each question is accepted only once. */
export class SignedQuestions {
  readonly #token: string;
  readonly #incarnation: string;
  readonly #sealer = new Sealer(randomUUID(), 'challenge');
  /** Times when used challenges expire, oldest first. Each is remembered until then, so that nobody can replay it. */
  readonly #used = new Map<string, number>();

  constructor(token: string, incarnation: string) {
    this.#token = token;
    this.#incarnation = incarnation;
  }

  /** Issues a challenge. It is stored only when it is used, because anyone may request any number of challenges. */
  challenge(): string {
    return this.#sealer.seal({ id: randomUUID(), untilMs: performance.now() + challengeMs });
  }

  /** Returns a function that signs the answer, or undefined if the question is invalid, expired or repeated. */
  accept(path: string, authorization: string): SealAnswer | undefined {
    const [scheme, parts = ''] = authorization.split(' ', 2);
    const [challenge, nonce, mac] = parts.split('.', 3).map((part) => partSchema.safeParse(part).data);
    if (scheme !== questionScheme || challenge === undefined || nonce === undefined || mac === undefined)
      return undefined;
    const { id, untilMs = 0 } = this.#sealer.open(challenge, challengeSchema) ?? {};
    const exchange = new Exchange(this.#token, { incarnation: this.#incarnation, path, challenge, nonce });
    if (id === undefined || untilMs < performance.now() || !exchange.accepts(mac)) return undefined;
    return this.#use(id, untilMs) ? (pages) => sealPages(exchange, pages) : undefined;
  }

  #use(id: string, untilMs: number): boolean {
    for (const [oldest, endMs] of this.#used) {
      if (endMs >= performance.now()) break;
      this.#used.delete(oldest);
    }
    if (this.#used.has(id) || this.#used.size >= usedMax) return false;
    this.#used.set(id, untilMs);
    return true;
  }
}

async function* sealPages(
  exchange: Exchange,
  pages: AsyncIterable<readonly string[]>,
): AsyncIterable<string> {
  for await (const lines of pages)
    for (let at = 0; at < lines.length; at += pieceLinesMax)
      yield exchange.seal(pieceMark, lines.slice(at, at + pieceLinesMax).join(''));
  yield exchange.seal(endMark, '');
}
