/** Runs the checks of `doctor` over facts. The CLI, the admin API and `/readyz?verbose` show what it finds. */
import { type DoctorCheck, type DoctorGroup, doctorGroups } from './check.ts';
import type { DoctorFacts } from './facts.ts';
import { gatewayChecks, nodeChecks } from './fleet-checks.ts';
import { logChecks } from './log-checks.ts';
import { controlPlaneChecks, machineChecks } from './machine-checks.ts';
import { consoleChecks, limitChecks, modelChecks } from './model-checks.ts';

/** In the order in which they are shown. */
const doctorChecks: Readonly<Record<DoctorGroup, readonly DoctorCheck[]>> = {
  machine: machineChecks,
  log: logChecks,
  'control-planes': controlPlaneChecks,
  gateways: gatewayChecks,
  nodes: nodeChecks,
  models: modelChecks,
  limits: limitChecks,
  console: consoleChecks,
};

export interface CheckResult {
  readonly code: string;
  readonly group: DoctorGroup;
  readonly level: 'ok' | 'warn' | 'fail';
  readonly object?: string;
  readonly text: string;
  readonly next?: string;
  /** What to read about it. */
  readonly page?: string;
  /** How many findings it stands for, where that is more than one. */
  readonly findings?: number;
}

export interface Diagnosis {
  /** Each finding, and one entry for each check that found nothing. */
  readonly checks: readonly CheckResult[];
  /** How many checks are well. */
  readonly ok: number;
  /** How many findings there are. */
  readonly warn: number;
  readonly fail: number;
}

/** Findings of one check at most; the last one counts the rest. */
const findingsMax = 50;

/** Checks whose facts are not known are left out. */
export function diagnose(facts: DoctorFacts, groups: readonly DoctorGroup[] = doctorGroups): Diagnosis {
  return summarise(
    doctorGroups
      .filter((group) => groups.includes(group))
      .flatMap((group) => doctorChecks[group].flatMap((check) => resultsOf(group, check, facts))),
  );
}

export function summarise(checks: readonly CheckResult[]): Diagnosis {
  const count = (level: CheckResult['level']): number =>
    checks.reduce((sum, check) => sum + (check.level === level ? (check.findings ?? 1) : 0), 0);
  return { checks, ok: count('ok'), warn: count('warn'), fail: count('fail') };
}

function resultsOf(group: DoctorGroup, { code, well, find }: DoctorCheck, facts: DoctorFacts): CheckResult[] {
  const found = find(facts);
  if (found === undefined) return [];
  if (found.length === 0) return [{ code, group, level: 'ok', text: well }];
  const page = `docs/errors/${code}.md`;
  const shown = found.slice(0, findingsMax).map((finding) => ({ code, group, ...finding, page }));
  const [first] = found;
  if (found.length <= findingsMax || first === undefined) return shown;
  const findings = found.length - findingsMax;
  const rest = { ...first, object: 'others', text: `${findings} more of this kind`, findings };
  return [...shown, { code, group, ...rest, page }];
}
