/**
 * Tests the official Anthropic library for Node, before and after its first major version. It runs with its default settings
 * against stacks that use the Anthropic API. `node test/clients/install.mjs` installs it.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { type AnthropicClient, anthropicClient } from './anthropic-driver.ts';
import {
  official,
  proveMessagesClient,
  proveNoThread,
  renewed,
  toStack,
  useMessagesFleet,
} from './messages-claims.ts';
import { failing } from './wire.ts';

const at = useMessagesFleet();

const versions = [
  { version: '0', manners: official },
  { version: '1', manners: renewed(official) },
] as const;

for (const { version, manners } of versions)
  proveMessagesClient(`@anthropic-ai/sdk ${version}`, manners, () => anthropicClient(version));

describe.each(versions)('the keys of @anthropic-ai/sdk $version', ({ version }) => {
  let client: AnthropicClient;
  beforeAll(async () => {
    client = await anthropicClient(version);
  });
  const bearer = (key: string) => ({ apiKey: null, authToken: key });
  const header = (key: string) => ({ headers: { 'x-api-key': key } });

  test('Authentication 2: the key may be in either header, or in both if they agree', async () => {
    const { acme } = at().keys;
    const ask = { ...toStack(), text: 'hello' };
    await client.send(bearer(acme), ask);
    await client.send(bearer(acme), ask, header(acme));
    await client.send({ apiKey: 'unused' }, ask, { headers: { 'x-api-key': acme, authorization: null } });
    expect(at().wires.acme.sightings).toHaveLength(3);
    const { sightings } = at().wires.acme;
    expect(
      sightings.map(({ head }) => [/^x-api-key: /im.test(head), /^authorization: /im.test(head)]),
    ).toEqual([
      [false, true],
      [true, true],
      [true, false],
    ]);
  });

  test('Authentication 2: two different keys are not accepted, even if both are valid', async () => {
    const { acme } = at().keys;
    const other = (await at().fleet.key('acme')).value;
    await at().fleet.settle();
    const sent = client.send(bearer(acme), { ...toStack(), text: 'hello' }, header(other));
    expect(await failing(client, sent)).toEqual({
      name: 'AuthenticationError',
      status: 401,
      type: 'Unauthorized',
    });
    expect(at().wires.acme.sightings).toHaveLength(1);
  });

  test('Authentication 2: on another organisation’s stack, a key counts only as a bearer token', async () => {
    const { lone } = at().keys;
    const ask = { ...toStack(), key: lone, text: 'hello' };
    const byHeader = client.send({ apiKey: 'unused' }, ask, {
      headers: { 'x-api-key': lone, authorization: null },
    });
    expect(await failing(client, byHeader)).toMatchObject({ status: 401, type: 'Unauthorized' });
    const byBearer = client.send(bearer(lone), ask);
    expect(await failing(client, byBearer)).toMatchObject({ status: 404, type: 'TargetNotServingError' });
  });
});

proveNoThread(
  () => anthropicClient('1'),
  (client, ask) => client.converseByThread(ask),
);
