/** Words and token counts of a simulated node's answers. They depend only on the request, so tests can predict them. */
import { isRecord } from './loose.ts';

/** Tokens that every message costs in addition to its text. */
const messageOverheadTokens = 3;
/** Default number of words in an answer. */
export const answerWordsDefault = 16;
/** Characters of the prompt that an echo repeats, so that its cost does not grow with the prompt. */
const echoedCharactersMax = 4096;

/** The text of a message's content: a string, or text parts joined; anything else is empty. */
export function contentText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part) => (isRecord(part) && typeof part.text === 'string' ? part.text : '')).join('');
}

/** Tokens of plain text: a quarter of its UTF-8 bytes, rounded up. */
export function textTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / 4);
}

/** Tokens of a prompt: a quarter of the bytes of all content texts, rounded up, and 3 for each message. */
export function promptTokens(messages: readonly unknown[]): number {
  let bytes = 0;
  for (const message of messages)
    if (isRecord(message)) bytes += Buffer.byteLength(contentText(message.content));
  return Math.ceil(bytes / 4) + messageOverheadTokens * messages.length;
}

/** Number of words that the text requests with `say 500 words`, or the default. */
export function wordsAsked(text: string, otherwise: number): number {
  const asked = /\bsay (\d{1,6}) words\b/i.exec(text.slice(0, echoedCharactersMax))?.[1];
  return asked === undefined ? otherwise : Number(asked);
}

/** Repeats `echo:` and the words of the text; every word is one token. `shift` makes the choices differ. */
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

/** Cuts an answer before the earliest stop sequence, which is returned as `matched`. */
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
