/** Chooses which candidate node gets a request: by the prefixes of its prompt, or the less busy of two random candidates. */

import { memorySharer } from '../../shared/decision/authenticate.ts';
import type { Placement } from '../../shared/decision/route.ts';
import type { AffinityRequest, NodeChooser } from '../nodes/affinity.ts';
import { type AskedChat, type AskedRequest, chatPrefixes } from '../surfaces/common/asked.ts';
import type { Gateway } from './gateway.ts';
import type { Reservation } from './reserve.ts';

/** Returns the chooser for a request. All candidates passed to it must belong to the one place that the decision chose. */
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
 * Identifies a chat for cache affinity. Its prompt is hashed only if there is a choice. A class, because getters in object
 * literals create a hidden class per request, which keeps the prompt alive.
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
