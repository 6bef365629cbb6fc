/**
 * Runs the checks of `doctor` for the CLI, the admin API and `/readyz?verbose`. Checks are pure functions of the facts: they
 * must not read a clock, a database or the network. Each code has a page in `docs/errors`.
 */
import { changeChecks } from './change-checks.ts';
import { type DoctorCheck, type DoctorGroup, doctorGroups, type Finding } from './check.ts';
import type { DoctorFacts } from './facts.ts';
import { gatewayChecks, nodeChecks } from './fleet-checks.ts';
import { logChecks } from './log-checks.ts';
import { controlPlaneChecks, machineChecks } from './machine-checks.ts';
import { consoleChecks, limitChecks, modelChecks } from './model-checks.ts';

/** Checks by group, in display order. */
const doctorChecks: Readonly<Record<DoctorGroup, readonly DoctorCheck[]>> = {
  machine: machineChecks,
  log: logChecks,
  'control-planes': controlPlaneChecks,
  gateways: gatewayChecks,
  nodes: nodeChecks,
  models: modelChecks,
  limits: limitChecks,
  console: consoleChecks,
  changes: changeChecks,
};

export interface CheckResult {
  readonly code: string;
  readonly group: DoctorGroup;
  readonly level: 'ok' | 'warn' | 'fail';
  readonly object?: string;
  readonly text: string;
  readonly next?: string;
  /** Path of the page that explains the finding. */
  readonly page?: string;
  /** Number of findings that this result represents, if there are several. */
  readonly findings?: number;
  /** Some of the other findings that this result represents. */
  readonly examples?: Omit<Finding, 'level'>[];
}

export interface Diagnosis {
  /** Results: one for each check without findings, and a limited number for each check with findings. */
  readonly checks: readonly CheckResult[];
  /** Number of checks without findings. */
  readonly ok: number;
  /** Number of findings, not of results. One result may represent many findings. */
  readonly warn: number;
  readonly fail: number;
}

/**
 * Maximum number of findings of one check and level that are listed one by one. If there are more, the first stands for all.
 */
const shownAloneMax = 20;
const examplesMax = 5;

/** Runs the checks of the given groups. Skips checks whose facts are not known. */
export function diagnose(facts: DoctorFacts, groups: readonly DoctorGroup[] = doctorGroups): Diagnosis {
  return summarise(
    doctorGroups
      .filter((group) => groups.includes(group))
      .flatMap((group) => doctorChecks[group].flatMap((check) => runCheck(group, check, facts))),
  );
}

export function summarise(checks: readonly CheckResult[]): Diagnosis {
  const count = (level: CheckResult['level']): number =>
    checks.reduce((sum, check) => sum + (check.level === level ? (check.findings ?? 1) : 0), 0);
  return { checks, ok: count('ok'), warn: count('warn'), fail: count('fail') };
}

function runCheck(group: DoctorGroup, { code, well, find }: DoctorCheck, facts: DoctorFacts): CheckResult[] {
  const found = find(facts);
  if (found === undefined) return [];
  if (found.length === 0) return [{ code, group, level: 'ok', text: well }];
  const page = `docs/errors/${code}.md`;
  return (['fail', 'warn'] as const)
    .flatMap((level) => summedUp(found.filter((finding) => finding.level === level)))
    .map((finding) => ({ code, group, ...finding, page }));
}

/** Combines the findings of one check and level into a single one if there are too many to list. */
function summedUp(alike: readonly Finding[]): (Finding & Pick<CheckResult, 'findings' | 'examples'>)[] {
  const [first, ...others] = alike;
  if (first === undefined || alike.length <= shownAloneMax) return [...alike];
  const examples = others.slice(0, examplesMax).map(({ level: _same, ...example }) => example);
  return [{ ...first, findings: alike.length, examples }];
}
