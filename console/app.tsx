/** Sign-in page or frame, by who is signed in. */
import { render } from 'preact';
import { useEffect } from 'preact/hooks';
import { call } from './lib/api.ts';
import { startLive, stopLive } from './lib/live.ts';
import { drawWith, forgetAnswers } from './lib/read.ts';
import { go, location } from './lib/router.ts';
import { hasRole, me, type Person } from './lib/session.ts';
import { SignIn } from './pages/sign-in.tsx';
import { pageOf } from './pages.tsx';
import { Frame } from './ui/frame.tsx';
import { Loading } from './ui/parts.tsx';

async function findOut(): Promise<void> {
  me.value = await call('me.get', {}).catch(() => null);
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
  if (person === undefined) return <Loading />;
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

/** Only paths of this console: an address of another site would be a trap. */
function safePath(next: string | null): string {
  return next?.startsWith('/') && !next.startsWith('//') ? next : '/';
}
