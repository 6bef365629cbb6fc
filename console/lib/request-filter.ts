/** Which requests the page of requests shows: filters, as they are in its address and on the command line. */
import type { requestFilterShape } from '../../schemas/admin/requests.ts';
import { withQuery } from './api.ts';
import { shellWord } from './format.ts';
import { location } from './router.ts';
import { organisationInScope } from './scope.ts';

type FilterName = keyof typeof requestFilterShape;
export type AddressFilter = Readonly<Partial<Record<FilterName, string>>>;

/** By the filter that the control plane knows: its parameter in the address of the page. What is forgotten does not compile. */
const parameters: Readonly<Record<FilterName, string>> = {
  outcome: 'outcome',
  type: 'type',
  model: 'model',
  organisation: 'org',
  key: 'key',
  node: 'node',
  gateway: 'gateway',
  'slower-than': 'slower-than',
  since: 'since',
  request: 'request',
};

/** Of the address; of members one organisation always. */
export function filterInAddress(): AddressFilter {
  const { query } = location.value;
  const found = Object.entries(parameters).map(([name, parameter]) => [name, query.get(parameter)?.trim()]);
  const given = Object.fromEntries(found.filter(([, value]) => value)) as AddressFilter;
  const organisation = organisationInScope();
  return organisation === undefined ? given : { ...given, organisation };
}

/** What removes all filters from the address. */
export const clearedFilters = Object.fromEntries(Object.values(parameters).map((name) => [name, '']));

/** An address of the page. */
export function requestsLink(filter: AddressFilter): string {
  const named = Object.entries(filter).map(([name, value]) => [parameters[name as FilterName], value]);
  return withQuery('/requests', Object.fromEntries(named));
}

/** The same for the command line. */
export function requestOptions(filter: AddressFilter): string {
  return Object.entries(filter)
    .map(([name, value]) => ` --${name === 'organisation' ? 'org' : name} ${shellWord(value)}`)
    .join('');
}

export const requestPattern = /req_[0-9a-f]{32}/;
