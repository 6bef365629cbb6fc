/** Sign-in page. It accepts a link, an operator token, the identity provider and, in a demo, a click on a member. */
import { useEffect, useState } from 'preact/hooks';
import { callPath } from '../lib/api.ts';
import { go, location } from '../lib/router.ts';
import { useWork } from '../ui/dialog.tsx';
import { Button, Failure } from '../ui/parts.tsx';

interface Ways {
  readonly oidc: boolean;
  /** Session of someone who is already signed in. If `person` is null, it is the operator's session. */
  readonly session: { readonly person: string | null } | null;
  readonly demo: readonly { readonly organisation: string; readonly person: string; readonly role: string }[];
}

const invitationMark = 'invitation.';
/** Messages for the error codes that the control plane sets if signing in through the identity provider fails. */
const failures: Readonly<Record<string, string>> = {
  busy: 'Too many people are signing in right now. Try again in a moment.',
  expired: 'This sign-in took too long, or was started in another browser. Try again.',
  provider: 'The identity provider did not sign you in. Try again, or ask for a sign-in link.',
  invitation: 'This invitation has been used or is no longer valid. Ask for another.',
};

export interface SignInProps {
  readonly onSignedIn: () => Promise<void>;
}

export function SignIn({ onSignedIn }: SignInProps) {
  const [ways, setWays] = useState<Ways | undefined>();
  const [invitation, setInvitation] = useState<string | undefined>();
  const [pending, setPending] = useState<string | undefined>();
  const { isBusy, failure, run } = useWork();
  const failed = failures[location.value.query.get('failed') ?? ''];
  const toProvider = (): void =>
    run(async () => {
      const { url } = await callPath<{ readonly url: string }>('POST', '/oidc', { body: { invitation } });
      window.location.assign(url);
    });
  const signIn = (body: object): void =>
    run(async () => {
      await callPath('POST', '/session', { body });
      await onSignedIn();
    });
  useEffect(() => {
    document.title = 'Sign in · Headgate';
    const link = window.location.hash.slice(1);
    if (link !== '') {
      // The link is removed from the URL, so that neither the browser history nor a reload uses it again.
      go(location.value.path, { replace: true });
      if (link.startsWith(invitationMark)) setInvitation(link.slice(invitationMark.length));
    }
    const isTicket = link !== '' && !link.startsWith(invitationMark);
    callPath<Ways>('GET', '/sign-in').then(
      (found) => {
        setWays(found);
        // The link must not replace a session without a click, because anyone can send a link for their own account.
        if (isTicket && found.session) setPending(link);
        else if (isTicket) signIn({ link });
      },
      () => isTicket && setPending(link),
    );
  }, []);
  return (
    <main class="sign-in" id="main">
      <div class="card">
        <img src="/icon.svg" alt="" width="44" height="44" />
        <h1>Sign in to Headgate</h1>
        {failure ? <Failure failure={failure} /> : null}
        {failed === undefined || failure ? null : (
          <p class="notice bad" role="alert">
            {failed}
          </p>
        )}
        {invitation === undefined ? null : (
          <p class="notice good" role="status">
            {ways?.oidc === false
              ? 'No identity provider is configured, so this console cannot accept invitations. Ask for a sign-in link.'
              : 'You are invited. Sign in to become a member.'}
          </p>
        )}
        {pending === undefined ? null : (
          <LinkQuestion
            session={ways?.session ?? null}
            isBusy={isBusy}
            onUse={() => signIn({ link: pending })}
            onStay={() => run(onSignedIn)}
          />
        )}
        {ways?.oidc ? (
          <Button look="primary block" disabled={isBusy} onClick={toProvider}>
            Sign in with your organisation
          </Button>
        ) : null}
        <TokenForm isBusy={isBusy} onToken={(operatorToken) => signIn({ operatorToken })} />
        <p class="muted small">
          Operators: run <code>headgate console open</code> for a link. Members: ask an owner or admin of your
          organisation for one.
        </p>
        {ways && ways.demo.length > 0 ? (
          <Demo members={ways.demo} isBusy={isBusy} onChoose={(demo) => signIn({ demo })} />
        ) : null}
      </div>
    </main>
  );
}

interface LinkQuestionProps {
  readonly session: Ways['session'];
  readonly isBusy: boolean;
  readonly onUse: () => void;
  readonly onStay: () => void;
}

function LinkQuestion({ session, isBusy, onUse, onStay }: LinkQuestionProps) {
  const name = session?.person ?? 'the operator';
  return (
    <section class="notice warn" aria-label="Sign-in link">
      <p>
        {session ? (
          <>
            This browser is signed in as <strong>{name}</strong>. The link may sign you in as someone else.
            Use it only if you asked for it.
          </>
        ) : (
          'Use the sign-in link?'
        )}
      </p>
      <div class="dialog-actions row">
        <Button disabled={isBusy} onClick={onUse}>
          Sign in with the link
        </Button>
        {session ? (
          <Button look="primary" disabled={isBusy} onClick={onStay}>
            Stay signed in as {name}
          </Button>
        ) : null}
      </div>
    </section>
  );
}

function TokenForm({
  isBusy,
  onToken,
}: {
  readonly isBusy: boolean;
  readonly onToken: (token: string) => void;
}) {
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const token = new FormData(form).get('token');
    if (typeof token === 'string' && token.trim() !== '') onToken(token.trim());
    form.reset();
  };
  return (
    <form onSubmit={submit} class="token">
      <label class="field">
        <span>Operator token</span>
        <input name="token" type="password" autocomplete="off" required />
      </label>
      <button type="submit" class="button primary block" disabled={isBusy}>
        Sign in
      </button>
    </form>
  );
}

interface DemoProps {
  readonly members: Ways['demo'];
  readonly isBusy: boolean;
  readonly onChoose: (person: string) => void;
}

function Demo({ members, isBusy, onChoose }: DemoProps) {
  return (
    <section class="demo stack" aria-label="Members of the demo">
      <h2>Or look around as a member of the demo</h2>
      <ul>
        {members.map(({ organisation, person, role }) => (
          <li key={`${organisation} ${person}`}>
            <Button look="block" disabled={isBusy} onClick={() => onChoose(person)}>
              <span>
                <strong>{person}</strong>, {role} of {organisation}
              </span>
            </Button>
          </li>
        ))}
      </ul>
    </section>
  );
}
