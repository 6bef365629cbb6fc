/** `headgate key`: create, list and revoke keys, and confirm that a revocation is in force. */
import type { Command } from 'commander';
import type { Query } from '../../admin-client/admin-client.ts';
import { AdminError } from '../../admin-client/admin-error.ts';
import type { Resource } from '../../admin-client/answers.ts';
import { expiryChoiceSchema, keyStateSchema } from '../../schemas/names.ts';
import { confirmDestructive } from '../terminal/confirm.ts';
import type { Io } from '../terminal/io.ts';
import { durationSeconds } from '../terminal/options.ts';
import { ageColumn, column, longColumn, type View } from '../terminal/render.ts';
import { route } from '../terminal/route.ts';
import type { Session } from '../terminal/session.ts';
import { ageText } from '../terminal/text.ts';
import { type Noun, noun } from '../terminal/verbs.ts';
import { outcome, type PageOptions, pageQuery, showList, withPages } from './answers.ts';
import { waitUntilConfirmed } from './confirmations.ts';
import { createSecret, openSecretOutput, showSecret } from './secrets.ts';

const keyView: View = {
  columns: [
    column('ID', 'id'),
    column('ORGANISATION', 'organisation'),
    longColumn('NAME', 'name'),
    {
      ...column('STATE', 'state'),
      severity: (resource) => (resource['state'] === 'active' ? 'good' : 'warn'),
    },
    ageColumn('EXPIRES', 'expiresAt', 'never'),
    ageColumn('AGE', 'createdAt'),
    longColumn('BY', 'createdBy'),
    { heading: 'LAST-USED', cell: lastUsedText },
    column('REQUESTS-24H', 'requestsOfDay'),
  ],
  name: (resource) => resource['id'],
};

interface Use {
  readonly lastUsedAt: string | null;
  readonly requestsOfDay: number;
}
type Uses = ReadonlyMap<unknown, Use>;

/** What the console says of a key, too. Undefined for the past, and where usage cannot be read now: the keys can. */
async function usesOf(session: Session, query: Query): Promise<Uses | undefined> {
  if (session.globals.at !== undefined || session.out.format === 'name') return undefined;
  try {
    const { items } = await (await session.api()).get('/usage/keys', query);
    return new Map(items.map(({ key, lastUsedAt, requestsOfDay }) => [key, { lastUsedAt, requestsOfDay }]));
  } catch (error) {
    if (!(error instanceof AdminError) || error.type === 'Interrupted') throw error;
    session.note(`when keys were last used is not known: ${error.message}`);
    return undefined;
  }
}

function useIn(uses: Uses | undefined, { id }: Resource): Use | undefined {
  return uses && (uses.get(id) ?? { lastUsedAt: null, requestsOfDay: 0 });
}

function lastUsedText({ lastUsedAt }: Resource): string {
  if (lastUsedAt === undefined) return '-';
  return lastUsedAt === null ? 'never' : ageText(lastUsedAt);
}

interface CreateOptions {
  readonly org: string;
  readonly name: string;
  readonly expires: string;
  readonly out?: string;
}

export function registerKeys(program: Command, io: Io): void {
  const key = noun(program, io, 'key', 'API keys', 'deployed', 'headgate key list --org acme');
  registerCreate(key);
  withPages(
    key
      .verb(
        'list',
        'list keys, without their values',
        'headgate key list --org acme',
        'headgate key list --text billing --sort=-createdAt --limit 20',
      )
      .option('--org <id>', 'only this organisation')
      .choice('--state <state>', 'only keys in this state', keyStateSchema.options),
  ).action<PageOptions & { readonly org?: string; readonly state?: string }>(
    async (session, { org, state, ...page }) => {
      const query = { organisation: org, state, ...pageQuery(page) };
      const withUses = async (keys: readonly Resource[]): Promise<Resource[]> => {
        const uses = keys.length === 0 ? undefined : await usesOf(session, query);
        return keys.map((key) => ({ ...key, ...useIn(uses, key) }));
      };
      await showList(session, '/keys', keyView, query, withUses);
    },
  );
  key
    .verb('get <key-id>', 'show one key, without its value', 'headgate key get key-3k9…')
    .action(async (session, _options, id) => {
      const key: Resource = await (await session.api()).get(route`/keys/${id}`);
      const { organisation } = key;
      const uses = await usesOf(session, { organisation: String(organisation) });
      const use = useIn(uses, key);
      const isNever = use?.lastUsedAt === null && session.out.format === 'table';
      await session.out.resource({ ...key, ...use, ...(isNever && { lastUsedAt: 'never' }) }, keyView);
    });
  registerRevoke(key);
}

function registerCreate(key: Noun): void {
  key
    .verb(
      'create',
      'create a key; its value is printed once, alone on stdout',
      'headgate key create --org acme --name "billing job" --expires 90d',
      'headgate key create --org acme --name ci --expires 1y --out ci.key',
    )
    .required('--org <id>', 'organisation of the key')
    .required('--name <text>', 'what the key is used for')
    .choice('--expires <choice>', 'when it expires', expiryChoiceSchema.options, true)
    .option('--out <file>', 'write the value to a new file (mode 0600) instead of stdout')
    .action<CreateOptions>(async (session, { org, name, expires, out }) => {
      const api = await session.api();
      const place = openSecretOutput(session, out);
      const body = { organisation: org, name, expires };
      const resource = await createSecret(place, () => api.write('POST', '/keys', body));
      const id = String(resource['id']);
      await showSecret(session, place, resource, {
        summary: `key ${id} "${name}" of ${org}, expires: ${expires}`,
        revoke: `headgate key revoke ${id}`,
      });
    });
}

function registerRevoke(key: Noun): void {
  key
    .verb(
      'revoke <key-id>',
      'revoke a key; with --wait, confirm that every gateway refuses it',
      'headgate key revoke key-3k9… --yes --wait --why leaked',
    )
    .option('--wait [duration]', 'wait until every gateway has confirmed it (default: 75s)', (text) =>
      durationSeconds(text),
    )
    .action<{ readonly wait?: number | true }>(async (session, { wait }, id) => {
      const path = route`/keys/${id}/revoke`;
      await confirmDestructive(session, id, `revoke the key ${id}`);
      const resource = await (await session.api()).write('POST', path);
      if (wait === undefined || session.globals.dryRun)
        return session.out.lines(
          [`key ${id} ${outcome(session.globals, resource, 'revoked')}`],
          resource,
          id,
        );
      await waitUntilConfirmed(session, resource, wait === true ? 60 : wait, `key ${id}`);
    });
}
