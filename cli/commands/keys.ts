/** `headgate key` creates, lists and revokes keys, and confirms that a revocation is in force. */

import type { ApiKey, OperationInput } from '../../schemas/admin/admin.ts';
import { expiryChoices, keyStates } from '../../schemas/choices.ts';
import type { ExpiryChoice } from '../../schemas/names.ts';
import { AdminError } from '../admin-client/admin-error.ts';
import { parseDurationSeconds } from '../terminal/options.ts';
import { ageColumn, column, longColumn, type View } from '../terminal/render.ts';
import type { Session } from '../terminal/session.ts';
import { ageText } from '../terminal/text.ts';
import type { Noun } from '../terminal/verbs.ts';
import { formatOutcome } from './answers.ts';
import { waitUntilConfirmed } from './confirmations.ts';
import {
  choiceField,
  confirmCommand,
  type NounRow,
  pagedListVerb,
  runVerb,
  textField,
} from './operation-verbs.ts';
import { createSecret, openSecretOutput, showSecret } from './secrets.ts';

type KeyRow = ApiKey & Partial<Use>;
const keyView: View<KeyRow> = {
  columns: [
    column('ID', 'id'),
    column('ORGANISATION', 'organisation'),
    longColumn('NAME', 'name'),
    {
      ...column('STATE', 'state'),
      severity: ({ state }) => (state === 'active' ? 'good' : 'warn'),
    },
    ageColumn('EXPIRES', 'expiresAt', 'never'),
    ageColumn('AGE', 'createdAt'),
    longColumn('BY', 'createdBy'),
    { heading: 'LAST-USED', cell: lastUsedText },
    column('REQUESTS-24H', 'requestsOfDay'),
  ],
  name: ({ id }) => id,
};

interface Use {
  readonly lastUsedAt: string | null;
  readonly requestsOfDay: number;
}
type Uses = ReadonlyMap<string, Use>;

/** Reads when each key was last used. Returns undefined for past states or if usage is unreadable; keys are listed anyway. */
async function readUses(session: Session, query: OperationInput<'usage.keys'>): Promise<Uses | undefined> {
  if (session.globals.at !== undefined || session.out.format === 'name') return undefined;
  try {
    const { items } = await (await session.api()).run('usage.keys', query);
    return new Map(items.map(({ key, ...use }) => [key, use]));
  } catch (error) {
    if (!(error instanceof AdminError) || error.type === 'Interrupted') throw error;
    session.note(`the last use of keys is not known: ${error.message}`);
    return undefined;
  }
}

function findUse(uses: Uses | undefined, id: string): Use | undefined {
  return uses && (uses.get(id) ?? { lastUsedAt: null, requestsOfDay: 0 });
}

function lastUsedText({ lastUsedAt }: KeyRow): string {
  if (lastUsedAt === undefined) return '-';
  return lastUsedAt === null ? 'never' : ageText(lastUsedAt);
}

interface CreateOptions {
  readonly org: string;
  readonly name: string;
  readonly expires: ExpiryChoice;
  readonly out?: string;
}

export const keys: NounRow = {
  noun: ['key', 'API keys', 'deployed', 'headgate key list --org acme'],
  verbs: [
    registerCreate,
    pagedListVerb('key.list', {
      verb: [
        'list',
        'list keys without their values',
        'headgate key list --org acme',
        'headgate key list --text billing --sort=-createdAt --limit 20',
      ],
      options: {
        organisation: textField('--org <id>', 'only this organisation'),
        state: choiceField('--state <state>', 'only keys in this state', keyStates),
      },
      view: keyView,
      extend: async (session, listed, query) => {
        const uses = listed.length === 0 ? undefined : await readUses(session, query);
        return listed.map((key) => ({ ...key, ...findUse(uses, String(key['id'])) }));
      },
    }),
    runVerb('key.get', {
      verb: ['get <key-id>', 'show one key without its value', 'headgate key get key-3k9…'],
      print: async (session, key) => {
        const ofThisKey = { organisation: key.organisation, text: key.id, limit: 1 };
        const use = findUse(await readUses(session, ofThisKey), key.id);
        const isNever = use?.lastUsedAt === null && session.out.format === 'table';
        await session.out.resource({ ...key, ...use, ...(isNever && { lastUsedAt: 'never' }) }, keyView);
      },
    }),
    registerRevoke,
  ],
};

function registerCreate(key: Noun): void {
  key
    .verb(
      'create',
      'create a key and print its value to stdout, once',
      'headgate key create --org acme --name "billing job" --expires 90d',
      'headgate key create --org acme --name ci --expires 1y --out ci.key',
    )
    .required('--org <id>', 'organisation that owns the key')
    .required('--name <text>', 'name that says what the key is used for')
    .choice('--expires <choice>', 'when the key expires', expiryChoices, true)
    .option('--out <file>', 'write the value to a new file (mode 0600) instead of stdout')
    .action<CreateOptions>(async (session, { org, name, expires, out }) => {
      // Use `Required`, so that the compiler reports an input field that has no option here.
      const input: Required<OperationInput<'key.create'>> = { organisation: org, name, expires };
      const api = await session.api();
      const place = openSecretOutput(session, out);
      const made = await createSecret(place, () => api.run('key.create', input));
      await showSecret(session, place, made, {
        summary: `key ${made.id} "${name}" of ${org}, expires: ${expires}`,
        revoke: `headgate key revoke ${made.id}`,
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
    .option(
      '--wait [duration]',
      'wait until every gateway has confirmed the revocation; 75s by default',
      (text) => parseDurationSeconds(text),
    )
    .action<{ readonly wait?: number | true }>(async (session, { wait }, id) => {
      await confirmCommand(session, 'key.revoke', { id }, id, `revoke the key ${id}`);
      const resource = await (await session.api()).run('key.revoke', { id });
      if (wait === undefined || session.globals.dryRun)
        return session.out.lines(
          [`key ${id} ${formatOutcome(session.globals, resource, 'revoked')}`],
          resource,
          id,
        );
      await waitUntilConfirmed(session, resource, wait === true ? 60 : wait, `key ${id}`);
    });
}
