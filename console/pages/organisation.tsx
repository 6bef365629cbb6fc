/** Page about one organisation. It shows the tier, the allowance, members with their roles, stacks and keys. */
import { useState } from 'preact/hooks';
import type { Member, Organisation } from '../../schemas/admin/admin.ts';
import { call, withQuery } from '../lib/api.ts';
import { day, plural, shellWord } from '../lib/format.ts';
import { usePage } from '../lib/pages.ts';
import { usePath, useRead } from '../lib/read.ts';
import { isOperator, may } from '../lib/session.ts';
import { moment } from '../lib/travel.ts';
import { Confirm } from '../ui/dialog.tsx';
import { CommandDialog } from '../ui/effect.tsx';
import { EventsCard } from '../ui/event-rows.tsx';
import { LimitFacts } from '../ui/limit-use.tsx';
import { Name } from '../ui/name.tsx';
import { ThingPage } from '../ui/page.tsx';
import { Badge, Button, Card, Empty, Facts, Failure, Id, State } from '../ui/parts.tsx';
import { Table } from '../ui/table.tsx';
import { AddMember, Invite, LinkDialog, RoleChoice } from './members.tsx';
import { Refusals } from './refusals.tsx';
import { TrafficCard } from './traffic.tsx';

export function OrganisationPage({ id }: { readonly id: string }) {
  const read = useRead('organisation.get', { id });
  const { data } = read;
  return (
    <ThingPage
      title={data?.name ?? id}
      list={['/orgs', 'All organisations']}
      cli={`headgate org get ${shellWord(id)}`}
      actions={data && may('organisation.update') && isOperator() ? <Suspension organisation={data} /> : null}
      of={read}
    >
      {(organisation) => (
        <div class="columns">
          <div class="stack">
            <About organisation={organisation} />
            <Limits organisation={id} />
          </div>
          <div class="stack">
            <Holdings organisation={id} />
            <Refusals organisation={id} />
            {isOperator() ? null : <Members organisation={id} />}
          </div>
          <TrafficCard of={{ organisation: id }} more={withQuery('/requests', { org: id })} />
          {isOperator() ? (
            <>
              <Members organisation={id} />
              <EventsCard
                title="Events"
                label="Events of the organisation"
                about={{ organisation: id }}
                more="All events"
              />
            </>
          ) : null}
        </div>
      )}
    </ThingPage>
  );
}

function Suspension({ organisation: { id, name, suspended } }: { readonly organisation: Organisation }) {
  const [isAsking, setAsking] = useState(false);
  return (
    <>
      <Button onClick={() => setAsking(true)}>{suspended ? 'Resume' : 'Suspend'}</Button>
      {isAsking ? (
        <CommandDialog
          title={`${suspended ? 'Resume' : 'Suspend'} ${name}`}
          action={suspended ? 'Resume' : 'Suspend'}
          {...(!suspended && { typed: id })}
          command={{ name: 'organisation.update', input: { id, suspended: !suspended } }}
          onClose={() => setAsking(false)}
          onDone={() => setAsking(false)}
        >
          <p>
            {suspended
              ? 'Its keys are accepted again.'
              : 'All its requests are refused until it is resumed. Nothing is deleted.'}
          </p>
        </CommandDialog>
      ) : null}
    </>
  );
}

function About({ organisation }: { readonly organisation: Organisation }) {
  const { id, tier, anchor, suspended } = organisation;
  const usage = useRead('usage.get', { organisation: id }, { everyMs: 10_000 }).data;
  return (
    <Card title="About">
      <Facts
        items={{
          Identifier: <Id id={id} />,
          Tier:
            tier === null ? (
              <State tone="warn">none, requests are refused</State>
            ) : (
              <Name of={{ kind: 'tier', id: tier }} />
            ),
          State: suspended ? <State tone="bad">suspended</State> : <State tone="good">active</State>,
          'Period start': day(usage?.period ?? anchor),
          // This figure includes the pool, stacks and own nodes, but the limits section counts only tokens of the allowance.
          'Usage this period': usage
            ? `${plural(usage.totalTokens, 'token')} in ${plural(usage.requests, 'request')}`
            : '…',
          Models: <a href={withQuery('/models', { org: id })}>which models can be called</a>,
        }}
      />
    </Card>
  );
}

function Limits({ organisation }: { readonly organisation: string }) {
  const name = moment() === undefined ? 'organisation.limits' : undefined;
  const { data } = useRead(name, { id: organisation }, { everyMs: 2000 });
  if (!data) return null;
  return (
    <Card title="Limits now" more={<a href={withQuery('/limits', { org: organisation })}>By gateway</a>}>
      <LimitFacts use={data} />
    </Card>
  );
}

