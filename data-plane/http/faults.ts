/**
 * Reasons for rejecting an HTTP message. Each text names the rule that the message breaks, or that this reader applies more
 * strictly than the standard. Input that RFC 9112 allows a reader to accept or reject is rejected, because two readers on the
 * same path may understand it differently.
 */
export const faults = {
  method: 'RFC 9112, 3.1: an unknown method, or a request line that does not begin with a method',
  target: 'RFC 9112, 3.2: an empty target, or one with bytes other than visible ASCII',
  'no path': 'RFC 9112, 3.2.2: the absolute form, an authority or an asterisk, which only a proxy needs',
  version: 'RFC 9112, 2.3: a version other than HTTP/1.1 and HTTP/1.0',
  host: 'RFC 9112, 3.2: no Host in HTTP/1.1, or more than one',
  expectation: 'RFC 9110, 10.1.1: an expectation other than "100-continue", or more than one',
  status: 'RFC 9112, 4: a status that is not three digits, at least 100, between two spaces',
  'bare line feed': 'RFC 9112, 2.2: a line that ends without a carriage return',
  'bare carriage return': 'RFC 9112, 2.2: a carriage return that does not end a line',
  'control byte': 'RFC 9110, 5.5: a byte that a field value may not contain',
  'field name': 'RFC 9112, 5.1: a name that is not a token, or a line without a colon',
  'space before a colon': 'RFC 9112, 5.1: a reader that skipped the space would see another field',
  'folded line': 'RFC 9112, 5.2: a line that begins with white space',
  'large head': 'RFC 9110, 5.4: a head or trailers with too many bytes',
  length: 'RFC 9112, 6.3: a Content-Length that is not a plain number, or more than one',
  'length and chunks': 'RFC 9112, 6.1: Content-Length with Transfer-Encoding',
  coding: 'RFC 9112, 6.1: a Transfer-Encoding other than "chunked", more than one, or one in HTTP/1.0',
  'chunk size': 'RFC 9112, 7.1: a size that is not one to eight hexadecimal digits',
  'chunk extension':
    'RFC 9112, 7.1.1: an extension that is neither a name nor a name and token, or too many bytes',
  'chunk end': 'RFC 9112, 7.1: a chunk with more bytes than its size',
  trailer: 'RFC 9110, 6.5.1: a framing or routing field in the trailers',
  upgrade: 'RFC 9110, 15.2.2: a switch to a protocol that was not requested',
  'early answer': 'RFC 9110, 15.2: an interim response that closes the connection or uses HTTP/1.0',
  'cut short': 'RFC 9112, 8: the connection ended within a message',
} as const;

export type FaultName = keyof typeof faults;
