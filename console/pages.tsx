/** List of pages with their paths, names and audience in the navigation. The control plane decides what a page may show. */

import type { ComponentChildren, ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { location } from './lib/router.ts';
import type { Person } from './lib/session.ts';
import { EventsPage } from './pages/events.tsx';
import { FleetPage } from './pages/fleet.tsx';
import { GatewayPage } from './pages/gateway.tsx';
import { GatewaysPage } from './pages/gateways.tsx';
import { KeysPage } from './pages/keys.tsx';
import { NodePage } from './pages/node.tsx';
import { NodesPage } from './pages/nodes.tsx';
import { OrganisationPage } from './pages/organisation.tsx';
import { OrganisationsPage } from './pages/organisations.tsx';
import { StackPage } from './pages/stack.tsx';
import { StacksPage } from './pages/stacks.tsx';
import type { NavigationEntry } from './ui/frame.tsx';
import { PageHeader } from './ui/page.tsx';
import { Empty, Loading } from './ui/parts.tsx';

/** Returns a page whose code is loaded when the page is first shown. */
function lazyPage<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  let Loaded: ComponentType<Props> | undefined;
  return function LazyPage(props: Props) {
    const [, redraw] = useState(0);
    useEffect(() => {
      if (Loaded) return;
      load().then(
        (component) => {
          Loaded = component;
          redraw((count) => count + 1);
        },
        () => window.location.reload(),
      );
    }, []);
    return Loaded ? <Loaded {...props} /> : <Loading />;
  };
}

const RequestsPage = lazyPage(async () => (await import('./pages/requests.tsx')).RequestsPage);
const UsagePage = lazyPage(async () => (await import('./pages/usage.tsx')).UsagePage);
const ExplainPage = lazyPage(async () => (await import('./pages/explain.tsx')).ExplainPage);
const LimitsPage = lazyPage(async () => (await import('./pages/limits.tsx')).LimitsPage);
const ModelsPage = lazyPage(async () => (await import('./pages/models.tsx')).ModelsPage);
const ModelPage = lazyPage(async () => (await import('./pages/catalog.tsx')).ModelPage);
const TiersPage = lazyPage(async () => (await import('./pages/catalog.tsx')).TiersPage);
const TierPage = lazyPage(async () => (await import('./pages/catalog.tsx')).TierPage);
const ChangesPage = lazyPage(async () => (await import('./pages/changes.tsx')).ChangesPage);
const DoctorPage = lazyPage(async () => (await import('./pages/doctor.tsx')).DoctorPage);

interface Page extends NavigationEntry {
  readonly component: ComponentType;
  readonly isForMembers?: true;
  /** Page about a single thing, such as `/stacks/ID`. */
  readonly detail?: ComponentType<{ readonly id: string }>;
}

const pages: readonly Page[] = [
  { path: '/fleet', name: 'Fleet', icon: 'fleet', component: FleetPage },
  { path: '/gateways', name: 'Gateways', icon: 'gateways', component: GatewaysPage, detail: GatewayPage },
  { path: '/nodes', name: 'Nodes', icon: 'nodes', component: NodesPage, detail: NodePage },
  {
    ...{ path: '/stacks', name: 'Stacks', icon: 'stacks', isForMembers: true },
    ...{ component: StacksPage, detail: StackPage },
  },
  {
    ...{ path: '/orgs', name: 'Organisations', icon: 'organisations', isForMembers: true },
    ...{ component: OrganisationsPage, detail: OrganisationPage },
  },
  {
    path: '/models',
    isForMembers: true,

    name: 'Models',
    icon: 'models',
    component: ModelsPage,
    detail: ModelPage,
  },
  { path: '/tiers', name: 'Tiers', icon: 'tiers', component: TiersPage, detail: TierPage },
  ...inSection('Inference', [
    { path: '/requests', name: 'Requests', icon: 'requests', component: RequestsPage, isForMembers: true },
    { path: '/keys', name: 'API keys', icon: 'keys', component: KeysPage, isForMembers: true },
    { path: '/usage', name: 'Usage', icon: 'usage', component: UsagePage, isForMembers: true },
    { path: '/limits', name: 'Limits', icon: 'limits', component: LimitsPage, isForMembers: true },
  ]),
  ...inSection('Activity', [
    { path: '/events', name: 'Events', icon: 'events', component: EventsPage },
    { path: '/changes', name: 'Changes', icon: 'changes', component: ChangesPage },
    {
      ...{ path: '/explain', name: 'Explain', icon: 'explain', isForMembers: true },
      component: ExplainPage,
    },
    { path: '/doctor', name: 'Doctor', icon: 'doctor', component: DoctorPage },
  ]),
];

function inSection(section: string, of: readonly Page[]): readonly Page[] {
  return of.map((page) => ({ ...page, section }));
}

export function findPage(person: Person): {
  readonly all: readonly Page[];
  readonly content: ComponentChildren;
} {
  const all = pages.filter(({ isForMembers }) => person.operator || isForMembers);
  const { path, parts } = location.value;
  const wanted =
    path === '/' || path === '/sign-in' ? (person.operator ? '/fleet' : '/keys') : `/${parts[0] ?? ''}`;
  const page = all.find((one) => one.path === wanted);
  if (!person.operator && person.organisations.length === 0)
    return { all: [], content: <NoMember person={person} /> };
  if (!page) return { all, content: <NotFound isOperator={person.operator} /> };
  const id = parts[1];
  const Detail = page.detail;
  const Component = page.component;
  const content = id !== undefined && Detail ? <Detail key={id} id={id} /> : <Component key={page.path} />;
  return { all, content };
}

function NotFound({ isOperator }: { readonly isOperator: boolean }) {
  return (
    <>
      <PageHeader title="Not found" />
      <Empty title="There is no such page">
        <p>
          {isOperator
            ? 'The address may be mistyped.'
            : 'It may be for operators only, or the address may be mistyped.'}{' '}
          <a href="/">Back to the home page</a>
        </p>
      </Empty>
    </>
  );
}

function NoMember({ person }: { readonly person: Person }) {
  return (
    <>
      <PageHeader title="No organisation" />
      <Empty title="You are not a member of any organisation">
        <p>
          Ask an owner of your organisation to add you with this id: <code>{person.person}</code>
        </p>
      </Empty>
    </>
  );
}
