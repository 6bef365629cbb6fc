/**
 * The tool calls of one streamed choice: each is opened once, with id and name, and then only its arguments grow.
 * Engines repeat ids and names as null or again, and some number every call 0; here each call has a place of its own.
 */

import { integer, member, text } from '../core/untrusted.ts';
import { malformed, optionalText, toolCallsMax, tooManyCalls } from './chat-parts.ts';

export interface ToolCallDelta {
  readonly index: number;
  /** Id and name, on the first delta of a call only. */
  readonly opened?: { readonly id: string; readonly name: string };
  readonly arguments: string;
}

export interface ToolCallDeltasOptions {
  /** Only the first call passes; the others are read and left out. */
  readonly firstOnly: boolean;
  /** The id that the client sees for the call at this place. */
  readonly idOf: (call: number, given: unknown) => string;
}

interface OpenCall {
  readonly index: number;
  readonly givenId: string | undefined;
}

export class ToolCallDeltas {
  readonly #options: ToolCallDeltasOptions;
  /** By the number that the node gives. */
  readonly #open = new Map<number, OpenCall>();
  #opened = 0;

  constructor(options: ToolCallDeltasOptions) {
    this.#options = options;
  }

  /** `calls`: the member `tool_calls` of a delta, whatever it is. Throws NodeFailure. */
  read(calls: unknown): readonly ToolCallDelta[] {
    if (!Array.isArray(calls)) return [];
    const deltas: ToolCallDelta[] = [];
    for (const call of calls) {
      const delta = this.#readCall(call);
      if (delta.opened === undefined && delta.arguments === '') continue;
      if (delta.index === 0 || !this.#options.firstOnly) deltas.push(delta);
    }
    return deltas;
  }

  #readCall(call: unknown): ToolCallDelta {
    const number = integer(member(call, 'index'));
    if (number === undefined) throw malformed('a tool call has no index');
    const called = member(call, 'function');
    const id = text(member(call, 'id'));
    const name = text(member(called, 'name'));
    const added = optionalText(member(called, 'arguments')) ?? '';

    const known = this.#open.get(number);
    const isNew = known === undefined || (id !== undefined && name !== undefined && id !== known.givenId);
    if (!isNew) return { index: known.index, arguments: added };

    if (name === undefined) throw malformed('a tool call has no name');
    if (this.#opened === toolCallsMax) throw tooManyCalls();
    const index = this.#opened;
    this.#opened += 1;
    this.#open.set(number, { index, givenId: id });
    return { index, opened: { id: this.#options.idOf(index, id), name }, arguments: added };
  }
}
