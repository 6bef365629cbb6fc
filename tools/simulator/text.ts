/**
 * Computes the words and token counts of a simulated node's answers. They depend only on the request, so tests can predict
 * them.
 */
import { isRecord } from './loose.ts';

/** Number of tokens that each message adds to the tokens of its text. */
const messageOverheadTokens = 3;
/** Number of words in an answer if the request does not set it. */
export const answerWordsDefault = 16;
/** Maximum number of prompt characters that an echo repeats, so that its cost does not grow with the prompt. */
const echoedCharactersMax = 4096;

/** Returns the text of a message's content: a string, or text parts joined. Anything else counts as empty. */
export function contentText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part) => (isRecord(part) && typeof part.text === 'string' ? part.text : '')).join('');
}

/** Returns the number of tokens in plain text, which is a quarter of its UTF-8 bytes, rounded up. */
export function textTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / 4);
}

/** Returns the number of tokens in a prompt: a quarter of the bytes of all texts, rounded up, and 3 for each message. */
export function promptTokens(messages: readonly unknown[]): number {
  let bytes = 0;
  for (const message of messages)
    if (isRecord(message)) bytes += Buffer.byteLength(contentText(message.content));
  return Math.ceil(bytes / 4) + messageOverheadTokens * messages.length;
}

/** Returns the number of words that a text such as `say 500 words` asks for, or the default. */
export function wordsAsked(text: string, otherwise: number): number {
  const asked = /\bsay (\d{1,6}) words\b/i.exec(text.slice(0, echoedCharactersMax))?.[1];
  return asked === undefined ? otherwise : Number(asked);
}

/** Returns the answer's words, one token each: `echo:` and the words of the text, repeated. `shift` makes choices differ. */
export function echo(text: string, words: number, shift = 0): string[] {
  const said = text
    .slice(0, echoedCharactersMax)
    .split(/\s+/)
    .filter((word) => word !== '');
  const cycle = ['echo:', ...said];
  const pieces: string[] = [];
  for (let index = 0; index < words; index += 1) {
    const word = cycle[(index + shift) % cycle.length] ?? '';
    pieces.push(index === 0 ? word : ` ${word}`);
  }
  return pieces;
}

/** Splits generated text such as JSON into tokens of eight characters. */
export function pieces(text: string): string[] {
  return text.match(/[\s\S]{1,8}/g) ?? [];
}

/** Cuts an answer off before the earliest stop sequence and returns that sequence as `matched`. */
export function cutAtStop(
  tokens: readonly string[],
  stops: readonly string[],
): { tokens: readonly string[]; matched: string | null } {
  const text = stops.length === 0 ? '' : tokens.join('');
  let at = -1;
  let matched: string | null = null;
  for (const stop of stops) {
    const found = stop === '' ? -1 : text.indexOf(stop);
    if (found < 0 || (at >= 0 && found >= at)) continue;
    at = found;
    matched = stop;
  }
  if (matched === null) return { tokens, matched };
  const kept: string[] = [];
  for (let index = 0, length = 0; length < at; index += 1) {
    const token = tokens[index] ?? '';
    kept.push(token.slice(0, at - length));
    length += token.length;
  }
  return { tokens: kept, matched };
}
