/**
 * The behaviour document: which requests a simulated node spoils, and how. JSON from a file or from `/sim/behaviour`;
 * an empty document is a healthy node. Rules are tried in order and the first that matches decides.
 * Rules count requests and use no randomness, so that a run can be repeated.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { z } from 'zod';
import { readCapture } from './capture.ts';

const milliseconds = z.number().int().min(1).max(600_000);
/** Events of a stream, or parts of a body, that still go out. The frame with the role counts as one. */
const afterEvents = z.number().int().min(0).max(1_000_000);
const headers = z.record(z.string().regex(/^[A-Za-z0-9-]+$/), z.string().regex(/^[\t\x20-\x7e]*$/));

/** The faults, each named by `kind`. Those that speak of events leave half of an unstreamed body instead. */
const faultSchema = z.discriminatedUnion('kind', [
  /** The connection is reset, no byte is answered. */
  z.strictObject({ kind: z.literal('refuse') }),
  /** Never answers. */
  z.strictObject({ kind: z.literal('stall') }),
  /** Falls silent with the socket open, or sends comments only. */
  z.strictObject({ kind: z.literal('stall-after'), afterEvents, commentEveryMs: milliseconds.optional() }),
  /** Answers this status; without `body` in the error shape of the dialect. */
  z.strictObject({
    kind: z.literal('status'),
    status: z.number().int().min(200).max(599),
    body: z.json().optional(),
    headers: headers.optional(),
  }),
  z.strictObject({ kind: z.literal('error-frame-then-done'), afterEvents: afterEvents.default(0) }),
  z.strictObject({ kind: z.literal('error-frame-no-done'), afterEvents: afterEvents.default(0) }),
  /** Ends with a finish reason that is none, then `[DONE]`. */
  z.strictObject({ kind: z.literal('finish-abort'), finishReason: z.string().default('abort') }),
  /** The connection ends in mid-stream, by FIN or by RST. */
  z.strictObject({ kind: z.literal('cut'), afterEvents, reset: z.boolean().default(false) }),
  /** A clean end of the body, without the terminator. */
  z.strictObject({ kind: z.literal('clean-end-without-done'), afterEvents: afterEvents.optional() }),
  /** Ollama's way to lose its worker: an empty chunk of no model, then a clean end. */
  z.strictObject({ kind: z.literal('empty-chunk-end'), afterEvents: afterEvents.default(2) }),
  /** Reports this usage, whatever it is; none at all where `usage` is left out. */
  z.strictObject({ kind: z.literal('wrong-usage'), usage: z.json().optional() }),
  /** Head or body byte by byte. */
  z.strictObject({ kind: z.literal('slow-loris'), part: z.enum(['head', 'body']), everyMs: milliseconds }),
  /** Not JSON where JSON is promised. */
  z.strictObject({ kind: z.literal('garbage'), afterEvents: afterEvents.default(0) }),
  /** One valid event, or one body, of at least so many bytes. */
  z.strictObject({ kind: z.literal('huge-event'), bytes: z.number().int().min(1).max(1_000_000_000) }),
  /** Header lines without end. */
  z.strictObject({ kind: z.literal('endless-headers'), everyMs: milliseconds.default(4) }),
  z.strictObject({ kind: z.literal('redirect'), location: z.string().regex(/^[\x21-\x7e]+$/) }),
  z.strictObject({ kind: z.literal('extra-after-done'), text: z.string().optional() }),
  z.strictObject({ kind: z.literal('duplicate-finish') }),
  z.strictObject({ kind: z.literal('content-type'), contentType: z.string().regex(/^[\x20-\x7e]+$/) }),
  /** A right answer, late. */
  z.strictObject({
    kind: z.literal('latency'),
    firstTokenMs: milliseconds,
    betweenTokensMs: milliseconds.optional(),
  }),
  /** The recorded bytes of a capture, from a file in the folder of the document or inline. */
  z.strictObject({ kind: z.literal('replay'), file: z.string().optional(), text: z.string().optional() }),
]);

