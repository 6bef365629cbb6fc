import { expect, test } from 'vitest';
import { reportOf } from '../../test/support/status-reports.ts';
import { gatewayStatusSchema } from '../admin/admin-resources.ts';
import {
  type GatewayMember,
  gatewayMemberNames,
  gatewayMembers,
  reportedMembers,
  shownColumns,
  shownMembers,
} from './gateway-members.ts';
import { statusSchema } from './status.ts';

function examplesOf(member: GatewayMember): { readonly good: unknown; readonly bad: unknown } {
  const row = gatewayMembers[member];
  switch (row.kind) {
    case 'text':
      return { good: 'x'.repeat(row.charactersMax), bad: 'x'.repeat(row.charactersMax + 1) };
    case 'texts':
      return { good: Array(row.countMax).fill('x'), bad: Array(row.countMax + 1).fill('x') };
    case 'choice':
      return { good: row.values[0], bad: 'another' };
    case 'yes':
      return { good: true, bad: 'true' };
  }
}

test.each(gatewayMemberNames)(
  '%s is part of a report, within its bounds, and of a response only if it is shown',
  (member) => {
    const { good, bad } = examplesOf(member);
    const report = statusSchema.parse({ ...reportOf(), [member]: good });
    expect(report[member]).toEqual(good);
    expect(statusSchema.safeParse({ ...reportOf(), [member]: bad }).success).toBe(false);
    const isShown = gatewayMembers[member].shown !== null;
    expect(member in gatewayStatusSchema.shape).toBe(isShown);
    expect(member in reportedMembers(shownMembers, report)).toBe(isShown);
  },
);

test('members without anything to report are left out', () => {
  const nothing = {
    metrics: undefined,
    overstating: [],
    unanswering: [],
    oddForms: [],
    outOfFiles: false,
    countsTraffic: true,
  };
  expect(reportedMembers(gatewayMemberNames, nothing)).toEqual({ countsTraffic: true });
});

test('each shown member has its own column on the command line', () => {
  const headings = shownColumns.map(({ heading }) => heading);
  expect(headings).toEqual([...new Set(headings)]);
  expect(shownColumns.map(({ member }) => member)).toEqual(shownMembers);
});
