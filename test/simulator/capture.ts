/**
 * Reads recorded answers of real engines: the bytes after `=== RESPONSE`, and whether the engine ended the connection. If a
 * recording was shortened, damaged events are left out and chunks are framed again. A shortened body that is not an event
 * stream cannot be replayed.
 */

export interface Capture {
  /** Status line, headers and body exactly as sent, one character per byte. */
  readonly bytes: string;
  /** True if the connection stayed open until the client left. */
  readonly held: boolean;
}

const cutMark = /\n\[\.\.\. \d+ bytes cut \.\.\.\]\n/;

/** Reads a recording, one character per byte (latin1). Throws an error if it has no answer or cannot be replayed. */
export function readCapture(text: string): Capture {
  const recorded = /^=== RESPONSE\n([\s\S]*?)\n=== END ([^;\n]*)/m.exec(text);
  const bytes = recorded?.[1] ?? '';
  if (!bytes.startsWith('HTTP/1.')) throw new Error('no answer is recorded in it');
  return { bytes: cutMark.test(bytes) ? reframed(bytes) : bytes, held: recorded?.[2] !== 'eof' };
}

/** Rebuilds a shortened event stream without the events that were damaged by the cut. */
function reframed(bytes: string): string {
  const headEnd = bytes.indexOf('\r\n\r\n') + 4;
  const head = bytes.slice(0, headEnd);
  if (!/^transfer-encoding: chunked\r?$/im.test(head) || !/^content-type: text\/event-stream/im.test(head))
    throw new Error('its body was shortened and is no event stream');
  const body = bytes.slice(headEnd);
  const ended = body.endsWith('\r\n0\r\n\r\n');
  // Lines inside events end with LF alone, so a CRLF can only belong to the chunk framing.
  const events = body.replaceAll(/(?:^|\r\n)[0-9a-f]+\r\n/gi, '').replace(/\r\n$/, '');
  const whole = events
    .split(cutMark)
    .map((piece, index, all) => {
      const from = index === 0 ? 0 : piece.indexOf('\n\n') + 2;
      return piece.slice(from, index === all.length - 1 ? undefined : piece.lastIndexOf('\n\n') + 2);
    })
    .join('');
  const chunks = whole.match(/[\s\S]*?\n\n/g) ?? [];
  const framed = chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('');
  return `${head}${framed}${ended ? '0\r\n\r\n' : ''}`;
}
