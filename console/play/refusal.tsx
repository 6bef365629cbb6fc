/** Explains a failed turn to the user, with a short title, the service's message and the next step. */
import type { JSX } from 'preact';
import type { RefusalType } from '../../schemas/api/refusals.ts';
import type { TurnFault } from './use-conversation.ts';

type Way = 'sign-in' | 'again' | 'new';

/** Title and remedy for each refusal type. The remedy of signing in is offered only to visitors. */
const kinds: Readonly<Record<RefusalType, readonly [title: string, way?: Way]>> = {
  Unauthorized: ['This key is not accepted'],
  UnsupportedShapeError: ['The playground cannot send this'],
  InferenceUnavailableError: ['The model is not available right now', 'again'],
  ModelNotInPlanError: ['This model is not in your tier', 'sign-in'],
  DedicatedOnlyModelError: ['This model is on dedicated stacks only', 'sign-in'],
  TargetNotServingError: ['This stack does not serve the model'],
  InferenceUpsellError: ['Nothing left for now', 'sign-in'],
  ContextWindowExceededError: ['The conversation is too long for this model', 'new'],
  InferenceRateLimitedError: ['Too many requests', 'again'],
  InferenceConcurrencyLimitedError: ['Too many requests at once', 'again'],
  NotFoundError: ['Not available in the playground'],
  PayloadTooLargeError: ['The message is too long'],
  InternalError: ['The service failed', 'again'],
};

const isKnown = (type: string): type is RefusalType => Object.hasOwn(kinds, type);

export interface RefusalProps {
  readonly fault: TurnFault;
  /** URL of the console, if it is known. */
  readonly console: string | undefined;
  readonly isVisitor: boolean;
  readonly onAgain: () => void;
  readonly onNew: () => void;
}

export function RefusalNotice({ fault, console, isVisitor, onAgain, onNew }: RefusalProps): JSX.Element {
  const { message, type, requestId, isEarly = false } = fault;
  const [title, way = ''] = isKnown(type)
    ? kinds[type]
    : isEarly
      ? ['Stopped']
      : (['No answer arrived', 'again'] as const);
  const maySignIn = isVisitor && console !== undefined && (way === 'sign-in' || message.includes('Sign in'));
  return (
    <div class={isEarly ? 'notice stack muted' : 'notice stack warn'} role="alert">
      <p>
        <strong>{title}.</strong> {message}
      </p>
      <div class="row">
        {maySignIn && (
          <a class="button primary" href={`${console}/sign-in`} rel="noreferrer">
            Sign in
          </a>
        )}
        {way === 'again' && (
          <button class="button" type="button" onClick={onAgain}>
            Try again
          </button>
        )}
        {way === 'new' && (
          <button class="button" type="button" onClick={onNew}>
            Start a new conversation
          </button>
        )}
        <ExplainLink console={console} requestId={requestId} />
      </div>
    </div>
  );
}

export function ExplainLink({
  console,
  requestId,
}: {
  readonly console: string | undefined;
  readonly requestId: string | undefined;
}): JSX.Element | null {
  if (console === undefined || requestId === undefined) return null;
  return (
    <a href={`${console}/explain?request=${encodeURIComponent(requestId)}`} rel="noreferrer">
      Explain this request
    </a>
  );
}
