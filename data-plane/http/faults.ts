/**
 * Reasons to reject a message, each with the HTTP rule that the message breaks or that this reader applies more strictly.
 * Discretionary input (RFC 9112) is rejected, because two readers on the same path may interpret it differently.
 */
export const faults = {
  method: 'RFC 9112, 3.1: a method that is not known, or a request line that does not begin with one',
  target: 'RFC 9112, 3.2: a target that is empty, or has other bytes than visible ASCII',
  'no path': 'RFC 9112, 3.2.2: the absolute form, an authority or an asterisk; only a proxy needs them',
  version: 'RFC 9112, 2.3: another one than HTTP/1.1 and HTTP/1.0',
  host: 'RFC 9112, 3.2: no Host in HTTP/1.1, or more than one',
  expectation: 'RFC 9110, 10.1.1: another one than "100-continue", or more than one',
  status: 'RFC 9112, 4: three digits, 100 or more, between two spaces',
  'bare line feed': 'RFC 9112, 2.2: a line that ends without a carriage return',
  'bare carriage return': 'RFC 9112, 2.2: a carriage return that ends no line',
  'control byte': 'RFC 9110, 5.5: a byte that no value of a field may have',
  'field name': 'RFC 9112, 5.1: a name that is no token, or a line without a colon',
  'space before a colon': 'RFC 9112, 5.1: a reader that passed it over would see another field',
  'folded line': 'RFC 9112, 5.2: a line that begins with white space',
  'large head': 'RFC 9110, 5.4: more bytes than a head or trailers may have',
  length: 'RFC 9112, 6.3: a Content-Length that is no plain number, or more than one',
  'length and chunks': 'RFC 9112, 6.1: Content-Length with Transfer-Encoding',
  coding: 'RFC 9112, 6.1: a Transfer-Encoding but "chunked", more than one, or one in HTTP/1.0',
  'chunk size': 'RFC 9112, 7.1: a size that is not one to eight hexadecimal digits',
  'chunk extension':
    'RFC 9112, 7.1.1: an extension that is no name, or no name and token; or too many bytes of them',
  'chunk end': 'RFC 9112, 7.1: a chunk with more bytes than its size',
  trailer: 'RFC 9110, 6.5.1: a field of framing or routing in the trailers',
  upgrade: 'RFC 9110, 15.2.2: another protocol, for which nobody asked',
  'early answer': 'RFC 9110, 15.2: an answer before the answer that ends its connection, or is of HTTP/1.0',
  'cut short': 'RFC 9112, 8: the connection ended within a message',
} as const;

export type FaultName = keyof typeof faults;
