/** Sign-in page or frame, by who is signed in. */
import { signal } from '@preact/signals';
import { render } from 'preact';
import { useEffect } from 'preact/hooks';
import { ApiFailure, call, failureOf } from './lib/api.ts';
import { startLive, stopLive } from './lib/live.ts';
import { drawWith, forgetAnswers } from './lib/read.ts';
import { go, location } from './lib/router.ts';
import { hasRole, me, type Person } from './lib/session.ts';
import { SignIn } from './pages/sign-in.tsx';
import { pageOf } from './pages.tsx';
import { Frame } from './ui/frame.tsx';
import { Failure, Loading } from './ui/parts.tsx';

/** Why it is not known who is signed in. */
const unknown = signal<ApiFailure | undefined>(undefined);
const findOutAgainMs = 3000;

/** Only 401 says that nobody is signed in: where there is no other answer, it is asked again. */
async function findOut(): Promise<void> {
  for (let isBackground = false; ; isBackground = true) {
    const found = await call('me.get', {}, { isBackground }).catch(failureOf);
    const isKnown = !(found instanceof ApiFailure) || found.status === 401;
    unknown.value = isKnown ? undefined : found;
    if (isKnown) {
      me.value = found instanceof ApiFailure ? null : found;
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, findOutAgainMs));
  }
}

/** Answers to what the page reads first, which came with it, once: without them it asks. */
function answersOfDocument(): { readonly '/me'?: Person } {
  const block = document.getElementById('answers');
  block?.remove();
  return JSON.parse(block?.textContent ?? '{}');
}

/** Draws the page that the address names. */
export function begin(root: HTMLElement): void {
  const found = answersOfDocument();
  // A link that signs in decides who it is.
  if (location.value.path === '/sign-in') me.value = null;
  else if (found['/me']) me.value = found['/me'];
  else void findOut();
  drawWith(found, () => render(<App />, root));
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
  const page = pageOf(person);
  return <Frame pages={page.all}>{page.content}</Frame>;
}

function Unreachable({ failure }: { readonly failure: ApiFailure }) {
  return (
    <main class="sign-in" id="main">
      <div class="card">
        <img src="/icon.svg" alt="" width="44" height="44" />
        <h1>The control plane does not answer</h1>
        <Failure failure={failure} />
        <p class="muted">Who is signed in is not known, so nothing is shown. It is tried again by itself.</p>
      </div>
    </main>
  );
}

/** Only paths of this console: an address of another site would be a trap. */
function safePath(next: string | null): string {
  return next?.startsWith('/') && !next.startsWith('//') ? next : '/';
}
