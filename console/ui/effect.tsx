/** Dialog that shows a command's effect first. Every command that can change the outcome of requests must use it. */
import { useEffect, useState } from 'preact/hooks';
import type { OperationAnswer, OperationInput } from '../../schemas/admin/admin.ts';
import { operationRoute, resolvePath } from '../../schemas/admin/admin-routes.ts';
import type { TurningName } from '../../schemas/admin/turned-answers.ts';
import { call, callShown } from '../lib/api.ts';
import { count, nameSome, plural } from '../lib/format.ts';
import { FormDialog, type FormDialogProps } from './dialog.tsx';

type Effect = OperationAnswer<'effect.get'>;
type RecordedEffect = NonNullable<Effect['recorded']>;

export interface CommandProps<Name extends TurningName> {
  readonly name: Name;
  readonly input: OperationInput<Name>;
}

interface CommandDialogProps<Name extends TurningName> extends Omit<FormDialogProps, 'work' | 'name'> {
  readonly command: CommandProps<Name>;
  /** Name that the user must type to confirm. */
  readonly typed?: string;
  readonly onDone: (answer: OperationAnswer<Name>) => void;
}

/** Shows the effect of a command, asks for confirmation and then runs the command. */
export function CommandDialog<Name extends TurningName>(props: CommandDialogProps<Name>) {
  const { command, typed, onDone, children, ...dialog } = props;
  const [isGiven, setGiven] = useState(false);
  const give = async (): Promise<void> => {
    setGiven(true);
    try {
      onDone(await callShown(command.name, command.input));
    } catch (error) {
      setGiven(false);
      throw error;
    }
  };
  return (
    <FormDialog {...dialog} isDanger {...(typed !== undefined && { name: typed })} work={give}>
      {children}
      <EffectOf {...command} isGiven={isGiven} />
    </FormDialog>
  );
}

interface EffectProps<Name extends TurningName> extends CommandProps<Name> {
  /** Whether the command is running. If so, its effect is no longer requested, because the state may have changed already. */
  readonly isGiven?: boolean;
}

export function EffectOf<Name extends TurningName>({ name, input, isGiven = false }: EffectProps<Name>) {
  const [found, setFound] = useState<Effect | string | undefined>();
  const { path, rest } = resolvePath(name, input);
  const asked = JSON.stringify({ method: operationRoute(name).method, path, body: rest });
  useEffect(() => {
    if (isGiven) return;
    const closed = new AbortController();
    call('effect.get', JSON.parse(asked) as OperationInput<'effect.get'>, { signal: closed.signal }).then(
      setFound,
      (error: unknown) => {
        if (!closed.signal.aborted) setFound(error instanceof Error ? error.message : String(error));
      },
    );
    return () => closed.abort();
  }, [asked, isGiven]);
  if (found === undefined) return <p role="status">Working out what this would change…</p>;
  if (typeof found === 'string') return <p role="status">Cannot tell what this would change: {found}</p>;
  const { recorded, limits, changes = [] } = found;
  return (
    <div class="effect">
      <p role="status">{recorded === undefined ? 'Nothing would change.' : recordedSentence(recorded)}</p>
      <Groups rows={recorded?.groups ?? []} />
      {changes.length === 0 ? null : (
        <p>
          {plural(changes.length, 'row')} would change:{' '}
          {nameSome(changes.map(({ table, id }) => `${table} ${id}`))}.
        </p>
      )}
      {limits.length === 0 ? null : <p>{plural(limits.length, 'limit')} would be lower.</p>}
    </div>
  );
}

const shownMax = 20;

function Groups({ rows }: { readonly rows: RecordedEffect['groups'] }) {
  if (rows.length === 0) return null;
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
          {rows.slice(0, shownMax).map(({ organisation = 'visitors', host, from, to, requests, ...row }) => (
            <tr key={JSON.stringify([organisation, host, from, to, row.model, row.operation])}>
              <td>{organisation}</td>
              <td>{host}</td>
              <td>{modelText(row)}</td>
              <td>{from}</td>
              <td>{to}</td>
              <td>{count(requests)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > shownMax ? (
        <p>And {count(rows.length - shownMax)} more: headgate … --effect -o json</p>
      ) : null}
    </details>
  );
}

function modelText({
  model = '–',
  operation,
}: Pick<RecordedEffect['groups'][number], 'model' | 'operation'>) {
  return operation === undefined ? model : `${model} (${operation})`;
}

function refusedPart(differ: number, refused: number): string {
  if (refused === 0) return '';
  return refused === differ ? ', all of them refused' : `, ${count(refused)} of them refused`;
}

function recordedSentence({
  asked,
  differ,
  refused,
  gatewaysSilent,
  gatewaysUnseen = [],
}: RecordedEffect): string {
  const reported = gatewaysSilent.filter((name) => !gatewaysUnseen.includes(name));
  const texts = [
    asked === 0
      ? 'No request was served in the last hour.'
      : `${differ === 0 ? 'None of the' : `${count(differ)} of`} ${plural(asked, 'request')} served in the last hour would be answered differently${refusedPart(differ, refused)}.`,
    reported.length > 0 && `Only traffic reports are available from ${nameSome(reported)}.`,
    gatewaysUnseen.length > 0 && `Requests at ${nameSome(gatewaysUnseen)} are unknown.`,
  ];
  return texts.filter((text) => text !== false).join(' ');
}
