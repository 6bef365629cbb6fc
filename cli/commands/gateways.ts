/** `headgate gateway` shows the position of every gateway and whether the gateways' states agree. */
import { join, resolve } from 'node:path';
import type { GatewayStatus } from '../../schemas/admin/admin.ts';
import { shownColumns } from '../../schemas/records/gateway-members.ts';
import type { Resource } from '../admin-client/answers.ts';
import { CliError, Exit, usageError } from '../terminal/errors.ts';
import { column, longColumn, type Severity, type View } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';
import { readContext } from '../terminal/settings.ts';
import { listVerb, type NounRow, runVerb, showVerb } from './operation-verbs.ts';

const severities: Readonly<Record<GatewayStatus['state'], Severity>> = {
  SYNCED: 'good',
  LAGGING: 'warn',
  STALE: 'bad',
  DIVERGED: 'bad',
};
const secondsText = (seconds: number | null | undefined) =>
  typeof seconds === 'number' ? `${seconds.toFixed(1)}s` : undefined;

const gatewayView: View<GatewayStatus> = {
  columns: [
    column('NAME', 'name'),
    { ...column('STATE', 'state'), severity: ({ state }) => severities[state] },
    column('APPLIED', 'applied'),
    column('LAG-EV', 'lagEvents'),
    { heading: 'FRESH', cell: ({ freshSeconds }) => secondsText(freshSeconds) },
    column('DIGEST', 'digest'),
    { heading: 'SEEN', cell: ({ seenSeconds }) => secondsText(seenSeconds) },
    ...shownColumns.map(({ heading, member, isLong, tone }) => ({
      ...(isLong ? longColumn : column)<GatewayStatus>(heading, member),
      severity: ({ [member]: value }: GatewayStatus) => (value === undefined ? undefined : tone(value)),
    })),
    longColumn('CONFLICT', 'conflict'),
    { heading: 'FORGOTTEN', cell: ({ forgotten }) => (forgotten ? 'yes' : undefined) },
  ],
  name: ({ name }) => name,
};
const verificationView: View = {
  columns: [
    column('NAME', 'name'),
    {
      heading: 'VERDICT',
      cell: (resource) => (resource['verified'] === true ? 'verified' : 'DIFFERS'),
      severity: (resource) => (resource['verified'] === true ? 'good' : 'bad'),
    },
    column('POSITION', 'position'),
    column('DIGEST', 'digest'),
    column('ROWS', 'rows'),
    longColumn('DIFFERING', 'differing'),
  ],
  name: (resource) => resource['name'],
};

export const gateways: NounRow = {
  noun: ['gateway', 'gateways', 'healthy', 'headgate gateway list'],
  verbs: [
    listVerb('gateway.list', {
      verb: ['list', 'list gateways with their position and freshness', 'headgate gateway list'],
      view: gatewayView,
    }),
    showVerb('gateway.get', {
      verb: ['get <name>', 'show one gateway', 'headgate gateway get gw-1'],
      view: gatewayView,
    }),
    runVerb('gateway.forget', {
      verb: [
        'forget <name>',
        'remove a gateway that no longer exists; a gateway that still runs stays in the list, and revocations wait for it',
        'headgate gateway forget gw-1 --yes',
      ],
      confirm: ({ name }) => `forget the gateway ${name}`,
      print: async (session, answer) => {
        const { name, reporting = 0 } = answer;
        const done = session.globals.dryRun ? 'would be forgotten' : 'forgotten';
        await session.out.lines([`gateway ${name} ${done}`], answer, name);
        if (reporting > 0)
          session.note(
            `${name} reported in the last ten seconds: if it still runs it stays in the list and revocations wait for it, so stop it first`,
          );
      },
    }),
    (gateway) =>
      gateway
        .verb(
          'verify [name]',
          'check the state file of a gateway on this machine against its digests',
          'headgate gateway verify',
          'headgate gateway verify gw-1 --data /var/lib/headgate/gw-1',
        )
        .option(
          '--data <folder>',
          'data folder of the gateway; by default the folders that the context file names',
        )
        .action<{ readonly data?: string }>(verifyGateways),
  ],
};

async function verifyGateways(
  session: Session,
  { data }: { readonly data?: string },
  name?: string,
): Promise<void> {
  const folders = findFolders(session, name, data);
  const { inspectState } = await import('./state-file.ts');
  const verifications: Resource[] = folders.map(({ name: gateway, folder }) => ({
    name: gateway,
    ...inspectState(join(folder, 'state.db')),
  }));
  const [only] = verifications;
  if (only && (name !== undefined || data !== undefined) && session.out.format !== 'table')
    await session.out.resource(only, verificationView);
  else await session.out.list({ items: verifications }, verificationView);
  if (verifications.every(({ verified }) => verified === true)) return;
  session.note(
    'a running gateway detects this and rebuilds its state; a stopped one does so at its next start',
  );
  throw new Exit(1);
}

function findFolders(session: Session, name: string | undefined, data: string | undefined) {
  if (data !== undefined) return [{ name: name ?? data, folder: resolve(session.io.cwd, data) }];
  const known = readContext(session.io).gateways;
  const wanted = known.filter((gateway) => name === undefined || gateway.name === name);
  if (wanted.length > 0) return wanted.map((gateway) => ({ name: gateway.name, folder: gateway.dataDir }));
  if (name === undefined || known.length === 0)
    throw usageError(
      'the context file does not name a gateway of this machine',
      'headgate gateway verify --data FOLDER',
    );
  throw new CliError(`the context file has no gateway ${name}`, {
    type: 'NotFound',
    next: 'headgate gateway verify --data FOLDER',
  });
}
