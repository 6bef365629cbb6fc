/**
 * The tests of the borders that gateways speak HTTP at. Each runs with the code that gateways use by default, as all others
 * do, and in the project `other-http` of vitest.config.ts once more with the other one, so that neither rots.
 */
export const bothHttp: readonly string[] = [
  ...['data-plane/forward/forward-no-http.test.ts', 'data-plane/forward/forward.test.ts'],
  ...['data-plane/upstream/count-tokens.test.ts', 'test/listeners/listeners.process.test.ts'],
  ...['test/operate/tls.process.test.ts', 'test/spec/bad-input.test.ts', 'test/spec/browsers.test.ts'],
  ...['test/spec/endpoints.test.ts', 'test/spec/events.test.ts', 'test/spec/identical-answers.test.ts'],
];
