/**
 * How a process asks another at the address of its status report, without sending a secret there: the question has an HMAC under
 * the token that the report was signed with, and so has each piece of the answer. Plain http shows both, but nobody can ask, change
 * or repeat either. The asked process gives out a challenge first, so that no two clocks are compared.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { z } from 'zod';
import { RecordMac } from '../log/core/record-mac.ts';
import { Sealer } from '../runtime/sealed-text.ts';

export const questionScheme = 'Headgate-MAC';

const challengeMs = 30_000;
/** Each costs its asker a MAC, so only holders of the token fill it. */
const usedMax = 10_000;
/** Longer texts are neither challenge nor nonce. */
const partSchema = z.string().regex(/^[\w-]{16,300}$/);
const challengeSchema = z.object({ id: z.string(), untilMs: z.number() });
const endMark = 'end ';
const pieceMark = 'mac ';
/** Of one line, and of the lines between two MACs. */
const lineCharactersMax = 16 * 1024;
const pieceLinesMax = 100;

interface Asked {
  /** Of the process that is asked, so that the question is good nowhere else. */
  readonly incarnation: string;
  /** With its query. */
  readonly path: string;
  readonly challenge: string;
  /** Of the asker, so that an answer to another question is not taken for this one's. */
  readonly nonce: string;
}

/** One question and its answer, for either side. */
class Exchange {
  readonly #questions: RecordMac;
  readonly #answers: RecordMac;
  readonly #asked: Asked;
  #pieces = 0;

  constructor(token: string, asked: Asked) {
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

  /** Of the next piece of the answer. */
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

/** A question to the process of this incarnation: its `Authorization`, and its answer as far as that proves itself. */
export function askSigned(token: string, asked: Omit<Asked, 'nonce'>): SignedQuestion {
  if (!partSchema.safeParse(asked.challenge).success) throw new Error('this is no challenge');
  const exchange = new Exchange(token, { ...asked, nonce: randomBytes(18).toString('base64url') });
  return { authorization: exchange.header, answer: (body) => verified(exchange, body) };
}

export interface SignedQuestion {
  readonly authorization: string;
  /** Whole lines; throws at the first that has no MAC, and where the end is missing. */
  answer(body: AsyncIterable<Uint8Array>): AsyncGenerator<string, void>;
}

async function* verified(exchange: Exchange, body: AsyncIterable<Uint8Array>): AsyncGenerator<string, void> {
  let lines: string[] = [];
  for await (const line of linesWithin(body)) {
    const mark = [pieceMark, endMark].find((each) => line.startsWith(each));
    if (mark === undefined) {
      if (lines.push(`${line}\n`) > pieceLinesMax) throw new Error('there are too many lines without a MAC');
      continue;
    }
    const text = lines.join('');
    if (!exchange.isSealed(mark, text, line.slice(mark.length))) throw new Error('its MAC is wrong');
    if (text !== '') yield text;
    if (mark === endMark) return;
    lines = [];
  }
  throw new Error('the answer has no end');
}

async function* linesWithin(body: AsyncIterable<Uint8Array>): AsyncGenerator<string, void> {
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

/** Answers, sealed line by line in bounded pieces. */
export type SealAnswer = (pages: AsyncIterable<readonly string[]>) => AsyncIterable<string>;

/** Accepts signed questions to one process, each once. */
export class SignedQuestions {
  readonly #token: string;
  readonly #incarnation: string;
  readonly #sealer = new Sealer(randomUUID(), 'challenge');
  /** Until when a challenge that was used could be used again; the oldest first. */
  readonly #used = new Map<string, number>();

  constructor(token: string, incarnation: string) {
    this.#token = token;
    this.#incarnation = incarnation;
  }

  /** Nothing is kept of it before it is used, because anybody may ask for any number. */
  challenge(): string {
    return this.#sealer.seal({ id: randomUUID(), untilMs: performance.now() + challengeMs });
  }

  /** How to answer the question; undefined where it is not one, or not good any more. */
  accept(path: string, authorization: string): SealAnswer | undefined {
    const [scheme, parts = ''] = authorization.split(' ', 2);
    const [challenge, nonce, mac] = parts.split('.', 3).map((part) => partSchema.safeParse(part).data);
    if (scheme !== questionScheme || challenge === undefined || nonce === undefined || mac === undefined)
      return undefined;
    const { id, untilMs = 0 } = this.#sealer.open(challenge, challengeSchema) ?? {};
    const exchange = new Exchange(this.#token, { incarnation: this.#incarnation, path, challenge, nonce });
    if (id === undefined || untilMs < performance.now() || !exchange.accepts(mac)) return undefined;
    return this.#use(id, untilMs) ? (pages) => sealed(exchange, pages) : undefined;
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

async function* sealed(exchange: Exchange, pages: AsyncIterable<readonly string[]>): AsyncIterable<string> {
  for await (const lines of pages)
    for (let at = 0; at < lines.length; at += pieceLinesMax)
      yield exchange.seal(pieceMark, lines.slice(at, at + pieceLinesMax).join(''));
  yield exchange.seal(endMark, '');
}
