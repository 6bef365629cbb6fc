// Vitest reporter that writes the results to the file in HEADGATE_TEST_REPORT, for tools/scripts/test-verdict.mjs.
import { writeFileSync } from 'node:fs';
import { relative } from 'node:path';

export default class FileReporter {
  onTestRunEnd(modules, unhandledErrors) {
    const files = modules.map((module) => {
      const tests = [...module.children.allTests()];
      const { setupDuration, collectDuration, duration } = module.diagnostic();
      return {
        project: module.project.name,
        file: relative(process.cwd(), module.moduleId),
        seconds: (setupDuration + collectDuration + duration) / 1000,
        passed: tests.filter((test) => test.result().state === 'passed').length,
        failures: [
          ...tests.flatMap((test) => failuresOf(test.fullName, test.result().errors)),
          ...failuresOf('(the file)', module.errors()),
          ...[...module.children.allSuites()].flatMap((suite) => failuresOf(suite.fullName, suite.errors())),
        ],
      };
    });
    const unhandled = [];
    for (const { message, VITEST_TEST_PATH: path } of unhandledErrors) {
      const failure = { test: '(unhandled)', message };
      const { failures } = files.find(({ file }) => path?.endsWith(`/${file}`)) ?? { failures: unhandled };
      failures.push(failure);
    }
    writeFileSync(process.env.HEADGATE_TEST_REPORT, JSON.stringify({ files, unhandled }));
  }
}

/** Counts each failed test once, however many errors it has. */
function failuresOf(test, errors = []) {
  return errors.length === 0 ? [] : [{ test, message: errors.map(({ message }) => message).join('\n') }];
}
