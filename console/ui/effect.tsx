/** A command with what it would change: a sentence, and who would be answered otherwise. The one way to give those that turn answers. */
import { useEffect, useState } from 'preact/hooks';
import type { AnswerOf, InputOf } from '../../schemas/admin.ts';
import { partsOf, routeOf } from '../../schemas/admin-routes.ts';
import type { TurningName } from '../../schemas/turned-answers.ts';
import { call, callShown } from '../lib/api.ts';
import { count, nameSome, plural } from '../lib/format.ts';
import { FormDialog, type FormDialogProps } from './dialog.tsx';

type Effect = AnswerOf<'effect.get'>;
type Recorded = NonNullable<Effect['recorded']>;
type Group = Effect['static']['groups'][number];

export interface CommandProps<Name extends TurningName> {
  readonly name: Name;
  readonly input: InputOf<Name>;
}

interface CommandDialogProps<Name extends TurningName> extends Omit<FormDialogProps, 'work' | 'name'> {
  readonly command: CommandProps<Name>;
  /** Must be typed first. */
  readonly typed?: string;
  readonly onDone: (answer: AnswerOf<Name>) => void;
}

/** Asks, with what the command would change, and gives it. */
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
  /** It is under way: what it would change is not asked any more, because the answer would be about the state after it. */
  readonly isGiven?: boolean;
}

export function EffectOf<Name extends TurningName>({ name, input, isGiven = false }: EffectProps<Name>) {
  const [found, setFound] = useState<Effect | string | undefined>();
  const { path, rest } = partsOf(name, input);
  const asked = JSON.stringify({ method: routeOf(name).method, path, body: rest });
  useEffect(() => {
    if (isGiven) return;
    const closed = new AbortController();
    call('effect.get', JSON.parse(asked) as InputOf<'effect.get'>, { signal: closed.signal }).then(
      setFound,
      (error: unknown) => {
        if (!closed.signal.aborted) setFound(error instanceof Error ? error.message : String(error));
      },
    );
    return () => closed.abort();
  }, [asked, isGiven]);
  if (found === undefined) return <p role="status">What it would change is being worked out…</p>;
  if (typeof found === 'string') return <p role="status">What it would change is not known: {found}</p>;
  const { recorded, static: all, limits } = found;
  return (
    <div class="effect">
      <p role="status">
        {recorded === undefined ? null : `${recordedSentence(recorded)} `}
        {sentence(all)}
      </p>
      <Groups
        title="Requests of the last hour"
        counted="Requests"
        rows={(recorded?.groups ?? []).map(({ organisation = 'visitors', requests, ...group }) => ({
          ...group,
          who: organisation,
          number: requests,
        }))}
      />
      <Groups
        title="Who is answered otherwise"
        counted="Combinations"
        rows={all.groups.map((group) => ({ ...group, who: whoOf(group), number: group.count }))}
      />
      {limits.length === 0 ? null : <p>{plural(limits.length, 'limit')} would be lower.</p>}
    </div>
  );
}

const shownMax = 20;

interface Row extends Pick<Group, 'host' | 'from' | 'to'> {
  readonly who: string;
  readonly model?: string | undefined;
  readonly operation?: string | undefined;
  readonly number: number;
}

interface GroupsProps {
  readonly title: string;
  /** What the numbers are of. */
  readonly counted: string;
  readonly rows: readonly Row[];
}

function Groups({ title, counted, rows }: GroupsProps) {
  if (rows.length === 0) return null;
  return (
    <details>
      <summary>{title}</summary>
      <table>
        <thead>
          <tr>
            {['Organisation', 'Host', 'Model', 'Now', 'Then', counted].map((heading) => (
              <th key={heading} scope="col">
                {heading}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, shownMax).map((row) => (
            <tr key={JSON.stringify(row)}>
              <td>{row.who}</td>
              <td>{row.host}</td>
              <td>{modelText(row)}</td>
              <td>{row.from}</td>
              <td>{row.to}</td>
              <td>{count(row.number)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > shownMax ? (
        <p>and {count(rows.length - shownMax)} more: headgate … --effect -o json</p>
      ) : null}
    </details>
  );
}

function modelText({ model = '–', operation }: Row): string {
  return operation === undefined ? model : `${model} (${operation})`;
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

function whoOf({ organisation, examples, count: of }: Group): string {
  return organisation ?? (of > examples.length ? `${count(of)} organisations` : nameSome(examples));
}
