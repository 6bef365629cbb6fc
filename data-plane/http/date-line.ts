/** Date field of responses (RFC 9110, 6.6.1). It is formatted at most once per second, and only if a response needs it. */
import { wallClockMs } from '../../shared/runtime/clock.ts';

let line = '';

export function dateLine(): string {
  if (line === '') {
    const now = new Date(wallClockMs());
    line = `date: ${now.toUTCString()}\r\n`;
    setTimeout(forget, 1000 - now.getMilliseconds()).unref();
  }
  return line;
}

function forget(): void {
  line = '';
}
