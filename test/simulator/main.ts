/** Runs a node that fails as its behaviour says. Takes the options of `headgate sim-node`, and also `--behaviour`. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';
import { parseBehaviour } from './behaviour.ts';
import { startFaultyNode } from './faulty-node.ts';

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    models: { type: 'string', default: 'echo-small' },
    'tokens-per-second': { type: 'string', default: '200' },
    'context-tokens': { type: 'string', default: '131072' },
    behaviour: { type: 'string' },
    'ready-file': { type: 'string' },
  },
});
const { behaviour: path } = values;
const node = await startFaultyNode({
  port: Number(values.port),
  models: values.models.split(','),
  tokensPerSecond: Number(values['tokens-per-second']),
  contextTokens: Number(values['context-tokens']),
  ...(path !== undefined && { behaviour: parseBehaviour(readFileSync(path, 'utf8'), dirname(path)) }),
});
process.once('SIGTERM', () => process.exit());
const { 'ready-file': readyFile } = values;
if (readyFile !== undefined) {
  writeFileSync(`${readyFile}.part`, JSON.stringify({ url: node.url, pid: process.pid }));
  renameSync(`${readyFile}.part`, readyFile);
}
