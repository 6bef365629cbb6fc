/**
 * Registers a test for one library version: the official library must be able to read what the gateway makes of random
 * streams from a node.
 */
import fc from 'fast-check';
import type OpenAI from 'openai';
import { expect, test } from 'vitest';
import { runs } from '../support/budget.ts';
import { readResponseEvents } from '../support/response-events.ts';
import { bytesOf, chunk, type NodeEvent, ranBy, responsesSurface } from '../support/surface-answers.ts';

const tools = [
  { type: 'function', name: 'f' },
  { type: 'custom', name: 'run' },
  { type: 'namespace', name: 'ns', tools: [{ type: 'function', name: 'g' }] },
];
const wanted = { fields: { tools, reasoning: { effort: 'high' } } };

const text = fc.string({ unit: 'grapheme', maxLength: 6 });
const part = fc.oneof(
  { weight: 6, arbitrary: text.map((content) => ({ content })) },
  { weight: 3, arbitrary: text.map((reasoning_content) => ({ reasoning_content })) },
  { weight: 1, arbitrary: text.map((refusal) => ({ refusal })) },
);
const inputs: Readonly<Record<string, readonly string[]>> = {
  f: ['{"a":"b"}', '{}', ''],
  run: ['{"input":"a\\n\\ud83d\\ude00b"}', '{"input":""}', 'bare', ''],
  ns__g: ['{"x":{"y":[1]}}'],
};
const call = fc
  .record({
    name: fc.constantFrom(...Object.keys(inputs)),
    at: fc.nat(3),
    cuts: fc.array(fc.nat(40), { maxLength: 3 }),
  })
  .map(({ name, at, cuts }) => {
    const whole = inputs[name]?.[at % (inputs[name]?.length ?? 1)] ?? '';
    const places = [0, ...cuts.map((cut) => Math.min(cut, whole.length)).sort((a, b) => a - b), whole.length];
    return { name, pieces: places.slice(1).map((to, index) => whole.slice(places[index], to)) };
  });

/** Interleaves the pieces of all calls, keeping the order within each call. */
function deltasOf(calls: readonly { name: string; pieces: string[] }[], order: readonly number[]): object[] {
  const left = calls.map(({ pieces }) => [...pieces]);
  const begun = new Set<number>();
  const deltas: object[] = [];
  const take = (index: number): void => {
    const piece = left[index]?.shift();
    if (piece === undefined) return;
    const opened = begun.has(index) ? {} : { id: `x${index}`, type: 'function' };
    const named = begun.has(index) ? {} : { name: calls[index]?.name };
    begun.add(index);
    deltas.push({ tool_calls: [{ index, ...opened, function: { ...named, arguments: piece } }] });
  };
  for (const at of order) take(calls.length === 0 ? 0 : at % calls.length);
  for (const index of calls.keys()) while (left[index]?.length) take(index);
  return deltas;
}

const nodeStream = fc
  .record({
    parts: fc.array(part, { maxLength: 6 }),
    calls: fc.array(call, { maxLength: 3 }),
    order: fc.array(fc.nat(5), { maxLength: 6 }),
    late: fc.array(part, { maxLength: 2 }),
    finish: fc.constantFrom('stop', 'length', 'tool_calls', 'content_filter', 'abort', null),
    lost: fc.option(fc.nat(20), { freq: 4 }),
    isDone: fc.boolean(),
  })
  .map(({ parts, calls, order, late, finish, lost, isDone }): NodeEvent[] => {
    const deltas = [...parts, ...deltasOf(calls, order), ...late];
    const kept = lost === null ? deltas : deltas.slice(0, lost);
    const usage = { choices: [], usage: { prompt_tokens: 9, completion_tokens: 4 } };
    const ended = [chunk({}, finish), usage, ...(isDone || finish === 'stop' ? ['[DONE]'] : [])];
    return [...kept.map((delta) => chunk(delta)), ...ended];
  });

/**
 * Lets the library read an answer that was recorded as a whole. A truncated stream fails at the point where its connection
 * would break.
 */
async function readBy(
  Library: typeof OpenAI,
  wire: string,
  isWhole: boolean,
): Promise<OpenAI.Responses.Response> {
  const body = new ReadableStream({
    start: (controller) => {
      controller.enqueue(new TextEncoder().encode(wire));
      if (isWhole) controller.close();
      else controller.error(new TypeError('terminated'));
    },
  });
  const headers = { 'content-type': 'text/event-stream' };
  const fetch = async (): Promise<Response> => new Response(body, { headers });
  const client = new Library({ apiKey: 'k', baseURL: 'http://127.0.0.1', fetch, maxRetries: 0 });
  return client.responses.stream({ model: 'm', input: 'hi' }).finalResponse();
}

export function proveReader(name: string, open: () => Promise<typeof OpenAI>): void {
  test(`${name} reads whatever stream of a node was completed, and notices each that was not`, async () => {
    const Library = await open();
    let completed = 0;
    await fc.assert(
      fc.asyncProperty(nodeStream, async (events) => {
        const { stream, wire } = ranBy(responsesSurface, [bytesOf(events)], wanted);
        const { items, end } = readResponseEvents(wire);
        if (stream.state === 'failed') {
          expect(end).toBeUndefined();
          if (wire !== '') await expect(readBy(Library, wire, false)).rejects.toThrow('terminated');
          return;
        }
        completed += 1;
        const { output, status } = await readBy(Library, wire, true);
        expect(status).toBe(end?.['status']);
        expect(JSON.parse(JSON.stringify(output))).toMatchObject(items);
        expect(output).toHaveLength(items.length);
      }),
      { numRuns: runs({ fast: 200, full: 800 }) },
    );
    expect(completed).toBeGreaterThan(20);
  }, 600_000);
}
