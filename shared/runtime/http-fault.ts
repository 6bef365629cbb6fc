/** Detects ambiguous HTTP requests, which every listener refuses before doing anything else (RFC 9112, 3.2). */
import type { IncomingHttpHeaders } from 'node:http';

/** Parts of a request's head that are checked. */
interface FaultyHead {
  readonly url?: string | undefined;
  readonly httpVersion: string;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
}

/** Describes the fault of a request's head in a sentence. Returns undefined if there is none. */
export function httpFault(request: FaultyHead): string | undefined {
  if (!request.url?.startsWith('/')) return 'The request target must be a path.';
  const { rawHeaders } = request;
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) if (isHost(rawHeaders[i] as string)) hosts++;
  if (hosts > 1) return 'The request has more than one Host header.';
  const version = request.httpVersion;
  if (version !== '1.1' && version !== '1.0') return 'Use HTTP/1.1.';
  if (version === '1.1' && hosts === 0) return 'The request has no Host header.';
  // RFC 9112 (6.1) recommends 501 for an unknown transfer coding. No refusal has this status, so it gets a 400.
  const coding = request.headers['transfer-encoding'];
  if (coding !== undefined && (coding.trim().toLowerCase() !== 'chunked' || version === '1.0'))
    return 'The Transfer-Encoding header must be "chunked", in HTTP/1.1.';
  const expect = request.headers.expect;
  if (expect !== undefined && expect.toLowerCase() !== '100-continue')
    return 'The Expect header must be "100-continue".';
  return undefined;
}

function isHost(name: string): boolean {
  return name.length === 4 && name.toLowerCase() === 'host';
}
