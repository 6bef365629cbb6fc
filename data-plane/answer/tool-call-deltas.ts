/**
 * The tool calls of one streamed choice: each is opened once, with id and name, and then only its arguments grow.
 * Engines repeat ids and names as null or again, and some number every call 0; here each call has a place of its own.
 */

import { integer, member, text } from '../core/untrusted.ts';
import {
  type FinishReason,
  malformed,
  noArguments,
  optionalText,
  toolCallsMax,
  tooManyCalls,
} from './chat-parts.ts';
import { JsonNesting } from './json-nesting.ts';

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
  readonly nesting: JsonNesting;
}

export class ToolCallDeltas {
  readonly #options: ToolCallDeltasOptions;
  /** By the number that the node gives. */
  readonly #open = new Map<number, OpenCall>();
  readonly #calls: OpenCall[] = [];

  constructor(options: ToolCallDeltasOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#calls.length;
  }

  /** `calls`: the member `tool_calls` of a delta, whatever it is. Throws NodeFailure. */
  read(calls: unknown): ToolCallDelta[] {
    if (!Array.isArray(calls)) return [];
    const deltas: ToolCallDelta[] = [];
    for (const call of calls) {
      const delta = this.#readCall(call);
      if (delta.opened === undefined && delta.arguments === '') continue;
      if (delta.index === 0 || !this.#options.firstOnly) deltas.push(delta);
    }
    return deltas;
  }

  /** Arguments of the calls that came without any. A call that the limit of tokens cut stays so: clients run what is whole. */
  completed(finish: FinishReason | undefined): ToolCallDelta[] {
    if (finish === undefined || finish === 'length') return [];
    const shown = this.#options.firstOnly ? this.#calls.slice(0, 1) : this.#calls;
    const empty = shown.filter(({ nesting }) => !nesting.hasBegun);
    return empty.map(({ index, nesting }) => {
      nesting.add(noArguments);
      return { index, arguments: noArguments };
    });
  }

  #readCall(call: unknown): ToolCallDelta {
    const number = integer(member(call, 'index'));
    if (number === undefined) throw malformed('a tool call has no index');
    const called = member(call, 'function');
    const id = text(member(call, 'id'));
    const name = text(member(called, 'name'));
    const added = optionalText(member(called, 'arguments')) ?? '';

    const known = this.#open.get(number);
    if (known !== undefined && !isAnother(known, id, name, added)) {
      known.nesting.add(added);
      return { index: known.index, arguments: added };
    }

    if (name === undefined) throw malformed('a tool call has no name');
    const index = this.#calls.length;
    if (index === toolCallsMax) throw tooManyCalls();
    const next = { index, givenId: id, nesting: new JsonNesting() };
    next.nesting.add(added);
    this.#calls.push(next);
    this.#open.set(number, next);
    return { index, opened: { id: this.#options.idOf(index, id), name }, arguments: added };
  }
}

/** Whether a named delta opens another call under a number in use. Without ids, only a second object shows that. */
function isAnother(
  known: OpenCall,
  id: string | undefined,
  name: string | undefined,
  added: string,
): boolean {
  if (name === undefined) return false;
  if (id !== undefined) return id !== known.givenId;
  return known.nesting.isClosed && added.trimStart().startsWith('{');
}
