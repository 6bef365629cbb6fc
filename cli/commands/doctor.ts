/** `headgate doctor` reports problems, each with a code, the affected object and the next step. */
import { type Command, InvalidArgumentError } from 'commander';
import { type DoctorGroup, doctorGroups } from '../../control-plane/doctor/check.ts';
import { type CheckResult, diagnose, summarise } from '../../control-plane/doctor/diagnose.ts';
import type { DoctorFacts } from '../../control-plane/doctor/facts.ts';
import type { OperationAnswer } from '../../schemas/admin/admin.ts';
import { dayMs } from '../../schemas/durations.ts';
import { groupDigits } from '../../schemas/grouped.ts';
import { wallClockMs } from '../../shared/runtime/clock.ts';
import { type Environment, readSetting } from '../../shared/runtime/settings.ts';
import { Exit } from '../terminal/errors.ts';
import type { Io } from '../terminal/io.ts';
import { namesParser } from '../terminal/options.ts';
import type { Session } from '../terminal/session.ts';
import { groups as helpGroups, verb } from '../terminal/verbs.ts';
import { type MachineQuery, machineFacts } from './machine-facts.ts';
import { type ProbeOptions, probeStacks } from './stack-probe.ts';
import { openChange } from './status.ts';

interface DoctorOptions extends ProbeOptions {
  readonly only?: readonly DoctorGroup[];
  readonly skip?: readonly DoctorGroup[];
  readonly pre?: boolean;
  readonly strict?: boolean;
  readonly verbose?: boolean;
  readonly data?: string;
  readonly ports?: readonly number[];
}

/** Ports that processes use by default: for the API, the admin API, and health and metrics. */
const defaultPorts: readonly number[] = [8080, 8081, 9464];
const portsMax = 100;

function parsePorts(text: string): number[] {
  const list = text.split(',').map(Number);
  if (list.length > portsMax || list.some((port) => !Number.isInteger(port) || port < 1 || port > 65_535))
    throw new InvalidArgumentError('It must be ports, separated by commas.');
  return list;
}

const signs: Readonly<Record<CheckResult['level'], string>> = { ok: '✓', warn: '‼', fail: '⨉' };

export function registerDoctor(program: Command, io: Io): void {
  const doctor = verb(
    program,
    io,
    'doctor',
    'check the machine, the log, all processes, models and limits for faults',
    ['headgate doctor', 'headgate doctor --only log,gateways -o json', 'headgate doctor --pre'],
  );
  doctor
    .option(
      '--only <groups>',
      `only check these groups: ${doctorGroups.join(',')}`,
      namesParser(doctorGroups),
    )
    .option('--skip <groups>', 'check all groups except these', namesParser(doctorGroups))
    .option(
      '--pre',
      'check only what exists before an installation: the machine, and the log and certificate that HEADGATE_* variables name',
    )
    .option('--strict', 'also exit 1 if there are only warnings')
    .option('--data <folder>', 'data folder of a process on this machine')
    .option('--ports <list>', 'ports that must be free; with --pre, 8080,8081,9464 by default', parsePorts)
    .option(
      '--probe <url>',
      "check that this gateway responds in the same way for another organisation's stack and for a missing stack",
    )
    .option('--key-file <file>', 'file with the API key for --probe')
    .option('--stack <id>', 'stack of another organisation, for --probe')
    .option('-v, --verbose', 'also show checks that passed')
    .action<DoctorOptions>(check);
  doctor.command.option('--stack-domain <name>', 'domain of the stack hosts, for --probe', 'localhost');
  doctor.command.helpGroup(helpGroups.healthy);
}

/** Groups of checks without a control plane. A log or certificate is checked only if an environment variable names it. */
const preGroups: readonly DoctorGroup[] = ['machine', 'log', 'console'];
/** Codes of the checks that already work before a process is started. */
const preCodes = new Set(['HG2001', 'HG2009', 'HG2010', 'HG2011', 'HG8001']);

function selectGroups({ only, skip = [], pre }: DoctorOptions): readonly DoctorGroup[] {
  const wanted = pre ? preGroups : (only ?? doctorGroups);
  return doctorGroups.filter((group) => wanted.includes(group) && !skip.includes(group));
}

/** Selects this machine's checks. Ports are checked only if named or with --pre, because running processes use theirs. */
function machineQuery({ data, pre = false, ports: wanted }: DoctorOptions): MachineQuery {
  return { data, ports: wanted ?? (pre ? defaultPorts : undefined) };
}

