/**
 * Tests that the compiler derives the answer type of a call from its method and path. If a claim here is wrong, the type
 * check fails.
 */
import { expectTypeOf, test } from 'vitest';
import type { AdminResponse } from '../../schemas/admin/admin.ts';
import type { AnswerAt, Resource } from './answers.ts';

test('a path with ids, more segments or a query has its route’s response type', () => {
  expectTypeOf<AnswerAt<'GET', `/keys/${string}`>>().toEqualTypeOf<AdminResponse<'GET /keys/:id'>>();
  expectTypeOf<AnswerAt<'POST', `/keys/${string}/revoke`>>().toEqualTypeOf<
    AdminResponse<'POST /keys/:id/revoke'>
  >();
  expectTypeOf<AnswerAt<'GET', `/usage?organisation=${string}`>>().toEqualTypeOf<
    AdminResponse<'GET /usage'>
  >();
  expectTypeOf<AnswerAt<'DELETE', '/nodes/pool-1'>>().toEqualTypeOf<AdminResponse<'DELETE /nodes/:id'>>();
});

test('a path known only as a string, or without a route, has an untyped response', () => {
  expectTypeOf<AnswerAt<'GET', string>>().toEqualTypeOf<Resource>();
  expectTypeOf<AnswerAt<'GET', '/no/such/route'>>().toEqualTypeOf<Resource>();
  expectTypeOf<AnswerAt<'POST', '/status'>>().toEqualTypeOf<Resource>();
});
