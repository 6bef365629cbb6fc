/** Draws the sign-in page or the console, depending on whether someone is signed in. */
import { signal } from '@preact/signals';
import { render } from 'preact';
import { useEffect } from 'preact/hooks';
import { ApiFailure, call, toFailure } from './lib/api.ts';
import { startLive, stopLive } from './lib/live.ts';
import { drawWithAnswers, forgetAnswers } from './lib/read.ts';
import { go, location } from './lib/router.ts';
import { hasRole, me, type Person } from './lib/session.ts';
import { SignIn } from './pages/sign-in.tsx';
import { findPage } from './pages.tsx';
import { Frame } from './ui/frame.tsx';
import { Failure, Loading } from './ui/parts.tsx';

/** Failure of the last attempt to determine who is signed in, or undefined if there was none. */
const unknown = signal<ApiFailure | undefined>(undefined);
const findOutAgainMs = 3000;

/** Determines who is signed in. Status 401 means that nobody is. After any other failure, tries again. */
async function findOut(): Promise<void> {
  for (let isBackground = false; ; isBackground = true) {
    const found = await call('me.get', {}, { isBackground }).catch(toFailure);
    const isKnown = !(found instanceof ApiFailure) || found.status === 401;
    unknown.value = isKnown ? undefined : found;
    if (isKnown) {
      me.value = found instanceof ApiFailure ? null : found;
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, findOutAgainMs));
  }
}

/** Returns API responses that were delivered inside the page, and removes them, so that later reads request current data. */
function answersOfDocument(): { readonly '/me'?: Person } {
  const block = document.getElementById('answers');
  block?.remove();
  return JSON.parse(block?.textContent ?? '{}');
}

/** Draws the page that the URL names. */
export function begin(root: HTMLElement): void {
  const found = answersOfDocument();
  // While a sign-in link is open, nobody counts as signed in, because the link decides who will be.
  if (location.value.path === '/sign-in') me.value = null;
  else if (found['/me']) me.value = found['/me'];
  else void findOut();
  drawWithAnswers(found, () => render(<App />, root));
}

function App() {
  const person = me.value;
  useEffect(() => {
    if (hasRole()) startLive();
    else {
      stopLive();
      forgetAnswers();
    }
  }, [person]);
  if (person === undefined) return unknown.value ? <Unreachable failure={unknown.value} /> : <Loading />;
  if (person === null)
    return (
      <SignIn
        onSignedIn={async () => {
          await findOut();
          const { query, path } = location.value;
          go(path === '/sign-in' ? safePath(query.get('next')) : path + window.location.search, {
            replace: true,
          });
        }}
      />
    );
  const page = findPage(person);
  return <Frame pages={page.all}>{page.content}</Frame>;
}

function Unreachable({ failure }: { readonly failure: ApiFailure }) {
  return (
    <main class="sign-in" id="main">
      <div class="card">
        <img src="/icon.svg" alt="" width="44" height="44" />
        <h1>The control plane does not answer</h1>
        <Failure failure={failure} />
        <p class="muted">The console cannot check who is signed in. It retries automatically.</p>
      </div>
    </main>
  );
}

/** Returns the path if it is on this site, and `/` otherwise, because a link to another site could be a trap. */
function safePath(next: string | null): string {
  return next?.startsWith('/') && !next.startsWith('//') ? next : '/';
}
