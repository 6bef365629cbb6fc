/** `headgate key`: create, list and revoke keys, and confirm that a revocation is in force. */
import type { Command } from 'commander';
import { confirmDestructive } from '../terminal/confirm.ts';
import type { Io } from '../terminal/io.ts';
import { durationSeconds } from '../terminal/options.ts';
import { column, type View } from '../terminal/render.ts';
import { route } from '../terminal/route.ts';
import { type Noun, noun } from '../terminal/verbs.ts';
import { outcome, type PageOptions, pageQuery, showList, showResource, withPages } from './answers.ts';
import { waitUntilConfirmed } from './confirmations.ts';
import { createSecret, openSecretOutput, showSecret } from './secrets.ts';

const keyView: View = {
  columns: [
    column('ID', 'id'),
    column('ORGANISATION', 'organisation'),
    column('NAME', 'name'),
    {
      ...column('STATE', 'state'),
      severity: (resource) => (resource['state'] === 'active' ? 'good' : 'warn'),
    },
    column('EXPIRES', 'expiresAt'),
    column('CREATED', 'createdAt'),
    column('BY', 'createdBy'),
  ],
  name: (resource) => resource['id'],
};

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
      .option('--state <state>', 'active, revoked or expired'),
  ).action<PageOptions & { readonly org?: string; readonly state?: string }>(
    (session, { org, state, ...page }) =>
      showList(session, '/keys', keyView, { organisation: org, state, ...pageQuery(page) }),
  );
  key
    .verb('get <key-id>', 'show one key, without its value', 'headgate key get key-3k9…')
    .action((session, _options, id) => showResource(session, route`/keys/${id}`, keyView));
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
    .required('--expires <choice>', 'never, 30d, 90d or 1y')
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
