/**
 * Admits a turn of a conversation in the playground. The caller is the owner of an API key, or the visitor that a cookie
 * names. Only bodies that the playground's page would send are accepted.
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

/** Body of a visitor's turn. It must request a stream, so that tokens are counted even if the visitor stops early. */
const visitorTurnSchema = turnSchema.extend({ stream: z.literal(true) });

/** Subjects under which the use of a visitor, and of the visitor's network, counts at a given time. */
export interface Visitor {
  readonly id: string;
  readonly network: string;
}

export function authenticateTurnByKey(operation: 'chat' | 'messages'): Authenticator {
  const { path } = operations[operation];
  return (gateway, exchange, record, target) => new TurnAdmission(gateway, exchange, record, target, path);
}

/** Identifies callers by their cookie. `visitorAt` returns a visitor's subjects for a log time (ms since 1970). */
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
      `The playground accepts up to ${messagesMax} text messages, and only the parameters that its page offers.`,
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

  /** Decides by the log's clock, which also determines a visitor's day and month. A visitor has no key that could expire. */
  protected override decide(): Admission {
    const logMs = this.gateway.logNow();
    const visitor = this.#visitorAt(logMs);
    if (visitor === undefined) throw unauthorized('no visitor');
    return this.decideFor({ ...this.head, visitor: visitor.id, network: visitor.network }, logMs);
  }

  protected override get bodySchema(): z.ZodType {
    return visitorTurnSchema;
  }

  /** Always decide again, because the visitor's day or month may have ended while the body was being read. */
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
