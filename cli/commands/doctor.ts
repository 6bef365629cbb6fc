/** `headgate doctor`: what is wrong, with a code, the object and the next step. Quiet when all is well. */
import { type Command, InvalidArgumentError } from 'commander';
import type { AdminResponse } from '../../schemas/admin.ts';
import { type DoctorGroup, doctorGroups } from '../../shared/doctor/check.ts';
import { type CheckResult, diagnose, summarise } from '../../shared/doctor/diagnose.ts';
import { Exit, usageError } from '../terminal/errors.ts';
import type { Io } from '../terminal/io.ts';
import type { Session } from '../terminal/session.ts';
import { groups as helpGroups, verb } from '../terminal/verbs.ts';
import { type MachineAsked, machineFacts } from './machine-facts.ts';
import { type ProbeOptions, probeStacks } from './stack-probe.ts';

interface DoctorOptions extends ProbeOptions {
  readonly only?: string;
  readonly skip?: string;
  readonly pre?: boolean;
  readonly strict?: boolean;
  readonly verbose?: boolean;
  readonly data?: string;
  readonly ports?: readonly number[];
}

/** Of a gateway and of a control plane: the API, the admin API, and the health of both. */
const defaultPorts: readonly number[] = [8080, 8081, 9464];
const portsMax = 100;

function ports(text: string): number[] {
  const list = text.split(',').map(Number);
  if (list.length > portsMax || list.some((port) => !Number.isInteger(port) || port < 1 || port > 65_535))
    throw new InvalidArgumentError('It must be ports, separated by commas.');
  return list;
}

const signs: Readonly<Record<CheckResult['level'], string>> = { ok: '✓', warn: '‼', fail: '⨉' };

export function registerDoctor(program: Command, io: Io): void {
  const doctor = verb(program, io, 'doctor', 'check the machine, the log, all processes, models and limits', [
    'headgate doctor',
    'headgate doctor --only log,gateways -o json',
    'headgate doctor --pre',
  ]);
  doctor
    .option('--only <groups>', `only these groups: ${doctorGroups.join(',')}`)
    .option('--skip <groups>', 'all but these groups')
    .option('--pre', 'only what can be checked before an installation')
    .option('--strict', 'exit 1 at warnings too')
    .option('--data <folder>', 'the data folder of the process on this machine')
    .option('--ports <list>', 'ports that must be free; with --pre 8080,8081,9464 by default', ports)
    .option('--probe <url>', 'ask this gateway for a foreign stack and for one that is not there')
    .option('--key-file <file>', 'key for the probe')
    .option('--stack <id>', 'stack of another organisation, for the probe')
    .option('-v, --verbose', 'show checks that are well')
    .action<DoctorOptions>(check);
  doctor.command.option('--stack-domain <name>', 'domain of stack hosts, for the probe', 'localhost');
  doctor.command.helpGroup(helpGroups.healthy);
}

function groupsOf({ only, skip, pre }: DoctorOptions): readonly DoctorGroup[] {
  const wanted = pre ? ['machine'] : (only?.split(',') ?? doctorGroups);
  const skipped = skip?.split(',') ?? [];
  const unknown = [...wanted, ...skipped].find((name) => !doctorGroups.some((group) => group === name));
  if (unknown !== undefined)
    throw usageError(
      `there is no group ${unknown}; there are ${doctorGroups.join(', ')}`,
      'headgate help doctor',
    );
  return doctorGroups.filter((group) => wanted.includes(group) && !skipped.includes(group));
}

/** Where processes run already, their ports are taken by them: only those that are named are tried. */
function machineAsked({ data, pre = false, ports: wanted }: DoctorOptions): MachineAsked {
  return { data, ports: wanted ?? (pre ? defaultPorts : undefined) };
}

async function check(session: Session, options: DoctorOptions): Promise<void> {
  const groups = groupsOf(options);
  const local = groups.includes('machine')
    ? diagnose({ machine: await machineFacts(session, machineAsked(options)) }, ['machine']).checks
    : [];
  const probe = groups.includes('gateways') ? await probeStacks(session, options) : undefined;
  const probed = diagnose({ probe }, ['gateways']).checks;
  const others = groups.filter((group) => group !== 'machine');
  let answer: AdminResponse<'GET /doctor'> | undefined;
  if (others.length > 0) answer = await (await session.api()).get('/doctor', { only: others.join(',') });
  const { checks, ok, warn, fail } = summarise([
    ...local,
    ...((answer?.checks ?? []) as CheckResult[]),
    ...probed,
  ]);
  const document = { checks, ok, warn, fail, ...(answer && { position: answer.position }) };
  await session.out.lines(linesOf(document, options.verbose === true), document, fail > 0 ? 'fail' : 'ok');
  if (fail > 0 || (options.strict && warn > 0)) throw new Exit(1);
}

interface Shown {
  readonly checks: readonly CheckResult[];
  readonly ok: number;
  readonly warn: number;
  readonly fail: number;
  readonly position?: number;
}

function linesOf({ checks, ok, warn, fail, position }: Shown, isVerbose: boolean): string[] {
  const count = new Set(checks.map(({ code }) => code)).size;
  const at = position === undefined ? '' : `, position ${position}`;
  const shown = isVerbose ? checks : checks.filter(({ level }) => level !== 'ok');
  const lines = doctorGroups.flatMap((group) => {
    const own = shown.filter((each) => each.group === group);
    return own.length === 0 ? [] : [group, ...own.flatMap(linesOfCheck)];
  });
  if (warn + fail === 0) return [...lines, `Everything checked is well: ${count} checks${at}`];
  return [
    ...lines,
    '',
    `${count} checks: ${ok} ${signs.ok}  ${warn} ${signs.warn}  ${fail} ${signs.fail}${at}`,
  ];
}

function linesOfCheck({ code, level, object, text, next, page }: CheckResult): string[] {
  const what = object === undefined ? text : `${object}: ${text}`;
  const first = `  ${signs[level]} ${code}  ${what}`;
  if (level === 'ok') return [first];
  return [first, `            next  ${next ?? ''}`, `            more  ${page ?? ''}`];
}
