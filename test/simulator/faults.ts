/**
 * Turns the plan of a correct answer into the plan of a faulty one. All functions are pure; spoilt-plan.ts sends the plan.
 */
import { STATUS_CODES } from 'node:http';
import type { Dialect } from '../../schemas/names.ts';
import { errorBody, type SimError } from '../../tools/simulator/engine-error.ts';
import { bodyPlan, doneFrame, jsonPlan, type Plan } from '../../tools/simulator/plan.ts';
import type { Fault } from './behaviour.ts';
import { readCapture } from './capture.ts';
import { distort } from './distortions.ts';
import { joined, type SpoiltPlan, take, withoutDone } from './spoilt-plan.ts';

const hugePart = 'a'.repeat(65_536);
const lateFrame = 'data: {"choices":[{"index":0,"delta":{"content":"late"},"finish_reason":null}]}\n\n';

/** Returns the error as a frame of a stream that has already begun. */
function errorFrame(dialect: Dialect, error: SimError): unknown {
  const body = errorBody(dialect, error);
  return dialect === 'sglang' ? { error: body } : body;
}

/** The error that an engine reports if its worker dies during a stream. */
const engineDied: SimError = {
  status: 500,
  message: 'the engine encountered an issue',
  type: 'InternalServerError',
};

export function spoil(plan: Plan, fault: Fault, dialect: Dialect): SpoiltPlan {
  switch (fault.kind) {
    case 'refuse':
      return raw(plan, [], 'reset');
    case 'stall':
      return raw(plan, [], 'hold');
    case 'endless-headers':
      return { ...raw(plan, headerLines(), 'hold'), gapMs: fault.everyMs };
    case 'slow-loris':
      return slow(plan, fault.part, fault.everyMs);
    case 'replay': {
      const capture = readCapture(fault.text ?? '');
      return raw(plan, [capture.bytes], capture.held ? 'hold' : undefined);
    }
    case 'status':
      return statusPlan(fault, dialect);
    case 'redirect':
      return bodyPlan(302, '', 'text/plain', { location: fault.location });
    case 'content-type':
      return { ...plan, headers: { ...plan.headers, 'content-type': fault.contentType } };
    case 'latency':
      return { ...plan, firstPartMs: fault.firstTokenMs, gapMs: fault.betweenTokensMs ?? plan.gapMs };
    case 'finish-abort':
    case 'wrong-usage':
    case 'duplicate-finish':
      return distort(plan, fault);
    default:
      return plan.stream ? spoilStream(plan, fault, dialect) : spoilBody(plan, fault, dialect);
  }
}

type EventFault = Extract<
  Fault,
  {
    kind:
      | 'stall-after'
      | 'cut'
      | 'error-frame-then-done'
      | 'error-frame-no-done'
      | 'clean-end-without-done'
      | 'empty-chunk-end'
      | 'garbage'
      | 'huge-event'
      | 'extra-after-done';
  }
>;

function spoilStream(plan: Plan, fault: EventFault, dialect: Dialect): SpoiltPlan {
  const { parts } = plan;
  switch (fault.kind) {
    case 'stall-after': {
      const comments = fault.commentEveryMs === undefined ? {} : { commentEveryMs: fault.commentEveryMs };
      return { ...plan, parts: take(parts, fault.afterEvents), end: 'hold', ...comments };
    }
    case 'cut':
      return { ...plan, parts: take(parts, fault.afterEvents), end: fault.reset ? 'reset' : 'cut' };
    case 'error-frame-then-done':
    case 'error-frame-no-done': {
      const frame = `data: ${JSON.stringify(errorFrame(dialect, engineDied))}\n\n`;
      const tail = fault.kind === 'error-frame-then-done' ? [frame, doneFrame] : [frame];
      return { ...plan, parts: joined(take(parts, fault.afterEvents), tail) };
    }
    case 'clean-end-without-done':
      return { ...plan, parts: take(withoutDone(parts), fault.afterEvents ?? Number.POSITIVE_INFINITY) };
    case 'empty-chunk-end':
      return { ...plan, parts: joined(take(parts, fault.afterEvents), [emptyChunk]) };
    case 'garbage':
      return {
        ...plan,
        parts: joined(take(parts, fault.afterEvents), ['data: {"choices":[oops\n\n', doneFrame]),
      };
    case 'huge-event':
      return { ...plan, parts: joined(hugeEvent(fault.bytes), parts) };
    case 'extra-after-done':
      return { ...plan, parts: joined(parts, [fault.text ?? lateFrame]) };
  }
}

function spoilBody(plan: Plan, fault: EventFault, dialect: Dialect): SpoiltPlan {
  const text = [...plan.parts].join('');
  const half = text.slice(0, Math.floor(text.length / 2));
  const headers = { ...plan.headers, 'content-length': String(Buffer.byteLength(text)) };
  switch (fault.kind) {
    case 'stall-after':
      return { ...plan, headers, parts: [half], end: 'hold' };
    case 'cut':
      return { ...plan, headers, parts: [half], end: fault.reset ? 'reset' : 'cut' };
    case 'error-frame-then-done':
    case 'error-frame-no-done':
      return jsonPlan(engineDied.status, errorBody(dialect, engineDied));
    case 'garbage':
      return { ...plan, parts: ['{"choices":[oops'] };
    case 'huge-event':
      return { ...plan, parts: [text, ' '.repeat(fault.bytes)] };
    default:
      return { ...plan, parts: [text] };
  }
}

const emptyChunk =
  'data: {"id":"chatcmpl-0","object":"chat.completion.chunk","created":0,"model":"","system_fingerprint":"fp_ollama",' +
  '"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n';

function raw(plan: Plan, parts: Iterable<string>, end?: 'reset' | 'hold'): SpoiltPlan {
  const bytes: SpoiltPlan = { ...plan, isRaw: true, parts, firstPartMs: 0, gapMs: 0 };
  return end === undefined ? bytes : { ...bytes, end };
}

function statusPlan(fault: Extract<Fault, { kind: 'status' }>, dialect: Dialect): SpoiltPlan {
  const { status } = fault;
  const message = STATUS_CODES[status] ?? 'error';
  const body = fault.body ?? errorBody(dialect, { status, message, type: message.replaceAll(' ', '') });
  return jsonPlan(status, body, fault.headers);
}

/** Returns the whole answer as raw bytes, in which the slow part is split into single bytes. */
function slow(plan: Plan, part: 'head' | 'body', everyMs: number): SpoiltPlan {
  const lines = Object.entries(plan.headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = `HTTP/1.1 ${plan.status} ${STATUS_CODES[plan.status]}\r\n${lines.join('')}connection: close\r\n\r\n`;
  const body = asBytes(plan.parts);
  const parts = part === 'head' ? joined(head, body) : joined([head], ...body);
  return { ...raw(plan, parts), gapMs: everyMs };
}

/** Converts the parts to latin1 text, with one character per byte. */
function* asBytes(parts: Iterable<string>): Generator<string> {
  for (const part of parts) yield Buffer.from(part).toString('latin1');
}

function* headerLines(): Generator<string> {
  yield 'HTTP/1.1 200 OK\r\n';
  for (let line = 0; ; line += 1) yield `x-filler-${line}: ${'a'.repeat(1000)}\r\n`;
}

function* hugeEvent(bytes: number): Generator<string> {
  yield 'data: {"choices":[{"index":0,"delta":{"content":"';
  for (let left = bytes; left > 0; left -= hugePart.length) yield hugePart.slice(0, left);
  yield '"},"finish_reason":null}]}\n\n';
}
