/** Tests that the parser of watch options, which does not use the schema, accepts exactly what the schema accepts. */
import { expect, test } from 'vitest';
import { parseMoment } from '../admin/moments.ts';
import { momentSchema } from '../names.ts';
import { type ChangeWatch, changeWatchSchema } from './changes.ts';
import { parseWatch } from './release.ts';

test.each(['refusals', 'errors', 'least'] satisfies (keyof ChangeWatch)[])('watch option %s', (name) => {
  const schema = changeWatchSchema.shape[name];
  for (const number of [-1, -0.5, 0, 0.5, 1, 99.5, 100, 100.5, 2 ** 53, 1e21]) {
    const isTaken = schema.safeParse(number).success;
    const parse = () => parseWatch(`${name}=${number}`);
    if (isTaken) expect(parse()).toEqual({ [name]: number });
    else expect(parse, String(number)).toThrow('must have the form');
  }
});

test.each(['', 'refusals', 'refusals=', 'refusals=x', 'others=1', 'refusals=1=2', '__proto__=1', 'least=1,'])(
  'the watch %j is refused',
  (text) => expect(() => parseWatch(text)).toThrow('must have the form'),
);

const times = ['00:00', '23:59:59', '24:00', '12:60', '12:00:60', '12:00:00.5', '12:00:00.', '1:00'];
const days = [
  '2026-11-22',
  '2026-02-29',
  '2028-02-29',
  '1900-02-29',
  '2000-02-29',
  '0000-01-01',
  '2026-13-01',
];
test('a time is accepted exactly if the schema accepts it', () => {
  for (const day of [...days, '2026-04-31', '2026-1-1', '-2026-01-01'])
    for (const time of times)
      for (const end of ['Z', '', '+00:00', 'z', 'Z\n']) {
        const text = `${day}T${time}${end}`;
        const isTaken = momentSchema.safeParse(text).success;
        expect([text, parseMoment(text, 0) !== undefined]).toEqual([text, isTaken]);
      }
});
