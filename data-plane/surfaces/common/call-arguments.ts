/**
 * Checks the arguments of earlier tool calls. Engines parse them for the prompt's template, and answer with an error of their own
 * if that fails. So a text that is not JSON is refused before a node is asked.
 */
import { scanJson } from '../../../shared/runtime/json-scan.ts';
import { jsonDepthMax, jsonNamesMax, jsonValuesMax } from './json-text.ts';
import { shapeRefusal } from './validate.ts';

export class CallArguments {
  /**
   * Names and values that the calls of one request may still add. The cost of parsing depends on both, and for the body's own bounds
   * such a text is a single value.
   */
  #names = jsonNamesMax;
  #values = jsonValuesMax;

  /** Throws UnsupportedShapeError. */
  check(text: string, path: readonly PropertyKey[]): void {
    const counts = scanJson(text, { depth: jsonDepthMax, names: this.#names, values: this.#values });
    if (counts.exceeded !== undefined)
      throw shapeRefusal(path, 'has more names, values or levels than are read');
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
