/**
 * Checks the arguments of earlier tool calls. Text that is not JSON is refused before a node is asked, because engines parse
 * it for the prompt's template and then answer with an error.
 */
import { scanJson } from '../../../shared/runtime/json-scan.ts';
import { jsonDepthMax, jsonNamesMax, jsonValuesMax } from './json-text.ts';
import { shapeRefusal } from './validate.ts';

export class CallArguments {
  /** Remaining names and values for one request's calls. The body's own bounds count each text as a single value. */
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
