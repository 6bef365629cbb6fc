/** `headgate org` and `headgate member` manage organisations and the people who act for them. */
import type { Member, Organisation } from '../../schemas/admin/admin.ts';
import { roles } from '../../schemas/choices.ts';
import { usageError } from '../terminal/errors.ts';
import { parseDay, parseLinkSeconds } from '../terminal/options.ts';
import { column, longColumn, type View } from '../terminal/render.ts';
import { showLink } from './answers.ts';
import {
  choiceField,
  flagField,
  type NounRow,
  nonEmptyTextField,
  pagedListVerb,
  parsedField,
  runVerb,
  showVerb,
  textField,
  writeVerb,
} from './operation-verbs.ts';

const organisationView: View<Organisation> = {
  columns: [
    column('ID', 'id'),
    longColumn('NAME', 'name'),
    column('TIER', 'tier'),
    column('ANCHOR', 'anchor'),
    {
      ...column('SUSPENDED', 'suspended'),
      severity: ({ suspended }) => (suspended ? 'warn' : undefined),
    },
  ],
  name: ({ id }) => id,
};
const memberView: View<Member> = {
  columns: [column('ORGANISATION', 'organisation'), column('PERSON', 'person'), column('ROLE', 'role')],
  name: ({ person }) => person,
};

const suspension = (name: string, suspended: boolean, done: string) =>
  writeVerb('organisation.update', {
    verb: [`${name} <id>`, `${name} an organisation's access`, `headgate org ${name} acme --why "unpaid"`],
    always: { suspended },
    done,
  });

export const organisations: NounRow = {
  noun: ['org', 'organisations', 'deployed', 'headgate org list'],
  verbs: [
    writeVerb('organisation.create', {
      verb: ['create <id>', 'create an organisation', 'headgate org create acme --name Acme --tier Platinum'],
      operands: ['id'],
      options: {
        name: textField('--name <text>', 'display name', 'required'),
        tier: nonEmptyTextField(
          '--tier <tier>',
          'tier; without a tier the organisation cannot call any model',
        ),
        anchor: parsedField(
          '--anchor <day>',
          'anchor day, from which billing periods are counted, YYYY-MM-DD; today by default',
          parseDay,
        ),
      },
      done: 'created',
    }),
    pagedListVerb('organisation.list', {
      verb: ['list', 'list organisations', 'headgate org list', 'headgate org list -o name'],
      view: organisationView,
    }),
    showVerb('organisation.get', {
      verb: ['get <id>', 'show one organisation', 'headgate org get acme -o json'],
      view: organisationView,
    }),
    writeVerb('organisation.update', {
      verb: ['set <id>', 'change an organisation', 'headgate org set acme --tier Pro'],
      options: {
        name: textField('--name <text>', 'display name'),
        tier: [textField('--tier <tier>', 'tier'), flagField('--no-tier', 'remove the tier', null)],
        anchor: parsedField(
          '--anchor <day>',
          'anchor day, from which billing periods are counted, YYYY-MM-DD; needs --force, because usage of the current period would no longer count',
          parseDay,
        ),
      },
      check: ({ id: _id, ...changes }) => {
        if (Object.keys(changes).length === 0)
          throw usageError('no change was given', 'headgate org set --help');
      },
      done: 'changed',
    }),
    suspension('suspend', true, 'suspended'),
    suspension('resume', false, 'resumed'),
    writeVerb('organisation.delete', {
      verb: ['delete <id>', 'delete an organisation, its keys and stacks', 'headgate org delete acme --yes'],
      confirm: ({ id }) => `delete the organisation ${id}, its keys, stacks and members`,
      done: 'deleted',
    }),
  ],
};

const role = choiceField('--role <role>', 'role of the member', roles, 'required');
const seconds = parsedField(
  '--expires <duration>',
  'how long the link is valid, from 60s to 30d; 7d by default',
  parseLinkSeconds,
);

export const members: NounRow = {
  noun: ['member', 'members of organisations, and their roles', 'deployed', 'headgate member list'],
  verbs: [
    pagedListVerb('member.list', {
      verb: ['list', 'list members', 'headgate member list --org acme'],
      options: { organisation: textField('--org <id>', 'only this organisation') },
      view: memberView,
    }),
    writeVerb('member.set', {
      verb: [
        'set <org> <person>',
        'add a member or change a role',
        'headgate member set acme ana --role owner',
      ],
      options: { role },
      done: ({ id, role: given }) => `set as ${given} of ${id}`,
    }),
    // Use `runVerb`, because a sign-in link does not change anything until someone uses it.
    runVerb('member.link', {
      verb: [
        'link',
        'print a one-time link that signs a member in to the console',
        'headgate member link --org acme --person ana --expires 7d',
      ],
      operands: [],
      options: {
        id: textField('--org <id>', 'organisation of the member', 'required'),
        person: textField('--person <id>', 'id of the member', 'required'),
        seconds,
      },
      print: (session, link, { person }) =>
        showLink(session, link, (until) => `signs ${person} in once, until ${until}; do not share it`),
    }),
    runVerb('member.invite', {
      verb: [
        'invite',
        'print a one-time link that makes a person a member when they sign in with it',
        'headgate member invite --org acme --role member --expires 7d',
      ],
      operands: [],
      options: {
        id: textField('--org <id>', 'organisation that the person joins', 'required'),
        role,
        seconds,
      },
      print: (session, link, { id, role: given }) =>
        showLink(
          session,
          link,
          (until) => `makes one person ${given} of ${id}, until ${until}; it needs an identity provider`,
        ),
    }),
    writeVerb('member.remove', {
      verb: [
        'remove <org> <person>',
        'remove a member; keys created by this person stay valid',
        'headgate member remove acme ana --yes',
      ],
      confirm: ({ id, person }) => `remove ${person} from ${id}`,
      done: 'removed',
    }),
  ],
};
