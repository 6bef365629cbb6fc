/**
 * Steps that are refused for several reasons, in words: what the rules alone do not say is known by the type of the refusal and
 * by its reason, as the gateway gave them.
 */
import type { StepFacts, StepName } from '../../shared/decision/trace.ts';

/** The first that fits `TYPE: REASON`. */
type Texts = readonly (readonly [is: RegExp, text: string])[];

const tooMuchMemory = 'the bodies of its organisation took all the memory that one may have';
const any = /(?:)/;

const texts = {
  /** Why there was no request for the rules to judge. */
  http: [
    [/: bad http$/, 'it is not well-formed HTTP'],
    [/: large headers$/, 'its headers are too large'],
    [/: no visitor$/, 'it has no cookie of a visitor'],
    [/^NotFoundError/, 'the playground has no such call'],
    [/^Unauthorized/, 'its key is not accepted'],
    [/: new visitors$/, 'its network has had too many new visitors in this hour'],
    [any, 'it was not read'],
  ],
  key: [
    [/: missing$/, 'no key was sent'],
    [/: malformed$/, 'what was sent has not the form of a key'],
    [/: two different keys$/, 'two different keys were sent'],
    [any, 'no key that is known'],
  ],
  shape: [
    [/^PayloadTooLargeError/, 'the body is too large'],
    [/: slow body$/, 'the body came too slowly'],
    [/: body budget of the organisation$/, tooMuchMemory],
    [/: body budget$/, 'there was no memory for the body'],
    [/: shaping: /, 'the gateway could not finish reading the body'],
    [/: encoded body$/, 'the body is encoded'],
    [any, 'the body is of no form that can be carried'],
  ],
  usage: [
    [/: usage unknown$/, 'what the caller has used was not known'],
    [any, 'usage could not be recorded'],
  ],
  listing: [
    [/: foreign or missing stack$/, 'this stack is not yours, or not there'],
    [any, 'it is not in the list of this host'],
  ],
  /** It passed the rules. */
  answer: [
    [/^InternalError/, 'the gateway failed to handle it'],
    [/^ContextWindowExceededError/, 'it needs more than the context window of the model'],
    [/^UnsupportedShapeError/, 'the engine of the node does not take such a request'],
    [/: body budget of the organisation$/, tooMuchMemory],
    [/: body budget$/, 'there was no memory for the answer'],
    [/: shaping: /, 'the gateway could not finish work on it'],
    [any, 'the node did not answer it'],
  ],
} as const satisfies { readonly [Name in StepName]?: Texts };

export function refusalText(step: keyof typeof texts, { type, reason }: StepFacts): string {
  const given = `${String(type ?? '')}: ${String(reason ?? '')}`;
  const found: Texts = texts[step];
  return found.find(([is]) => is.test(given))?.[1] ?? '';
}
