import fc from 'fast-check';
import { expect, test } from 'vitest';
import { beginTrace, passTrace, readTraceparent } from './trace-context.ts';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const parentId = '00f067aa0ba902b7';
const header = `00-${traceId}-${parentId}-01`;

test.each<[string, unknown]>([
  ['none', undefined],
  ['two headers', `${header}, ${header}`],
  ['an invalid version', `ff-${traceId}-${parentId}-01`],
  ['a trace id of zeros', `00-${'0'.repeat(32)}-${parentId}-01`],
  ['a parent id of zeros', `00-${traceId}-${'0'.repeat(16)}-01`],
  ['capitals', header.toUpperCase()],
  ['a header with more fields than version 00 has', `${header}-more`],
  ['a header that is too short', header.slice(1)],
  ['a header with a space', ` ${header}`],
  ['a header that is too long', `01-${header.slice(3)}-${'a'.repeat(300)}`],
  ['a header with a line break', `${header}\n`],
])('%s is not a trace', (_, text) => {
  expect(readTraceparent(text)).toBeUndefined();
  expect(passTrace(text)).toBeUndefined();
  expect(beginTrace(text, 1).spans?.parentId).toBeUndefined();
});

test('the client’s trace is passed on, with this gateway’s span if it records one', () => {
  expect(passTrace(header)).toEqual({ traceparent: header, spans: undefined });
  // A `traceparent` of a later version must be accepted, but only the parts of version 00 may be read.
  expect(passTrace(`01-${header.slice(3)}-later`)?.traceparent).toBe(header);
  const { traceparent, spans } = beginTrace(header, 0);
  expect(spans).toMatchObject({ traceId, parentId });
  expect(traceparent).toBe(`00-${traceId}-${spans?.nodeId}-01`);
});

test('a request is not recorded here if its client does not record it; otherwise the ratio decides', () => {
  const unsampled = `${header.slice(0, -1)}0`;
  expect(beginTrace(unsampled, 1)).toEqual({ traceparent: unsampled, spans: undefined });
  expect(beginTrace(undefined, 0)).toMatchObject({ spans: undefined });
  // With `false`, the sampler ignores the client's decision.
  expect(beginTrace(header, 0, false)).toMatchObject({ spans: undefined });
  expect(beginTrace(unsampled, 1, false)).toMatchObject({ spans: { traceId, parentId } });
  const begun = beginTrace(undefined, 1);
  expect(readTraceparent(begun.traceparent)).toMatchObject({ traceId: begun.spans?.traceId, sampled: true });
});

test('whatever a client sends, the node receives a valid trace or none', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[0-9a-f-]{50,60}$/)), (text) => {
      const passed = passTrace(text);
      if (passed) expect(readTraceparent(passed.traceparent)).toBeDefined();
      expect(readTraceparent(beginTrace(text, 0.5).traceparent)).toBeDefined();
    }),
  );
});
