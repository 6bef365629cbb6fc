/** The compiler finds the answer of a call by its method and path; these claims fail at the type check. */
import { expectTypeOf, test } from 'vitest';
import type { AdminResponse } from '../schemas/admin.ts';
import type { AnswerOf, Resource } from './answers.ts';

test('a path with ids, with more segments, or with a query has the answer of its route', () => {
  expectTypeOf<AnswerOf<'GET', `/keys/${string}`>>().toEqualTypeOf<AdminResponse<'GET /keys/:id'>>();
  expectTypeOf<AnswerOf<'POST', `/keys/${string}/revoke`>>().toEqualTypeOf<
    AdminResponse<'POST /keys/:id/revoke'>
  >();
  expectTypeOf<AnswerOf<'GET', `/usage?organisation=${string}`>>().toEqualTypeOf<
    AdminResponse<'GET /usage'>
  >();
  expectTypeOf<AnswerOf<'DELETE', '/nodes/pool-1'>>().toEqualTypeOf<AdminResponse<'DELETE /nodes/:id'>>();
});

test('a path that is known as a string only, or that is no route, has an untyped answer', () => {
  expectTypeOf<AnswerOf<'GET', string>>().toEqualTypeOf<Resource>();
  expectTypeOf<AnswerOf<'GET', '/no/such/route'>>().toEqualTypeOf<Resource>();
  expectTypeOf<AnswerOf<'POST', '/status'>>().toEqualTypeOf<Resource>();
});
