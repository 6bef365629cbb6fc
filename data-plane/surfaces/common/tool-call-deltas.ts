/**
 * Reads the tool calls of one streamed choice, whatever the engine's format. Each call is opened once, with id, name and a
 * new index, and after that only its arguments grow. Engines may repeat ids and names, send null for them, number every call
 * 0, or leave the number out. If a part could belong to two calls, or if a name arrives in parts, the response fails.
 */

import {
  type FinishReason,
  malformedAnswer,
  noArguments,
  optionalText,
  readToolCalls,
  toolCallsMax,
  tooManyCalls,
} from './chat-parts.ts';
import { JsonNesting } from './json-nesting.ts';
import { integer, member, text } from './untrusted.ts';

export interface ToolCallDelta {
  readonly index: number;
  /** Id and name of the call, which only the call's first delta contains. */
  readonly opened?: { readonly id: string; readonly name: string };
  readonly arguments: string;
}

export interface ToolCallDeltasOptions {
  /** Whether only the first call is passed on. Further calls are read and dropped. */
  readonly firstOnly: boolean;
  /** Returns the call's id for the client. `call` is the index of the call, and `given` the engine's own id. */
  readonly idOf: (call: number, given: unknown) => string;
}

interface OpenCall {
  readonly index: number;
  readonly givenId: string | undefined;
  readonly name: string;
  readonly nesting: JsonNesting;
}

export class ToolCallDeltas {
  readonly #options: ToolCallDeltasOptions;
  /** Calls that have been opened, by the number that the node uses for each. */
  readonly #open = new Map<number, OpenCall>();
  readonly #calls: OpenCall[] = [];
  /** Ids of calls whose names have not arrived yet, by the number that the node uses for them. */
  readonly #unnamed = new Map<number, string>();

  constructor(options: ToolCallDeltasOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#calls.length;
  }

  /** Reads the tool calls in a choice's delta. Throws `NodeFailure` if they are malformed. */
  read(delta: unknown): ToolCallDelta[] {
    const deltas: ToolCallDelta[] = [];
    for (const [at, call] of readToolCalls(delta).entries()) {
      const read = this.#readCall(call, at === 0);
      if (read === undefined || (read.opened === undefined && read.arguments === '')) continue;
      if (read.index === 0 || !this.#options.firstOnly) deltas.push(read);
    }
    return deltas;
  }

  /** Returns `{}` for each call without arguments, but none after the token limit, because clients run complete calls. */
  completed(finish: FinishReason | undefined): ToolCallDelta[] {
    if (finish === undefined || finish === 'length') return [];
    if (this.#unnamed.size > 0) throw namelessCall();
    const shown = this.#options.firstOnly ? this.#calls.slice(0, 1) : this.#calls;
    const empty = shown.filter(({ nesting }) => !nesting.hasBegun);
    return empty.map(({ index, nesting }) => {
      nesting.add(noArguments);
      return { index, arguments: noArguments };
    });
  }

  #readCall(call: object, isFirst: boolean): ToolCallDelta | undefined {
    const number = callNumber(call);
    const called = member(call, 'function');
    const id = text(member(call, 'id'));
    const name = text(member(called, 'name'));
    const added = optionalText(member(called, 'arguments')) ?? '';

    const known = number === undefined ? this.#lastOpened(id, name, isFirst) : this.#open.get(number);
    if (known !== undefined && !isAnother(known, id, name, added)) {
      if (name !== undefined && name !== known.name)
        throw malformedAnswer('the name of a tool call changes or comes in parts');
      known.nesting.add(added);
      return { index: known.index, arguments: added };
    }

    if (name === undefined) {
      if (added !== '') throw namelessCall();
      if (id !== undefined) this.#unnamed.set(number ?? this.#calls.length, id);
      return undefined;
    }
    return this.#openCall(number, id, name, added);
  }

  #openCall(number: number | undefined, id: string | undefined, name: string, added: string): ToolCallDelta {
    const index = this.#calls.length;
    if (index === toolCallsMax) throw tooManyCalls();
    const key = number ?? index;
    const next = { index, givenId: id ?? this.#unnamed.get(key), name, nesting: new JsonNesting() };
    this.#unnamed.delete(key);
    next.nesting.add(added);
    this.#calls.push(next);
    if (number !== undefined) this.#open.set(number, next);
    return { index, opened: { id: this.#options.idOf(index, next.givenId), name }, arguments: added };
  }

  /**
   * Finds the call to which a part without a number belongs, or undefined if the part opens a call. A part without an id
   * belongs to the last call, because engines that do not number calls send one call after the other.
   */
  #lastOpened(id: string | undefined, name: string | undefined, isFirst: boolean): OpenCall | undefined {
    const same = id === undefined ? undefined : this.#calls.find(({ givenId }) => givenId === id);
    if (same !== undefined) return same;
    // A name in a later entry of the list opens another call.
    if (name !== undefined && !isFirst) return undefined;
    if (name === undefined && this.#open.size > 1)
      throw malformedAnswer('a part of a tool call has no index');
    return this.#calls.at(-1);
  }
}

/** The node's number for a call, or undefined if the engine does not number calls. */
function callNumber(call: object): number | undefined {
  const given = member(call, 'index') ?? undefined;
  const number = integer(given);
  if (given !== number) throw malformedAnswer('the index of a tool call is not a number');
  return number;
}

function namelessCall(): Error {
  return malformedAnswer('a tool call has no name');
}

/** Whether a named part opens another call under the same number. Without ids, only if the earlier call is complete. */
function isAnother(
  known: OpenCall,
  id: string | undefined,
  name: string | undefined,
  added: string,
): boolean {
  if (name === undefined) return false;
  if (id !== undefined) return id !== known.givenId;
  return known.nesting.isClosed && (name !== known.name || added.trimStart().startsWith('{'));
}
