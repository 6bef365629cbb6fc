/** `headgate limits`: what organisations and visitors use of their limits now, over all gateways. */
import type { Command } from 'commander';
import { usageError } from '../terminal/errors.ts';
import type { Io } from '../terminal/io.ts';
import { count } from '../terminal/options.ts';
import { column, type View } from '../terminal/render.ts';
import { route } from '../terminal/route.ts';
import { noun } from '../terminal/verbs.ts';
import { type ListOptions, showList } from './answers.ts';

const limitView: View = {
  columns: [
    column('ORGANISATION', 'organisation'),
    column('TIER', 'tier'),
    column('REQUESTS', 'requests'),
    column('CONCURRENCY', 'concurrency'),
    column('ALLOWANCE TOKENS', 'tokens'),
  ],
  name: (resource) => resource['organisation'],
};

interface ShowOptions {
  readonly org?: string;
  readonly visitors?: true;
}

export function registerLimits(program: Command, io: Io): void {
  const limits = noun(
    program,
    io,
    'limits',
    'what is used of limits now',
    'healthy',
    'headgate limits show --org acme',
  );
  limits
    .verb(
      'show',
      'show what one organisation uses of its limits, by gateway',
      'headgate limits show --org acme',
    )
    .option('--org <id>', 'the organisation')
    .option('--visitors', 'all visitors together')
    .action<ShowOptions>(async (session, { org, visitors }) => {
      if ((org === undefined) === (visitors === undefined))
        throw usageError('either --org or --visitors is given', 'headgate help limits show');
      const path = org === undefined ? '/limits/visitors' : route`/organisations/${org}/limits`;
      await session.out.resource(await (await session.api()).get(path), limitView);
    });
  limits
    .verb('list', 'list the use of all limits, who is nearest first', 'headgate limits list --limit 10')
    .option('--limit <number>', 'so many at most', count)
    .action<ListOptions>((session, { limit }) => showList(session, '/limits', limitView, { limit }));
}
