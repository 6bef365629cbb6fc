/** What a command would change, in the dialog that asks for it: a sentence, and who would be answered otherwise. */
import { useEffect, useState } from 'preact/hooks';
import type { AnswerOf, InputOf } from '../../schemas/admin.ts';
import { type OperationName, partsOf, routeOf } from '../../schemas/admin-routes.ts';
import { call } from '../lib/api.ts';
import { count, nameSome, plural } from '../lib/format.ts';

type Effect = AnswerOf<'effect.get'>;
type Recorded = NonNullable<Effect['recorded']>;
type Group = Effect['static']['groups'][number];

export interface EffectProps<Name extends OperationName> {
  readonly name: Name;
  readonly input: InputOf<Name>;
}

export function EffectOf<Name extends OperationName>({ name, input }: EffectProps<Name>) {
  const [found, setFound] = useState<Effect | string | undefined>();
  const { path, rest } = partsOf(name, input);
  const asked = JSON.stringify({ method: routeOf(name).method, path, body: rest });
  useEffect(() => {
    const closed = new AbortController();
    call('effect.get', JSON.parse(asked) as InputOf<'effect.get'>, { signal: closed.signal }).then(
      setFound,
      (error: unknown) => setFound(error instanceof Error ? error.message : String(error)),
    );
    return () => closed.abort();
  }, [asked]);
  if (found === undefined) return <p role="status">What it would change is being worked out…</p>;
  if (typeof found === 'string') return <p role="status">What it would change is not known: {found}</p>;
  const { recorded, static: all, limits } = found;
  return (
    <div class="effect">
      <p role="status">
        {recorded === undefined ? null : `${recordedSentence(recorded)} `}
        {sentence(all)}
      </p>
      {recorded === undefined || recorded.groups.length === 0 ? null : (
        <RecordedGroups groups={recorded.groups} />
      )}
      {all.groups.length === 0 ? null : (
        <details>
          <summary>Who is answered otherwise</summary>
          <ul>
            {all.groups.slice(0, shownMax).map((group) => (
              <li key={JSON.stringify(group)}>{groupText(group)}</li>
            ))}
          </ul>
          {all.groups.length > shownMax ? (
            <p>and {count(all.groups.length - shownMax)} more: headgate … --effect</p>
          ) : null}
        </details>
      )}
      {limits.length === 0 ? null : <p>{plural(limits.length, 'limit')} would be lower.</p>}
    </div>
  );
}

const shownMax = 20;

/** Which requests of the last hour. */
function RecordedGroups({ groups }: Pick<Recorded, 'groups'>) {
  return (
    <details>
      <summary>Requests of the last hour</summary>
      <table>
        <thead>
          <tr>
            {['Organisation', 'Host', 'Model', 'Now', 'Then', 'Requests'].map((heading) => (
              <th key={heading} scope="col">
                {heading}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {groups.slice(0, shownMax).map(({ organisation, host, model, from, to, requests, examples }) => (
            <tr key={examples[0]}>
              <td>{organisation ?? 'visitors'}</td>
              <td>{host}</td>
              <td>{model ?? '–'}</td>
              <td>{from}</td>
              <td>{to}</td>
              <td>{count(requests)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

function refusedPart(differ: number, refused: number): string {
  if (refused === 0) return '';
  return refused === differ ? ', all of them refused' : `, ${count(refused)} of them refused`;
}

function recordedSentence({ asked, differ, refused, gatewaysSilent }: Recorded): string {
  const silent = gatewaysSilent.length === 0 ? '' : ` Requests of ${nameSome(gatewaysSilent)} are not known.`;
  return `${count(differ)} of ${plural(asked, 'request')} of the last hour would be answered otherwise${refusedPart(differ, refused)}.${silent}`;
}

function sentence({ combinations, differ, refused }: Effect['static']): string {
  if (differ === 0) return 'No combination of organisation, host and model would be answered otherwise.';
  return `${count(differ)} of ${plural(combinations, 'combination')} of organisation, host and model would be answered otherwise${refusedPart(differ, refused)}.`;
}

function groupText({ organisation, host, model, operation, from, to, examples, count: of }: Group): string {
  const who = organisation ?? (of > examples.length ? `${count(of)} organisations` : nameSome(examples));
  const what = operation === undefined ? model : `${model} (${operation})`;
  return `${who}, ${what} at ${host === 'shared' ? 'the shared host' : host}: ${from} → ${to}`;
}
