/**
 * Attacks playgrounds as many visitors: `node attack-visitors.js NET AT-ONCE URL…` prints how its calls ended; it sends from
 * 127.NET.0.0/16, so many at once. From each address ten
 * attempts at a new cookie; each cookie then asks for a turn of one of three kinds.
 */
import { request } from 'node:http';

const addresses = 1000;
const attemptsOfAddress = 10;
const [net = '1', attackers = '50', ...plays] = process.argv.slice(2);

interface Answer {
  /** 0: none. */
  readonly status: number;
  readonly cookie?: string | undefined;
  readonly text: string;
}
interface Sent {
  readonly localAddress: string;
  readonly cookie?: string;
  readonly body: string;
  readonly isStopped?: boolean;
}

function send(url: URL, { localAddress, cookie, body, isStopped = false }: Sent): Promise<Answer> {
  return new Promise((resolve) => {
    const none: Answer = { status: 0, text: '' };
    const headers = {
      ...{ 'content-type': 'application/json', origin: url.origin },
      ...(cookie !== undefined && { cookie: `__Host-headgate-visitor-${url.port}=${cookie}` }),
    };
    const call = request(url, { method: 'POST', agent: false, headers, localAddress }, (response) => {
      const { statusCode: status = 0 } = response;
      let text = '';
      response.on('data', (chunk: Buffer) => {
        text += chunk.toString();
        if (!isStopped || status !== 200) return;
        call.destroy();
        resolve({ status, text });
      });
      const set = response.headers['set-cookie']?.[0]?.split(';')[0]?.split('=').slice(1).join('=');
      response.on('end', () => resolve({ status, cookie: set, text }));
      response.on('error', () => resolve(none));
    });
    call.on('error', () => resolve(none));
    call.end(body);
  });
}

const chat = (content: string): string =>
  JSON.stringify({ model: 'echo-small', stream: true, messages: [{ role: 'user', content }] });
const turns = [
  { kind: 'stopped', body: chat('say 50 words'), isStopped: true },
  { kind: 'large', body: chat('x '.repeat(7950)) },
  { kind: 'plain', body: chat('say 3 words') },
];

const outcomes: Record<string, number> = {};
const note = (what: string): void => {
  outcomes[what] = (outcomes[what] ?? 0) + 1;
};

async function attackFrom(n: number): Promise<void> {
  const localAddress = `127.${net}.${n >> 8}.${n & 255}`;
  const play = plays[n % plays.length];
  for (let attempt = 0; attempt < attemptsOfAddress; attempt++) {
    const begun = await send(new URL('/api/visitor', play), { localAddress, body: '{}' });
    if (begun.cookie === undefined) {
      note(begun.text.includes('"work"') ? 'work asked' : `no cookie ${begun.status}`);
      continue;
    }
    note('cookie');
    const turn = turns[attempt % turns.length];
    if (turn === undefined) continue;
    const { status, text } = await send(new URL('/api/chat', play), {
      ...{ localAddress, cookie: begun.cookie, body: turn.body },
      ...(turn.isStopped && { isStopped: true }),
    });
    note(`${turn.kind} ${status} ${/"type":"(\w+)"/.exec(text)?.[1] ?? ''}`.trim());
  }
}

const beganMs = performance.now();
let next = 0;
const attacker = async (): Promise<void> => {
  while (next < addresses) await attackFrom(next++);
};
await Promise.all(Array.from({ length: Number(attackers) }, attacker));
outcomes['seconds'] = Math.round((performance.now() - beganMs) / 100) / 10;
process.stdout.write(JSON.stringify(outcomes));
