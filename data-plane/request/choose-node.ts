/** Chooses among candidate nodes: the one that knows the prompt's prefixes, or the less busy of two random ones. */

import { memorySharer } from '../../shared/decision/authenticate.ts';
import type { Placement } from '../../shared/decision/route.ts';
import type { AffinityRequest, NodeChooser } from '../nodes/affinity.ts';
import { type AskedChat, type AskedRequest, chatPrefixes } from '../surfaces/common/asked.ts';
import type { Gateway } from './gateway.ts';
import type { Reservation } from './reserve.ts';

/** Creates the function that chooses a node for a request. All candidates must belong to the place that routing chose. */
export function nodeChooser(
  { affinity, load, lookup }: Pick<Gateway, 'affinity' | 'load' | 'lookup'>,
  { facts: { target, model }, decision: { subject: tenant } }: Reservation,
  { capacity }: Placement,
  asked: AskedRequest,
): NodeChooser {
  if (asked.kind !== 'chat' || !lookup.hasAffinity(model)) return (left) => load.choose(left);
  const place =
    capacity === 'pool' ? 'pool' : target.kind === 'stack' ? `stack:${target.stack}` : `own:${tenant}`;
  const request = new ChatAffinity(tenant, `${place} ${model}`, asked);
  return (left) => affinity.choose(left, request);
}

/**
 * Identifies a chat when a node is chosen by prefix. The prompt is hashed only if there is a choice. This is a class, because
 * a getter in an object literal makes V8 create a hidden class per request, which keeps the prompt alive.
 */
class ChatAffinity implements AffinityRequest {
  readonly tenant: string;
  readonly sharer: string;
  readonly group: string;
  readonly #chat: AskedChat;

  constructor(tenant: string, group: string, chat: AskedChat) {
    this.tenant = tenant;
    this.sharer = memorySharer(tenant);
    this.group = group;
    this.#chat = chat;
  }

  get prefixes(): readonly number[] {
    return chatPrefixes(this.#chat);
  }
}