async function check(session: Session, options: DoctorOptions): Promise<void> {
  const groups = selectGroups(options);
  const local: CheckResult[] = [];
  if (groups.includes('machine')) {
    const machine = await machineFacts(session, machineQuery(options));
    local.push(...diagnose({ machine, now: wallClockMs() }, ['machine']).checks);
  }
  if (options.pre) local.push(...(await checkBeforeStart(groups, session.io.env)));
  const probe = groups.includes('gateways') ? await probeStacks(session, options) : undefined;
  const probed = diagnose({ probe }, ['gateways']).checks;
  const others = options.pre ? [] : groups.filter((group) => group !== 'machine');
  let answer: OperationAnswer<'doctor.get'> | undefined;
  if (others.length > 0) answer = await (await session.api()).run('doctor.get', { only: others.join(',') });
  const { checks, ok, warn, fail } = summarise([
    ...local,
    ...((answer?.checks ?? []) as CheckResult[]),
    ...probed,
  ]);
  const document = { checks, ok, warn, fail, ...(answer && { position: answer.position }) };
  await session.out.lines(
    formatReport(document, options.verbose === true),
    document,
    fail > 0 ? 'fail' : 'ok',
  );
  if (answer !== undefined && groups.includes('changes'))
    for (const text of openChange((await (await session.api()).run('gateway.list')).items))
      session.note(text);
  if (fail > 0 || (options.strict && warn > 0)) throw new Exit(1);
}

/** Checks the log that a process would open and the certificate that it would use, before any process is started. */
async function checkBeforeStart(groups: readonly DoctorGroup[], env: Environment): Promise<CheckResult[]> {
  const { probeLog } = await import('./probe-log.ts');
  const url = groups.includes('log') ? readSetting('HEADGATE_LOG', env) : undefined;
  const log = url === undefined ? undefined : { ...unopened, ...(await probeLog(url)) };
  const listeners = groups.includes('console') ? await certificateFacts(env) : undefined;
  return diagnose({ log, listeners }, groups).checks.filter(({ code }) => preCodes.has(code));
}

/** Placeholder for facts that are known only once the log is open. */
const unopened = { position: 0, freshSeconds: 0, skipped: 0, isSigned: false };

async function certificateFacts(env: Environment): Promise<DoctorFacts['listeners']> {
  const { Certificate } = await import('../../shared/runtime/tls.ts');
  const [cert, key] = ['HEADGATE_TLS_CERT', 'HEADGATE_TLS_KEY'].map((name) => readSetting(name, env));
  if (cert === undefined && key === undefined) return undefined;
  const listener = { name: cert ?? 'HEADGATE_TLS_CERT', isLoopback: true };
  try {
    if (cert === undefined || key === undefined)
      throw new Error('HEADGATE_TLS_CERT and HEADGATE_TLS_KEY must be given together');
    const { validUntil } = new Certificate({ cert, key });
    return [{ ...listener, daysLeft: (Date.parse(validUntil) - wallClockMs()) / dayMs }];
  } catch (error) {
    return [{ ...listener, certificateFault: error instanceof Error ? error.message : String(error) }];
  }
}

interface DoctorReport {
  readonly checks: readonly CheckResult[];
  readonly ok: number;
  readonly warn: number;
  readonly fail: number;
  readonly position?: number;
}

function formatReport({ checks, ok, warn, fail, position }: DoctorReport, isVerbose: boolean): string[] {
  const count = new Set(checks.map(({ code }) => code)).size;
  const at = position === undefined ? '' : `, position ${position}`;
  const shown = isVerbose ? checks : checks.filter(({ level }) => level !== 'ok');
  const lines = doctorGroups.flatMap((group) => {
    const own = shown.filter((each) => each.group === group);
    return own.length === 0 ? [] : [group, ...own.flatMap(formatCheck)];
  });
  if (warn + fail === 0) return [...lines, `All ${count} checks passed${at}`];
  return [
    ...lines,
    '',
    `${count} checks: ${ok} ${signs.ok}  ${warn} ${signs.warn}  ${fail} ${signs.fail}${at}`,
  ];
}

function formatCheck(check: CheckResult): string[] {
  const { code, level, next, page, examples = [], findings = 1 } = check;
  const first = `  ${signs[level]} ${code}  ${subject(check)}`;
  if (level === 'ok') return [first];
  const others = findings - 1 - examples.length;
  const lines = [
    ...examples.map((example) => `also  ${subject(example)}`),
    ...(others > 0 ? [`also  ${groupDigits(others)} others`] : []),
    `next  ${next ?? ''}`,
    `more  ${page ?? ''}`,
  ];
  return [first, ...lines.map((line) => `            ${line}`)];
}

function subject({ object, text }: Pick<CheckResult, 'object' | 'text'>): string {
  return object === undefined ? text : `${object}: ${text}`;
}
