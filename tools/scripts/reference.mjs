// Generates docs/cli.md from the built commands. Run `npm run build && npm run reference`.
import { writeFileSync } from 'node:fs';
import { processCommands } from '../../dist/cli/program.js';
import { buildProgram } from '../../dist/cli/run.js';
import { processIo } from '../../dist/cli/terminal/io.js';
import { referenceOf } from '../../dist/test/support/cli-reference.js';

writeFileSync('docs/cli.md', referenceOf(await buildProgram(processIo(), processCommands)));
