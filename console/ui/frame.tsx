/** Frame around every page. It shows the navigation, a strip with the fleet's condition, and the signed-in person. */
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { callPath, withQuery } from '../lib/api.ts';
import { count, plural, seconds } from '../lib/format.ts';
import { connection, logReachable, position } from '../lib/live.ts';
import { useRead } from '../lib/read.ts';
import { location } from '../lib/router.ts';
import { hasRole, isOperator, me, signedOut } from '../lib/session.ts';
import { hasPast, moment } from '../lib/travel.ts';
import { Dialog, useWork } from './dialog.tsx';
import { Icon, type IconName } from './icons.tsx';
import { Button, Failure, State } from './parts.tsx';

export interface NavigationEntry {
  readonly path: string;
  readonly name: string;
  readonly icon: IconName;
  /** Heading of the navigation section that begins with this entry. */
  readonly section?: string;
}

export interface FrameProps {
  readonly pages: readonly NavigationEntry[];
  readonly children: ComponentChildren;
}

const isMenuOpen = signal(false);

export function Frame({ pages, children }: FrameProps) {
  const { path } = location.value;
  useEffect(() => {
    isMenuOpen.value = false;
  }, [path]);
  return (
    <div class="frame">
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header class="top">
        <button
          type="button"
          class="icon menu-button"
          aria-label="Menu"
          aria-expanded={isMenuOpen.value}
          onClick={() => {
            isMenuOpen.value = !isMenuOpen.value;
          }}
        >
          ☰
        </button>
        <a class="brand" href="/">
          <img src="/icon.svg" alt="" width="24" height="24" />
          Headgate
        </a>
        <Strip />
        <Account />
      </header>
      <nav class={isMenuOpen.value ? 'rail open' : 'rail'} aria-label="Pages">
        <Navigation pages={pages} />
      </nav>
      <main id="main" tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}

function Navigation({ pages }: { readonly pages: readonly NavigationEntry[] }) {
  const { path } = location.value;
  const sections = [...new Set(pages.map(({ section }) => section))];
  return (
    <>
      {sections.map((section) => (
        <div key={section ?? ''} class="rail-section">
          {section === undefined ? null : <h2>{section}</h2>}
          <ul>
            {pages
              .filter((page) => page.section === section)
              .map((page) => (
                <li key={page.path}>
                  <a href={pageLink(page)} aria-current={isCurrent(path, page, pages) ? 'page' : undefined}>
                    <Icon name={page.icon} />
                    {page.name}
                  </a>
                </li>
              ))}
          </ul>
        </div>
      ))}
    </>
  );
}

/** Returns the link to another page. If a past moment is shown, the link keeps it. */
function pageLink({ path }: NavigationEntry): string {
  return hasPast(path) ? withQuery(path, { at: moment() }) : path;
}

function isCurrent(path: string, page: NavigationEntry, pages: readonly NavigationEntry[]): boolean {
  if (path === '/') return page.path === (isOperator() ? '/fleet' : '/keys') && pages.includes(page);
  return path === page.path || path.startsWith(`${page.path}/`);
}

/** Strip that states the condition of the fleet and, if there is a problem, what to do. */
function Strip() {
  return (
    <div class="strip row muted small" role="status" aria-label="State of the fleet">
      {isOperator() ? <FleetStrip /> : null}
      <Following />
    </div>
  );
}

function Following() {
  if (!hasRole()) return null;
  if (connection.value === 'interrupted') return <State tone="bad">connection lost, reconnecting</State>;
  if (connection.value === 'connecting') return <State tone="idle">connecting</State>;
  if (!logReachable.value) return <State tone="warn">the log cannot be reached, changes are refused</State>;
  return <State tone="good">live</State>;
}

function FleetStrip() {
  const { data } = useRead('gateway.list', {}, { everyMs: 3000 });
  const head = Math.max(position.value, data?.position ?? 0);
  if (!data) return null;
  const synced = data.items.filter(({ state }) => state === 'SYNCED').length;
  const oldest = Math.max(0, ...data.items.map(({ freshSeconds }) => freshSeconds ?? 0));
  const all = data.items.length;
  return (
    <a
      class="strip-item"
      href="/gateways"
      title={`Log at position ${count(head)}, oldest proof of freshness ${seconds(oldest)}`}
    >
      {all === 0 ? (
        <State tone="warn">no gateway has reported</State>
      ) : synced === all ? (
        <State tone="good">all gateways in sync</State>
      ) : (
        <State tone="bad">
          {synced} of {plural(all, 'gateway')} in sync
        </State>
      )}
    </a>
  );
}

const isAsking = signal(false);

function Account() {
  const person = me.value;
  if (!person) return null;
  const roles = person.organisations.map(({ name, role }) => `${role} of ${name}`).join(', ');
  // Several operators may sign in through the identity provider, so their names in the log are shown to tell them apart.
  const about = person.operator && person.actor !== 'operator' ? person.actor : roles;
  return (
    <div class="ends">
      <span class="who small" title={roles}>
        <strong>{person.operator ? 'Operator' : person.person}</strong>
        {about === '' ? null : <span class="muted">{about}</span>}
      </span>
      <Button
        onClick={() => {
          isAsking.value = true;
        }}
      >
        Sign out
      </Button>
      {isAsking.value ? <SignOut /> : null}
    </div>
  );
}

function SignOut() {
  const { isBusy, failure, run } = useWork();
  const close = (): void => {
    isAsking.value = false;
  };
  const end = (everywhere: boolean) => () =>
    run(async () => {
      await callPath('DELETE', '/session', { body: { everywhere } });
      close();
      signedOut();
    });
  return (
    <Dialog title="Sign out" onClose={close}>
      <p>The session ends on every control plane within seconds.</p>
      {failure ? <Failure failure={failure} /> : null}
      <div class="dialog-actions row">
        <Button disabled={isBusy} onClick={end(true)}>
          Sign out everywhere
        </Button>
        <Button look="primary" disabled={isBusy} onClick={end(false)}>
          Sign out of this browser
        </Button>
      </div>
    </Dialog>
  );
}
