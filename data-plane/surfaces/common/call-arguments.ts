/**
 * Checks the arguments of earlier tool calls in a request. Text that is not JSON is refused before it reaches a node, because
 * engines parse the arguments for the chat template and would answer with an error.
 */
import { scanJson } from '../../../shared/runtime/json-scan.ts';
import { jsonDepthMax, jsonNamesMax, jsonValuesMax } from './json-text.ts';
import { shapeRefusal } from './validate.ts';

export class CallArguments {
  /** Number of names and values that arguments may still contain. The body's own bounds count each call's as one value. */
  #names = jsonNamesMax;
  #values = jsonValuesMax;

  /** Throws `UnsupportedShapeError` if the text is not JSON or exceeds the bounds. */
  check(text: string, path: readonly PropertyKey[]): void {
    const counts = scanJson(text, { depth: jsonDepthMax, names: this.#names, values: this.#values });
    if (counts.exceeded !== undefined) throw shapeRefusal(path, 'has too many names, values or levels');
    this.#names -= counts.names;
    this.#values -= counts.values;
    if (!isJson(text)) throw shapeRefusal(path, 'must be a JSON object');
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
