/**
 * Admits a turn of the playground, whose caller is identified by an API key, or as the visitor that a cookie names. Only
 * paths and bodies that the page sends are accepted.
 */
import { z } from 'zod';
import { operations } from '../../schemas/api/operations.ts';
import type { Admission } from '../../shared/decision/admission.ts';
import { unauthorized } from '../../shared/decision/authenticate.ts';
import { Refusal } from '../../shared/decision/refusal.ts';
import type { SharedBudget } from '../../shared/runtime/byte-budget.ts';
import type { ChunkBuffer } from '../../shared/runtime/chunk-buffer.ts';
import type { Body } from '../http/body.ts';
import { type Authenticator, RequestAdmission } from '../request/admission.ts';

const bodyBytesMax = 16 * 1024;
const messagesMax = 20;

const message = z.strictObject({ role: z.enum(['system', 'user', 'assistant']), content: z.string() });
const turnSchema = z.strictObject({
  model: z.string().max(200),
  messages: z.array(message).min(1).max(messagesMax),
  system: z.string().optional(),
  max_tokens: z.int().min(1).optional(),
  temperature: z.number().optional(),
  top_p: z.number().optional(),
  stream: z.boolean().optional(),
  stream_options: z.strictObject({ include_usage: z.boolean() }).optional(),
});

/** Visitors' answers are streamed, so that their tokens can be counted even if the visitor stops one early. */
const visitorTurnSchema = turnSchema.extend({ stream: z.literal(true) });

/** Subjects that count a visitor and its network at one moment. */
export interface Visitor {
  readonly id: string;
  readonly network: string;
}

export function authenticateTurnByKey(operation: 'chat' | 'messages'): Authenticator {
  const { path } = operations[operation];
  return (gateway, exchange, record, target) => new TurnAdmission(gateway, exchange, record, target, path);
}

/** `visitorAt` finds the request's visitor at a given log time (ms since 1970). */
export function authenticateVisitor(visitorAt: (logMs: number) => Visitor | undefined): Authenticator {
  const { path } = operations.chat;
  return (gateway, exchange, record, target) =>
    new VisitorAdmission(visitorAt, gateway, exchange, record, target, path);
}

class TurnAdmission extends RequestAdmission {
  override async readBody(memory: SharedBudget): Promise<Body> {
    const body = await super.readBody(memory, bodyBytesMax);
    if (this.bodySchema.safeParse(parsed(body.bytes)).success) return body;
    body.release();
    throw new Refusal(
      'no turn',
      `The playground takes at most ${messagesMax} messages of text, and the parameters of its page.`,
    );
  }

  protected get bodySchema(): z.ZodType {
    return turnSchema;
  }
}

class VisitorAdmission extends TurnAdmission {
  readonly #visitorAt: (logMs: number) => Visitor | undefined;

  constructor(
    visitorAt: (logMs: number) => Visitor | undefined,
    ...request: ConstructorParameters<typeof RequestAdmission>
  ) {
    super(...request);
    this.#visitorAt = visitorAt;
  }

  /** Decides at the log's time. Visitors have no key that could expire, and their days and months follow the log's time. */
  protected override decide(): Admission {
    const logMs = this.gateway.logNow();
    const visitor = this.#visitorAt(logMs);
    if (visitor === undefined) throw unauthorized('no visitor');
    return this.decideFor({ ...this.head, visitor: visitor.id, network: visitor.network }, logMs);
  }

  protected override get bodySchema(): z.ZodType {
    return visitorTurnSchema;
  }

  /** Always decide again: the visitor's day or month may have ended while the body was read. */
  protected override isOld(): boolean {
    return true;
  }
}

function parsed(body: ChunkBuffer): unknown {
  try {
    return JSON.parse(body.whole().toString('utf8'));
  } catch {
    return undefined;
  }
}
