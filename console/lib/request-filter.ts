/** Reads the filters of the Requests page from its URL, and converts them to links and CLI options. */
import type { requestFilterShape } from '../../schemas/admin/requests.ts';
import { withQuery } from './api.ts';
import { shellWord } from './format.ts';
import { location } from './router.ts';
import { organisationInScope } from './scope.ts';

type FilterName = keyof typeof requestFilterShape;
export type AddressFilter = Readonly<Partial<Record<FilterName, string>>>;

/** URL parameter for each filter. The type requires an entry for every filter. */
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

/** Returns the filters in the URL. For members, the filter always contains one organisation. */
export function filterInAddress(): AddressFilter {
  const { query } = location.value;
  const found = Object.entries(parameters).map(([name, parameter]) => [name, query.get(parameter)?.trim()]);
  const given = Object.fromEntries(found.filter(([, value]) => value)) as AddressFilter;
  const organisation = organisationInScope();
  return organisation === undefined ? given : { ...given, organisation };
}

/** Changes to the URL's query that remove all filters. */
export const clearedFilters = Object.fromEntries(Object.values(parameters).map((name) => [name, '']));

export function requestsLink(filter: AddressFilter): string {
  const named = Object.entries(filter).map(([name, value]) => [parameters[name as FilterName], value]);
  return withQuery('/requests', Object.fromEntries(named));
}

export function requestOptions(filter: AddressFilter): string {
  return Object.entries(filter)
    .map(([name, value]) => ` --${name === 'organisation' ? 'org' : name} ${shellWord(value)}`)
    .join('');
}

export const requestPattern = /req_[0-9a-f]{32}/;
