/** Ends a WebSocket whose peer does not answer pings. */
import type { WebSocket } from 'ws';

const pingEveryMsDefault = 15_000;
/** Pings in a row without an answer; counted, not timed, because this process may have been suspended. */
const unansweredMax = 3;

export function endWhenSilent(socket: WebSocket, pingEveryMs = pingEveryMsDefault): void {
  let unanswered = 0;
  const onFrame = (): void => {
    unanswered = 0;
  };
  socket.on('pong', onFrame).on('ping', onFrame);
  const timer = setInterval(() => {
    if (unanswered++ < unansweredMax) socket.ping();
    else socket.terminate();
  }, pingEveryMs);
  socket.on('close', () => clearInterval(timer));
}
