/** `headgate org` and `headgate member`: organisations, and the people who may act for them. */
import type { Command } from 'commander';
import { roleSchema } from '../../schemas/names.ts';
import { confirmDestructive } from '../terminal/confirm.ts';
import { usageError } from '../terminal/errors.ts';
import type { Io } from '../terminal/io.ts';
import { day, linkSeconds } from '../terminal/options.ts';
import { column, longColumn, type View } from '../terminal/render.ts';
import { route } from '../terminal/route.ts';
import { type Noun, noun } from '../terminal/verbs.ts';
import {
  type PageOptions,
  pageQuery,
  printWriteResult,
  showLink,
  showList,
  showResource,
  withPages,
} from './answers.ts';

const organisationView: View = {
  columns: [
    column('ID', 'id'),
    longColumn('NAME', 'name'),
    column('TIER', 'tier'),
    column('ANCHOR', 'anchor'),
    {
      ...column('SUSPENDED', 'suspended'),
      severity: (resource) => (resource['suspended'] === true ? 'warn' : undefined),
    },
  ],
  name: (resource) => resource['id'],
};
const memberView: View = {
  columns: [column('ORGANISATION', 'organisation'), column('PERSON', 'person'), column('ROLE', 'role')],
  name: (resource) => resource['person'],
};

interface OrganisationOptions {
  readonly name?: string;
  /** False with --no-tier. */
  readonly tier?: string | false;
  readonly anchor?: string;
}

interface LinkOptions {
  readonly org: string;
  readonly person: string;
  readonly expires?: number;
}

interface InviteOptions {
  readonly org: string;
  readonly role: string;
  readonly expires?: number;
}

export function registerTenants(program: Command, io: Io): void {
  registerOrganisations(program, io);
  registerMembers(program, io);
}

function registerOrganisations(program: Command, io: Io): void {
  const org = noun(program, io, 'org', 'organisations', 'deployed', 'headgate org list');
  org
    .verb('create <id>', 'create an organisation', 'headgate org create acme --name Acme --tier Platinum')
    .required('--name <text>', 'display name')
    .option('--tier <tier>', 'plan; without one the organisation may not use inference')
    .option('--anchor <day>', 'first day of a billing period, YYYY-MM-DD; today by default', day)
    .action<OrganisationOptions>(async (session, { name, tier, anchor }, id) => {
      const body = { id, name, ...(tier && { tier }), ...(anchor && { anchor }) };
      const resource = await (await session.api()).write('POST', '/organisations', body);
      await printWriteResult(session, resource, 'organisation', id, 'created');
    });
  withPages(
    org.verb('list', 'list organisations', 'headgate org list', 'headgate org list -o name'),
  ).action<PageOptions>((session, page) =>
    showList(session, '/organisations', organisationView, pageQuery(page)),
  );
  org
    .verb('get <id>', 'show one organisation', 'headgate org get acme -o json')
    .action((session, _options, id) => showResource(session, route`/organisations/${id}`, organisationView));
  org
    .verb('set <id>', 'change an organisation', 'headgate org set acme --tier Pro')
    .option('--name <text>', 'display name')
    .option('--tier <tier>', 'plan')
    .option('--no-tier', 'remove the plan')
    .option(
      '--anchor <day>',
      'first day of a billing period, YYYY-MM-DD; what is used of the present one no longer counts, so it needs --force',
      day,
    )
    .action<OrganisationOptions>(async (session, options, id) => {
      const body = organisationChanges(options);
      const resource = await (await session.api()).write('PATCH', route`/organisations/${id}`, body);
      await printWriteResult(session, resource, 'organisation', id, 'changed');
    });
  for (const [name, suspended, done] of [
    ['suspend', true, 'suspended'],
    ['resume', false, 'resumed'],
  ] as const) {
    org
      .verb(`${name} <id>`, `${name} an organisation's access`, `headgate org ${name} acme --why "unpaid"`)
      .action(async (session, _options, id) => {
        const resource = await (await session.api()).write('PATCH', route`/organisations/${id}`, {
          suspended,
        });
        await printWriteResult(session, resource, 'organisation', id, done);
      });
  }
  org
    .verb('delete <id>', 'delete an organisation, its keys and stacks', 'headgate org delete acme --yes')
    .action(async (session, _options, id) => {
      await confirmDestructive(session, id, `delete the organisation ${id}, its keys, stacks and members`);
      const resource = await (await session.api()).write('DELETE', route`/organisations/${id}`);
      await printWriteResult(session, resource, 'organisation', id, 'deleted');
    });
}

