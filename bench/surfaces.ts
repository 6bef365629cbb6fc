// What converting a node's stream costs for each surface, a token an event: processor time and bytes a token, and the ratio to chat.
// Options: --tokens (200000).
import { parseArgs } from 'node:util';
import { type AnswerSurface, answerSurfaces, chunk, streamOf } from '../test/support/surface-answers.ts';

const { values } = parseArgs({ options: { tokens: { type: 'string', default: '200000' } } });
const tokens = Number(values.tokens);
/** Of one stream. */
const answerTokens = 500;
const rounds = 5;

const words = Array.from({ length: 64 }, (_, at) => JSON.stringify(chunk({ content: ` word${at}` })));
const ends = [JSON.stringify(chunk({}, 'stop')), '[DONE]'];

interface Cost {
  readonly microsPerToken: number;
  readonly bytesPerToken: number;
}

function measure(surface: AnswerSurface): Cost {
  let bytes = 0;
  const before = process.cpuUsage();
  for (let left = tokens; left > 0; left -= answerTokens) {
    const stream = streamOf(surface);
    const take = (data: string): void => {
      for (const frame of stream.push(data)) bytes += frame.length;
    };
    for (let at = 0; at < answerTokens; at += 1) take(words[at % words.length] ?? '');
    for (const end of ends) take(end);
    if (stream.state !== 'completed') throw new Error(`${surface.name} did not complete`);
    stream.release();
  }
  const { user, system } = process.cpuUsage(before);
  return { microsPerToken: (user + system) / tokens, bytesPerToken: bytes / tokens };
}

/** The least of some rounds in turns, so that a busy machine and a cold start count for none of them. */
const least = new Map<string, Cost>();
for (let round = 0; round < rounds; round += 1)
  for (const surface of answerSurfaces) {
    const cost = measure(surface);
    const known = least.get(surface.name);
    if (known === undefined || cost.microsPerToken < known.microsPerToken) least.set(surface.name, cost);
  }
const chat = least.get('chat')?.microsPerToken ?? Number.NaN;
const rounded = (value: number): number => Math.round(value * 100) / 100;
const rows = [...least].map(([surface, { microsPerToken, bytesPerToken }]) => ({
  surface,
  microsPerToken: rounded(microsPerToken),
  bytesPerToken: Math.round(bytesPerToken),
  ofChat: rounded(microsPerToken / chat),
}));
console.table(rows);
console.log(JSON.stringify({ bench: 'surfaces', tokens, rows }));
