/**
 * The behaviour document says which requests a simulated node spoils and how. It is JSON, from a file or from
 * `/sim/behaviour`. With an empty document the node is healthy. Rules are tried in order, and the first rule that matches
 * decides. Rules count requests and use no randomness, so runs are repeatable.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { z } from 'zod';
import { readCapture } from './capture.ts';

const milliseconds = z.number().int().min(1).max(600_000);
/** Number of stream events or body parts to send before the fault. The frame with the role counts as one. */
const afterEvents = z.number().int().min(0).max(1_000_000);
const headers = z.record(z.string().regex(/^[A-Za-z0-9-]+$/), z.string().regex(/^[\t\x20-\x7e]*$/));

/** All faults by `kind`. If the answer is not streamed, faults that count events send half of the body first instead. */
const faultSchema = z.discriminatedUnion('kind', [
  /** Resets the connection without answering. */
  z.strictObject({ kind: z.literal('refuse') }),
  /** Never answers the request. */
  z.strictObject({ kind: z.literal('stall') }),
  /** Falls silent after some events and keeps the socket open, or sends only comments from then on. */
  z.strictObject({ kind: z.literal('stall-after'), afterEvents, commentEveryMs: milliseconds.optional() }),
  /** Answers with this status. Without `body`, uses the error format of the node's dialect. */
  z.strictObject({
    kind: z.literal('status'),
    status: z.number().int().min(200).max(599),
    body: z.json().optional(),
    headers: headers.optional(),
  }),
  z.strictObject({ kind: z.literal('error-frame-then-done'), afterEvents: afterEvents.default(0) }),
  z.strictObject({ kind: z.literal('error-frame-no-done'), afterEvents: afterEvents.default(0) }),
  /** Ends the stream with an invalid finish reason and `[DONE]`. */
  z.strictObject({ kind: z.literal('finish-abort'), finishReason: z.string().default('abort') }),
  /** Ends the connection in the middle of the stream, with FIN or RST. */
  z.strictObject({ kind: z.literal('cut'), afterEvents, reset: z.boolean().default(false) }),
  /** Ends the body cleanly, but without the terminating event. */
  z.strictObject({ kind: z.literal('clean-end-without-done'), afterEvents: afterEvents.optional() }),
  /** Ends as Ollama does when it loses its worker: with an empty chunk that names no model, and a clean end. */
  z.strictObject({ kind: z.literal('empty-chunk-end'), afterEvents: afterEvents.default(2) }),
  /** Reports this usage, which may be invalid, or no usage if `usage` is left out. */
  z.strictObject({ kind: z.literal('wrong-usage'), usage: z.json().optional() }),
  /** Sends the head or the body byte by byte. */
  z.strictObject({ kind: z.literal('slow-loris'), part: z.enum(['head', 'body']), everyMs: milliseconds }),
  /** Sends something other than the promised JSON. */
  z.strictObject({ kind: z.literal('garbage'), afterEvents: afterEvents.default(0) }),
  /** Sends one valid event or body of at least this many bytes. */
  z.strictObject({ kind: z.literal('huge-event'), bytes: z.number().int().min(1).max(1_000_000_000) }),
  /** Sends header lines without end. */
  z.strictObject({ kind: z.literal('endless-headers'), everyMs: milliseconds.default(4) }),
  z.strictObject({ kind: z.literal('redirect'), location: z.string().regex(/^[\x21-\x7e]+$/) }),
  z.strictObject({ kind: z.literal('extra-after-done'), text: z.string().optional() }),
  z.strictObject({ kind: z.literal('duplicate-finish') }),
  z.strictObject({ kind: z.literal('content-type'), contentType: z.string().regex(/^[\x20-\x7e]+$/) }),
  /** Sends a correct answer, but late. */
  z.strictObject({
    kind: z.literal('latency'),
    firstTokenMs: milliseconds,
    betweenTokensMs: milliseconds.optional(),
  }),
  /** Replays the recorded bytes of a capture, given inline or as a file in the document's folder. */
  z.strictObject({ kind: z.literal('replay'), file: z.string().optional(), text: z.string().optional() }),
]);

const matchSchema = z.strictObject({
  model: z.string().optional(),
  /** Exact path. If it is omitted, the rule applies to POST requests under /v1. */
  path: z.string().optional(),
  stream: z.boolean().optional(),
  /** Number of matching requests to let pass first. */
  afterRequests: z.number().int().min(0).optional(),
  /** Makes the rule apply only to every Nth of the remaining requests. */
  everyNth: z.number().int().min(1).optional(),
  /** Largest number of requests to spoil. */
  times: z.number().int().min(1).optional(),
});

const behaviourSchema = z.strictObject({
  /**
   * With `refused`, nothing listens on the port. With `reset`, connections are reset at once. Either ends after `forMs` or
   * when the behaviour is replaced.
   */
  connections: z
    .strictObject({ mode: z.enum(['refused', 'reset']), forMs: milliseconds.optional() })
    .optional(),
  /** Number of words in an answer, unless the last message contains `say N words`. */
  answerWords: z.number().int().min(0).max(1_000_000).optional(),
  rules: z
    .array(z.strictObject({ match: matchSchema.default({}), fault: faultSchema }))
    .max(100)
    .default([]),
});

export type Fault = z.infer<typeof faultSchema>;
export type Behaviour = z.infer<typeof behaviourSchema>;
type Match = z.infer<typeof matchSchema>;

/** Facts about a request that rules can match. */
export interface SimRequestFacts {
  readonly method: string;
  readonly path: string;
  readonly model: string;
  readonly stream: boolean;
}

/**
 * Thrown if the document is not JSON, violates the schema, or names a capture that cannot be used. The message contains the
 * path of the invalid member.
 */
export class BehaviourInvalid extends Error {
  override readonly name = 'BehaviourInvalid';
}

/**
 * Reads a document given as JSON text or as a parsed value. Throws BehaviourInvalid. Captures named by `file` are read
 * relative to `folder`. Without a folder they are refused, because a document from the network must not open files.
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

  /** Returns the fault of the first rule that applies to this request. Every call counts as one request. */
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

/** Replaces the file of a replay with its text. Throws if it cannot be replayed. */
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