function Holdings({ organisation }: { readonly organisation: string }) {
  const ofKeys = { organisation, state: 'active', limit: 1 };
  const keys = useRead('key.list', ofKeys).data;
  const stacks = useRead('stack.list', { organisation }, { isWhole: true }).data;
  const atIt = { text: `organisation:${organisation}` };
  const nodes = useRead(isOperator() ? 'node.list' : undefined, atIt, { isWhole: true }).data;
  const own = nodes?.items.filter(({ place }) => place.kind === 'organisation' && place.id === organisation);
  const active = keys?.total;
  return (
    <Card title="Keys, stacks, usage">
      <ul class="rows">
        <li>
          <a href={withQuery('/keys', { org: organisation })}>API keys</a>
          <span>{active === undefined ? '…' : plural(active, 'active key')}</span>
        </li>
        {(stacks?.items ?? []).map(({ id, models }) => (
          <li key={id}>
            <Name of={{ kind: 'stack', id }} />
            <span>{plural(models.length, 'model')}</span>
          </li>
        ))}
        {(own ?? []).map(({ id, up }) => (
          <li key={id}>
            <span>
              <Name of={{ kind: 'node', id }} />, own node
            </span>
            <State tone={up ? 'good' : 'bad'}>{up ? 'up' : 'down'}</State>
          </li>
        ))}
        <li>
          <a href={withQuery('/usage', { org: organisation })}>Usage</a>
          <span>tokens by day and model</span>
        </li>
      </ul>
    </Card>
  );
}

function Members({ organisation }: { readonly organisation: string }) {
  const { data, failure, pages } = usePage('member.list', { organisation }, 'person');
  const ways = usePath<{ readonly oidc: boolean }>('/sign-in').data;
  const [dialog, setDialog] = useState<
    { readonly kind: 'add' | 'invite' | 'link' | 'remove'; readonly person: string } | undefined
  >();
  const close = (): void => setDialog(undefined);
  const maySet = may('member.set', organisation);
  return (
    <Card
      title="Members"
      more={
        maySet ? (
          <span class="row">
            {ways?.oidc ? (
              <Button onClick={() => setDialog({ kind: 'invite', person: '' })}>Invite</Button>
            ) : null}
            <Button onClick={() => setDialog({ kind: 'add', person: '' })}>Add member</Button>
          </span>
        ) : null
      }
    >
      {failure ? <Failure failure={failure} /> : null}
      {data ? (
        <Table
          caption="Members"
          rows={data.items}
          pages={pages}
          keyOf={({ person }) => person}
          columns={memberColumns(organisation, (kind, person) => setDialog({ kind, person }))}
          empty={<Empty title="There are no members yet">{null}</Empty>}
        />
      ) : null}
      {dialog?.kind === 'add' ? <AddMember organisation={organisation} onClose={close} /> : null}
      {dialog?.kind === 'invite' ? <Invite organisation={organisation} onClose={close} /> : null}
      {dialog?.kind === 'link' ? (
        <LinkDialog organisation={organisation} person={dialog.person} onClose={close} />
      ) : null}
      {dialog?.kind === 'remove' ? (
        <Confirm
          title={`Remove ${dialog.person}`}
          action="Remove member"
          onClose={close}
          work={async () => {
            await call('member.remove', { id: organisation, person: dialog.person });
          }}
        >
          <p>
            {dialog.person} loses access to {organisation} with the next request. Keys that {dialog.person}{' '}
            created stay valid.
          </p>
        </Confirm>
      ) : null}
    </Card>
  );
}

function memberColumns(organisation: string, open: (kind: 'link' | 'remove', person: string) => void) {
  const maySet = may('member.set', organisation);
  return [
    {
      name: 'Person',
      isTitle: true,
      field: 'person',
      cell: ({ person }: Member) => (
        <Name of={{ kind: 'member', id: person, within: organisation }}>
          <strong>{person}</strong>
        </Name>
      ),
    },
    {
      name: 'Role',
      field: 'role',
      cell: (member: Member) =>
        maySet ? <RoleChoice key={member.role} member={member} /> : <Badge>{member.role}</Badge>,
    },
    {
      name: 'Actions',
      isAction: true,
      cell: ({ person }: Member) =>
        maySet ? (
          <span class="row">
            <Button aria-label={`Get link for ${person}`} onClick={() => open('link', person)}>
              Get link
            </Button>
            <Button aria-label={`Remove ${person}`} onClick={() => open('remove', person)}>
              Remove
            </Button>
          </span>
        ) : null,
    },
  ];
}
