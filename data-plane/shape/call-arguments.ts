/**
 * Checks the arguments of earlier calls. Engines parse them for the template of the prompt, and answer with a fault of their own
 * if that fails, so a text that is not JSON is refused before a node is asked.
 */
import { scanJson } from '../../shared/runtime/json-scan.ts';
import { jsonDepthMax, jsonNamesMax, jsonValuesMax } from '../core/json-text.ts';
import { shapeRefusal } from './validate.ts';

export class CallArguments {
  /** What the calls of one request may add up to. Parsing costs by names and values, and the body counts this text as one. */
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
