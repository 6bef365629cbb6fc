/** Which of the candidates of a request is asked: by the prefixes of its prompt, or the less busy of two random ones. */

import { memorySharer } from '../../shared/decision/authenticate.ts';
import type { Placement } from '../../shared/decision/route.ts';
import type { AffinityRequest, NodeChooser } from '../nodes/affinity.ts';
import { type AskedChat, type AskedRequest, chatPrefixes } from '../surfaces/common/asked.ts';
import type { Gateway } from './gateway.ts';
import type { Reservation } from './reserve.ts';

/** The candidates given to it must be of the one place of the decision. */
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
 * Hashes a prompt only where there is a choice. A class, because a getter in an object literal costs a hidden class with
 * each request, which keeps the prompt alive until the next full collection.
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
