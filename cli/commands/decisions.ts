/** `headgate decisions export` prints recorded decisions as lines for `replay decide` and `explain --request -`. */
import type { Command } from 'commander';
import { CliError } from '../terminal/errors.ts';
import { type Io, writeAll } from '../terminal/io.ts';
import { parseSinceMs } from '../terminal/options.ts';
import type { Session } from '../terminal/session.ts';
import { noun } from '../terminal/verbs.ts';

interface Options {
  /** Time in ms since 1970 from which decisions are exported. */
  readonly since?: number;
  readonly gateway?: string;
}

const idleMs = 120_000;

export function registerDecisions(program: Command, io: Io): void {
  noun(program, io, 'decisions', 'recorded decisions of the gateways', 'past', 'headgate decisions export')
    .verb(
      'export',
      'write recorded decisions, one per line; exit 5 if a gateway did not respond',
      'headgate decisions export --since 1h > decisions.jsonl',
    )
    .option(
      '--since <time>',
      'start at this time (RFC 3339), or this long ago, such as 30m; 1h by default',
      parseSinceMs,
    )
    .option('--gateway <name>', 'only decisions of this gateway')
    .action<Options>(exportDecisions);
}

async function exportDecisions(session: Session, { since, gateway }: Options): Promise<void> {
  const api = await session.api();
  const { pieces } = await api.open(
    'decision.export',
    { since: since ?? parseSinceMs('1h'), gateway },
    idleMs,
  );
  let rest = '';
  const decoder = new TextDecoder();
  for await (const piece of pieces) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    const decisions = lines.filter((line) => !isEnd(line));
    if (decisions.length > 0) await writeAll(session.io.stdout, `${decisions.join('\n')}\n`);
    const end = lines.find(isEnd);
    if (end !== undefined) return finish(JSON.parse(end) as { unanswered: string[] });
  }
  throw new CliError('the export ended early', { type: 'ConnectionLost', next: 'try again' });
}

/** Whether this is the last line of the response, which names the gateways that did not respond. */
function isEnd(line: string): boolean {
  return line.startsWith('{"unanswered":');
}

function finish({ unanswered }: { readonly unanswered: readonly string[] }): void {
  if (unanswered.length === 0) return;
  throw new CliError(`not all gateways answered: ${unanswered.join(', ')}`, {
    type: 'Incomplete',
    why: 'their decisions are missing from the export',
    next: 'headgate gateway list',
  });
}
