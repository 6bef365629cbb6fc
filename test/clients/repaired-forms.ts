/** Oddly formed node answers that the gateway repairs. Each library must be able to read the repaired form. */
import { type Behaviour, parseBehaviour } from '../simulator/behaviour.ts';

/** Contains characters whose UTF-8 encoding includes the byte 0x85, which ends a line in Latin-1. */
export const oddText = '进入 ✅ é';

const event = (choice: object | null, more: object = {}): string =>
  `data: ${JSON.stringify({ id: 'x', choices: choice === null ? null : [{ index: 0, ...choice }], ...more })}\n\n`;
const usage = { prompt_tokens: 7, completion_tokens: 4 };
const head = 'data:\n\nevent: status\ndata: queued\n\n';
const part = (content: string): string => event({ delta: { content }, finish_reason: '' });
const parts = `${part('进入 ')}${part('✅ é')}`;
const stop = event({ delta: {}, finish_reason: 'stop' });

export const oddStreams: Readonly<Record<string, string>> = {
  'with events of other names and usage without choices': `${head}${parts}${stop}${event(null, { usage })}data: [DONE]\n\n`,
  'with CRLF and a byte order mark': `\ufeff${parts}${stop}data: [DONE]\n\n`.replaceAll('\n', '\r\n'),
  'with an end of its own and no blank line after it': `${parts}${stop.replace('"stop"', '"eos"')}data: [DONE]`,
};

/** A call of the tool `weather` that has the finish reason of plain text. */
const stoppedCall = {
  choices: [
    {
      index: 0,
      message: { tool_calls: [{ function: { name: 'weather', arguments: '{"city":"text"}' } }] },
      finish_reason: 'stop',
    },
  ],
  usage,
};

const once = (type: string, body: string): Behaviour => {
  const bytes = `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
  const text = `=== RESPONSE\n${Buffer.from(bytes).toString('latin1')}\n=== END eof`;
  return parseBehaviour({ rules: [{ match: { times: 1 }, fault: { kind: 'replay', text } }] });
};

export const streamsOnce = (stream: string): Behaviour => once('text/event-stream', stream);
export const callsOnce = (): Behaviour => once('application/json', JSON.stringify(stoppedCall));