const matchSchema = z.strictObject({
  model: z.string().optional(),
  /** Exact path; without one a rule means the POST requests under /v1. */
  path: z.string().optional(),
  stream: z.boolean().optional(),
  /** Lets so many matching requests pass first. */
  afterRequests: z.number().int().min(0).optional(),
  /** Of the rest, only every Nth. */
  everyNth: z.number().int().min(1).optional(),
  /** At most so often. */
  times: z.number().int().min(1).optional(),
});

const behaviourSchema = z.strictObject({
  /** `refused`: nobody listens. `reset`: every connection is reset at once. For so long, else until the behaviour is replaced. */
  connections: z
    .strictObject({ mode: z.enum(['refused', 'reset']), forMs: milliseconds.optional() })
    .optional(),
  /** Words of an answer; the last message overrules it by `say N words`. */
  answerWords: z.number().int().min(0).max(1_000_000).optional(),
  rules: z
    .array(z.strictObject({ match: matchSchema.default({}), fault: faultSchema }))
    .max(100)
    .default([]),
});

export type Fault = z.infer<typeof faultSchema>;
export type Behaviour = z.infer<typeof behaviourSchema>;
type Match = z.infer<typeof matchSchema>;

/** What a rule may ask about a request. */
export interface SimRequestFacts {
  readonly method: string;
  readonly path: string;
  readonly model: string;
  readonly stream: boolean;
}

/** The document is not JSON, breaks the schema, or names a capture that cannot be replayed. The message has the path. */
export class BehaviourInvalid extends Error {
  override readonly name = 'BehaviourInvalid';
}

/**
 * Reads a document: JSON text, or a value parsed already. Captures named by `file` are read here, relative to `folder`;
 * without a folder they are refused, because a document from the network must not open files. Throws BehaviourInvalid.
 */
export function parseBehaviour(document: unknown, folder?: string): Behaviour {
  const parsed = behaviourSchema.safeParse(typeof document === 'string' ? jsonOf(document) : document);
  if (!parsed.success) throw new BehaviourInvalid(z.prettifyError(parsed.error), { cause: parsed.error });
  return {
    ...parsed.data,
    rules: parsed.data.rules.map((rule) => ({ ...rule, fault: loaded(rule.fault, folder) })),
  };
}

/** Counts requests against the rules of one behaviour. */
export class RuleBook {
  readonly #rules: { readonly match: Match; readonly fault: Fault; seen: number; fired: number }[];

  constructor(behaviour: Behaviour) {
    this.#rules = behaviour.rules.map((rule) => ({ ...rule, seen: 0, fired: 0 }));
  }

  /** The fault of the first rule that means this request. Every call counts as one request. */
  pick(facts: SimRequestFacts): Fault | undefined {
    for (const rule of this.#rules) {
      if (!means(rule.match, facts)) continue;
      const { afterRequests = 0, everyNth = 1, times = Number.POSITIVE_INFINITY } = rule.match;
      rule.seen += 1;
      const after = rule.seen - afterRequests;
      if (after <= 0 || after % everyNth !== 0 || rule.fired >= times) continue;
      rule.fired += 1;
      return rule.fault;
    }
    return undefined;
  }
}

function means(match: Match, facts: SimRequestFacts): boolean {
  const { method, path, model, stream } = facts;
  const inference = method === 'POST' && path.startsWith('/v1/');
  if (match.path === undefined ? !inference : match.path !== path) return false;
  return (match.model ?? model) === model && (match.stream ?? stream) === stream;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new BehaviourInvalid('the behaviour document is not JSON', { cause: error });
  }
}

/** Replaces the file of a replay by its text, and refuses what could not be replayed. */
function loaded(fault: Fault, folder: string | undefined): Fault {
  if (fault.kind !== 'replay') return fault;
  const { file } = fault;
  if (file !== undefined && folder === undefined)
    throw new BehaviourInvalid('a replay from here takes `text`, not `file`');
  try {
    const text =
      file === undefined ? (fault.text ?? '') : readFileSync(resolve(folder ?? '.', file), 'latin1');
    readCapture(text);
    return { kind: 'replay', text };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new BehaviourInvalid(`capture ${file ?? 'in `text`'}: ${reason}`, { cause: error });
  }
}