function organisationChanges({ name, tier, anchor }: OrganisationOptions): object {
  const body = {
    ...(name !== undefined && { name }),
    ...(typeof tier === 'string' && { tier }),
    ...(tier === false && { tier: null }),
    ...(anchor !== undefined && { anchor }),
  };
  if (Object.keys(body).length === 0) throw usageError('no change was given', 'headgate org set --help');
  return body;
}

function registerMembers(program: Command, io: Io): void {
  const member = noun(program, io, 'member', 'people and their roles', 'deployed', 'headgate member list');
  withPages(
    member
      .verb('list', 'list members', 'headgate member list --org acme')
      .option('--org <id>', 'only this organisation'),
  ).action<PageOptions & { readonly org?: string }>((session, { org, ...page }) =>
    showList(session, '/members', memberView, { organisation: org, ...pageQuery(page) }),
  );
  member
    .verb('set <org> <person>', 'add a member or change a role', 'headgate member set acme ana --role owner')
    .choice('--role <role>', 'role of the person', roleSchema.options, true)
    .action<{ readonly role: string }>(async (session, { role }, org, person) => {
      const path = route`/organisations/${org}/members/${person}`;
      const resource = await (await session.api()).write('PUT', path, { role });
      await printWriteResult(session, resource, 'member', person, `set as ${role} of ${org}`);
    });
  registerLinks(member);
  member
    .verb(
      'remove <org> <person>',
      'remove a member; keys created by this person stay valid',
      'headgate member remove acme ana --yes',
    )
    .action(async (session, _options, org, person) => {
      await confirmDestructive(session, person, `remove ${person} from ${org}`);
      const resource = await (await session.api()).write(
        'DELETE',
        route`/organisations/${org}/members/${person}`,
      );
      await printWriteResult(session, resource, 'member', person, 'removed');
    });
}

/** Links to the console: they change nothing until somebody uses them. */
function registerLinks(member: Noun): void {
  member
    .verb(
      'link',
      'print a link that signs a member in to the console, once',
      'headgate member link --org acme --person ana --expires 7d',
    )
    .required('--org <id>', 'organisation of the member')
    .required('--person <id>', 'the member')
    .option('--expires <duration>', 'how long the link is valid, 60s to 30d; 7d by default', linkSeconds)
    .action<LinkOptions>(async (session, { org, person, expires }) => {
      const path = route`/organisations/${org}/members/${person}/link`;
      const body = expires === undefined ? {} : { seconds: expires };
      const link = await (await session.api()).write('POST', path, body);
      const note = (until: string) => `signs ${person} in once, until ${until}; give it to nobody else`;
      await showLink(session, link, note);
    });
  member
    .verb(
      'invite',
      'print a link that makes the person who signs in by it a member, once',
      'headgate member invite --org acme --role member --expires 7d',
    )
    .required('--org <id>', 'organisation that invites')
    .choice('--role <role>', 'role of the person', roleSchema.options, true)
    .option('--expires <duration>', 'how long the link is valid, 60s to 30d; 7d by default', linkSeconds)
    .action<InviteOptions>(async (session, { org, role, expires }) => {
      const path = route`/organisations/${org}/invitations`;
      const body = { role, ...(expires !== undefined && { seconds: expires }) };
      const link = await (await session.api()).write('POST', path, body);
      const note = (until: string) =>
        `makes one person ${role} of ${org}, until ${until}; it needs an identity provider`;
      await showLink(session, link, note);
    });
}
